#!/usr/bin/env bash
# FAN and its RPC form from the command line: 20 steps straight equal 10 steps, a resume and 10 more, bit for bit;
# evaluated under an attack, predicted, inspected, compared, exported and imported again.
# Usage: fan.sh CLASSIFY
set -euo pipefail
classify=$1
. "$(dirname "$0")/../temporary_folder.sh"
fail() { echo "FAILED: $*" >&2 && exit 1; }
for attention in softmax rpc; do
  run=$folder/$attention
  train=("$classify" train --model fan-tiny --attention $attention --dim 16 --depth 2 --heads 2 --mlp-ratio 2 --patch 8
         --limit 160 --test-limit 20 --batch-size 16 --ema 0.9 --drop-path 0.1 --dropout 0.1 --mixup 0.8
         --random-erasing 0.25 --schedule constant --warmup-epochs 0 --quiet)
  "${train[@]}" --steps 20 --out "$run" >/dev/null
  "${train[@]}" --steps 10 --out "$run-halves" >/dev/null
  ! cmp -s "$run/checkpoint.safetensors" "$run-halves/checkpoint.safetensors" ||
    fail "10 and 20 steps give the same weights; nothing was tested"
  "$classify" train --resume "$run-halves" --steps 20 --quiet >/dev/null
  cmp "$run/checkpoint.safetensors" "$run-halves/checkpoint.safetensors"
  "$classify" eval --checkpoint "$run" --limit 10 --attack pgd --budgets 2 >/dev/null
  "$classify" inspect --checkpoint "$run" --samples 2 --decompose 1 >"$folder/said"
  grep -q "blocks.1" "$folder/said" || fail "inspect says: $(cat "$folder/said")"
  "$classify" export --checkpoint "$run" "$run.safetensors" >/dev/null
  "$classify" import "$run.safetensors" --out "$run-imported" >"$folder/said"
  grep -q "FAN with $attention attention" "$folder/said" || fail "import says: $(cat "$folder/said")"
done
for attention in softmax rpc; do  # on the film strip of L and S, which is a picture too
  for run in "$folder/$attention" "$folder/$attention-imported"; do
    "$classify" predict --checkpoint "$run" --block 1 --json --out "$folder/out" "$folder/rpc/inspect.png" >"$run.json"
    grep -q '"logit"' "$run.json" || fail "predict says: $(cat "$run.json")"
  done
  cmp "$folder/$attention.json" "$folder/$attention-imported.json"
done
! cmp -s "$folder/softmax.json" "$folder/rpc.json" || fail "softmax and rpc predict the same"
"$classify" compare "$folder/softmax" "$folder/rpc" >/dev/null
grep -q "FAN with RPC-Attention" "$folder/rpc/report.html" || fail "the report does not name the model"

. "$(dirname "$0")/refused.sh"
refused "need -2 to 1" "$classify" predict --checkpoint "$folder/rpc" --block 2 "$folder"
refused "4, 8 or 16" "${train[@]}" --patch 2 --out "$folder/other"
refused "--stem does not apply" "${train[@]}" --stem small --out "$folder/other"
echo "FAN and RPC-FAN resume alike, are attacked, inspected, exported and imported"
