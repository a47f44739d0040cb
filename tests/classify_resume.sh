#!/usr/bin/env bash
# 20 steps straight must equal 10 steps, a resume and 10 more, bit for bit: weights, optimizer, loader, augmentation,
# mixup, drop path and averaged weights included. Usage: classify_resume.sh CLASSIFY
set -euo pipefail
classify=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for run in softmax-f32 rpc-f32 softmax-bf16; do
  settings=(--recipe nano-synthetic --attention "${run%-*}" --dtype "${run#*-}"
    --limit 200 --test-limit 40 --batch-size 16 --epochs 3 --drop-path 0.1 --dropout 0.1 --mixup 0.8 --cutmix 1
    --rand-augment=true --random-erasing 0.25 --crop padded
    --ema 0.9 --clip-norm 1 --seed 3 --quiet)
  "$classify" train "${settings[@]}" --steps 20 --out "$folder/$run-straight" >/dev/null
  "$classify" train "${settings[@]}" --steps 10 --out "$folder/$run-halves" >/dev/null
  "$classify" train --resume "$folder/$run-halves" --steps 20 --quiet >/dev/null
  # The config in a checkpoint's header names neither folder nor time: whole files compare.
  cmp "$folder/$run-straight/checkpoint.safetensors" "$folder/$run-halves/checkpoint.safetensors"
  grep -v seconds "$folder/$run-straight/metrics.jsonl" | grep -o '"step":[0-9]*,"epoch":[0-9]*,"loss":[^,]*' >"$folder/a"
  grep -v seconds "$folder/$run-halves/metrics.jsonl" | grep -o '"step":[0-9]*,"epoch":[0-9]*,"loss":[^,]*' >"$folder/b"
  test -s "$folder/a"
  cmp "$folder/a" "$folder/b"
  # Another seed must give other weights, or the comparison above compares nothing.
  "$classify" train "${settings[@]}" --seed 4 --steps 2 --out "$folder/$run-other" >/dev/null
  ! cmp -s "$folder/$run-straight/checkpoint.safetensors" "$folder/$run-other/checkpoint.safetensors"
done
echo "resumed runs equal straight ones"
