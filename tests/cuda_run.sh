#!/usr/bin/env bash
# Training on a GPU, the simulated one in its builds: a captured step must give the bits of one that runs operator by
# operator, also across a resume, and the losses of the CPU. Usage: classify_cuda.sh CLASSIFY
set -euo pipefail
classify=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Mean training and test loss of the three epochs.
losses() { sed -nE 's/.*"step":[369],.*"train_loss":([^,]*),"test_loss":([^,]*),.*/\1 \2/p' "$1/metrics.jsonl"; }
for run in softmax-f32 rpc-bf16; do
  settings=(--attention "${run%-*}" --dtype "${run#*-}" --image-size 16 --patch 8 --dim 16 --depth 2 --heads 2 --mlp-ratio 2
    --iterations 2 --limit 12 --test-limit 8 --batch-size 4 --eval-batch-size 8 --epochs 3 --warmup-epochs 0.5
    --drop-path 0.3 --dropout 0.2 --mixup 0.8 --cutmix 1 --ema 0.8 --clip-norm 1 --seed 3 --threads 1 --quiet)
  "$classify" train "${settings[@]}" --device cuda --out "$folder/$run-graph" >/dev/null
  "$classify" train "${settings[@]}" --device cuda --no-graph --out "$folder/$run-eager" >/dev/null
  "$classify" train "${settings[@]}" --device cuda --steps 4 --out "$folder/$run-halves" >/dev/null
  "$classify" train --resume "$folder/$run-halves" --steps 0 --quiet >/dev/null
  "$classify" train "${settings[@]}" --device cpu --out "$folder/$run-cpu" >/dev/null
  losses "$folder/$run-graph" >"$folder/losses"
  test "$(wc -l <"$folder/losses")" = 3
  for other in eager halves; do
    losses "$folder/$run-$other" | cmp - "$folder/losses"
  done
  # The config in a checkpoint's header says whether it was captured as little as where it lies: whole files compare.
  cmp "$folder/$run-graph/checkpoint.safetensors" "$folder/$run-eager/checkpoint.safetensors"
  cmp <(tail -c 4000 "$folder/$run-graph/checkpoint.safetensors") <(tail -c 4000 "$folder/$run-halves/checkpoint.safetensors")
  losses "$folder/$run-cpu" | paste - "$folder/losses" | awk -v run="$run" -v most="$([[ $run = *bf16 ]] && echo 0.02 || echo 1e-4)" '
    { for (i = 1; i <= 2; ++i) { apart = ($(i + 2) - $i) / $i; if (apart < 0) apart = -apart; if (!(apart <= most)) bad = 1; if (apart > worst) worst = apart } }
    END { print run ": losses at most", worst + 0, "from those of the CPU"; exit bad || NR != 3 }'
done
echo "captured, resumed and CPU runs agree"
