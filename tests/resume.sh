#!/usr/bin/env bash
# 20 steps straight must equal 10 steps, a resume and 10 more, bit for bit: weights, optimizer, order of the data and
# all that is random included. Usage: resume.sh APP SETTING...
set -euo pipefail
app=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for run in softmax-f32 rpc-f32 softmax-bf16; do
  settings=("${@:2}" --attention "${run%-*}" --dtype "${run#*-}" --seed 3 --quiet)
  "$app" train "${settings[@]}" --steps 20 --out "$folder/$run-straight" >/dev/null
  "$app" train "${settings[@]}" --steps 10 --out "$folder/$run-halves" >/dev/null
  "$app" train --resume "$folder/$run-halves" --steps 20 --quiet >/dev/null
  # The config in a checkpoint's header names neither folder nor time: whole files compare.
  cmp "$folder/$run-straight/checkpoint.safetensors" "$folder/$run-halves/checkpoint.safetensors"
  grep -v seconds "$folder/$run-straight/metrics.jsonl" | grep -o '"step":[0-9]*,"epoch":[0-9]*,"loss":[^,]*' >"$folder/a"
  grep -v seconds "$folder/$run-halves/metrics.jsonl" | grep -o '"step":[0-9]*,"epoch":[0-9]*,"loss":[^,]*' >"$folder/b"
  test -s "$folder/a"
  cmp "$folder/a" "$folder/b"
  # Another seed must give other weights, or the comparison above compares nothing.
  "$app" train "${settings[@]}" --seed 4 --steps 2 --out "$folder/$run-other" >/dev/null
  ! cmp -s "$folder/$run-straight/checkpoint.safetensors" "$folder/$run-other/checkpoint.safetensors"
done
echo "resumed runs equal straight ones"
