#!/usr/bin/env bash
# 20 steps straight must equal 10 steps, a resume and 10 more, bit for bit: weights, optimizer, order of the data and
# all that is random included; so must what --inspect-every measures. The schedule is one that does not depend on the
# number of steps; kill.sh has the others.
# Usage: resume.sh APP SETTING...
set -euo pipefail
app=$1
. "$(dirname "$0")/../temporary_folder.sh"
losses() { grep -v seconds "$folder/$1/metrics.jsonl" | grep -o '"step":[0-9]*,"epoch":[^,]*,"loss":[^,]*,"lr":[^,]*'; }
for run in softmax-f32 rpc-f32 softmax-bf16; do
  settings=("${@:2}" --attention "${run%-*}" --dtype "${run#*-}" --schedule constant --seed 3 --quiet)
  if [ $run = rpc-f32 ]; then settings+=(--inspect-every 0.002); fi
  "$app" train "${settings[@]}" --steps 20 --out "$folder/$run-straight" >/dev/null
  "$app" train "${settings[@]}" --steps 10 --out "$folder/$run-halves" >/dev/null
  "$app" train --resume "$folder/$run-halves" --steps 20 --quiet >/dev/null
  # The config in a checkpoint's header names neither folder nor time: whole files compare.
  cmp "$folder/$run-straight/checkpoint.safetensors" "$folder/$run-halves/checkpoint.safetensors"
  losses "$run-straight" >"$folder/a"
  losses "$run-halves" >"$folder/b"
  cmp "$folder/a" "$folder/b"
  if [ $run = rpc-f32 ]; then
    cmp "$folder/$run-straight/inspections.jsonl" "$folder/$run-halves/inspections.jsonl"
    [ "$(wc -l <"$folder/$run-halves/inspections.jsonl")" -gt 2 ]
  fi
  # Another seed must give other losses at the same steps, or the comparisons above compare nothing.
  "$app" train "${settings[@]}" --seed 4 --steps 20 --out "$folder/$run-other" >/dev/null
  losses "$run-other" >"$folder/other"
  if cmp -s "$folder/a" "$folder/other"; then
    echo "$run: seeds 3 and 4 give the same losses; nothing was tested" >&2
    exit 1
  fi
done
echo "resumed runs equal straight ones"
