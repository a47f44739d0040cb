#!/usr/bin/env bash
# Training on a GPU, real or simulated: 9 captured steps must give the same bits as 9 that run operator by operator, and
# as 4, a resume and 5 more; the losses must be those of the CPU. Usage: cuda_run.sh APP SETTING...
set -euo pipefail
app=$1
. "$(dirname "$0")/../temporary_folder.sh"
# The evaluations of a run, those at the steps at which the captured run has one.
evaluations() {
  sed -nE '/"train_loss"/{s/,"seconds":[^,}]*//;p}' "$folder/$1/metrics.jsonl" |
    grep -Ff <(grep train_loss "$folder/$run-graph/metrics.jsonl" | grep -o '"step":[0-9]*,')
}
losses() { evaluations "$1" | grep -oE '"[a-z_]*loss":[^,}]*' | cut -d: -f2; }
for run in softmax-f32 rpc-bf16; do
  settings=("${@:2}" --attention "${run%-*}" --dtype "${run#*-}" --schedule constant --seed 3
    --threads 1 --quiet)
  "$app" train "${settings[@]}" --steps 9 --device cuda --out "$folder/$run-graph" >/dev/null
  "$app" train "${settings[@]}" --steps 9 --device cuda --no-graph --out "$folder/$run-eager" >/dev/null
  "$app" train "${settings[@]}" --steps 4 --device cuda --out "$folder/$run-halves" >/dev/null
  "$app" train --resume "$folder/$run-halves" --steps 9 --quiet >/dev/null
  "$app" train "${settings[@]}" --steps 9 --device cpu --out "$folder/$run-cpu" >/dev/null
  evaluations "$run-graph" >"$folder/evaluations"
  test "$(wc -l <"$folder/evaluations")" -ge 3
  for other in eager halves; do
    evaluations "$run-$other" | cmp - "$folder/evaluations"
    # The config in a checkpoint's header says neither whether it was captured nor where it lies: whole files compare.
    cmp "$folder/$run-graph/checkpoint.safetensors" "$folder/$run-$other/checkpoint.safetensors"
  done
  paste <(losses "$run-cpu") <(losses "$run-graph") | awk -v run="$run" -v most="$([[ $run = *bf16 ]] && echo 0.02 || echo 1e-4)" '
    { apart = ($2 - $1) / $1; if (apart < 0) apart = -apart; if (!(apart <= most)) bad = 1; if (apart > worst) worst = apart }
    END { print run ": " NR " losses at most", worst + 0, "from those of the CPU"; exit bad || NR < 3 }'
done
echo "captured, eager, resumed and CPU runs agree"
