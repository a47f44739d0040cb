#!/usr/bin/env bash
# kill -9 at 20 moments of a run that saves every second step: the checkpoint is always complete, and the killed run
# ends with the same weights as one that was never killed. Usage: kill.sh APP SETTING...
set -euo pipefail
app=$1
. "$(dirname "$0")/../temporary_folder.sh"
settings=("${@:2}" --checkpoint-steps 2 --quiet)
begin=$(date +%s%3N)
"$app" train "${settings[@]}" --out "$folder/whole" >/dev/null
span=$(($(date +%s%3N) - begin)) # ms
"$app" train "${settings[@]}" --out "$folder/killed" >/dev/null 2>&1 &
run=$!
kills=0
while ((kills < 20)); do
  pause=$((span / 40 + RANDOM % (span / 8 + 1)))
  sleep "$(printf '%d.%03d' $((pause / 1000)) $((pause % 1000)))"
  if ! kill -9 "$run" 2>/dev/null; then break; fi
  wait "$run" 2>/dev/null || true
  kills=$((kills + 1))
  if [[ ! -f $folder/killed/config.json ]]; then
    "$app" train "${settings[@]}" --out "$folder/killed" >/dev/null 2>&1 &
  else
    "$app" train --resume "$folder/killed" --quiet >/dev/null 2>&1 &
  fi
  run=$!
done
wait "$run" || true
"$app" train --resume "$folder/killed" --quiet >/dev/null
cmp "$folder/whole/checkpoint.safetensors" "$folder/killed/checkpoint.safetensors"
((kills >= 5)) || { echo "only $kills kills hit a running process; nothing was tested" >&2; exit 1; }
echo "killed $kills times; the weights are those of an undisturbed run"
