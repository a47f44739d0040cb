#!/usr/bin/env bash
# kill -9 at 20 moments of a run that saves every second step: the checkpoint is always whole, and the run that was
# killed so often ends with the weights of one that never was. Usage: classify_kill.sh CLASSIFY
set -euo pipefail
classify=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
settings=(--recipe nano-synthetic --limit 640 --test-limit 20 --batch-size 8 --epochs 2 --eval-every 0
  --checkpoint-steps 2 --quiet)
"$classify" train "${settings[@]}" --out "$folder/whole" >/dev/null
"$classify" train "${settings[@]}" --out "$folder/killed" >/dev/null 2>&1 &
run=$!
kills=0
while ((kills < 20)); do
  sleep "0.$((RANDOM % 40 + 5))"
  if ! kill -9 "$run" 2>/dev/null; then break; fi
  wait "$run" 2>/dev/null || true
  kills=$((kills + 1))
  if [[ ! -f $folder/killed/config.json ]]; then
    "$classify" train "${settings[@]}" --out "$folder/killed" >/dev/null 2>&1 &
  else
    "$classify" train --resume "$folder/killed" --quiet >/dev/null 2>&1 &
  fi
  run=$!
done
wait "$run" || true
"$classify" train --resume "$folder/killed" --quiet >/dev/null
cmp "$folder/whole/checkpoint.safetensors" "$folder/killed/checkpoint.safetensors"
((kills >= 5)) || { echo "only $kills kills hit a running process; nothing was tested" >&2; exit 1; }
echo "killed $kills times; the weights are those of an undisturbed run"
