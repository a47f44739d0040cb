#!/usr/bin/env bash
# A run with non-finite numbers stops and keeps its earlier checkpoints: non-finite weights never replace a checkpoint,
# and the message names the checkpoint that is kept. Usage: 12_not_finite.sh FOLDER_OF_PROGRAMS
source "$(dirname "$0")/lib.sh"

# Weights grow a million millionfold with every step.
diverges=(--lr 1e6 --weight-decay 1e6 --schedule constant --warmup-epochs 0 --steps 200 --eval-every 0)
for app in classify lm segment; do
  # shellcheck disable=SC2046
  refuses 1 "; $app/checkpoint.safetensors of step" "$app" train $(toy "$app") "${diverges[@]}" --checkpoint-steps 1 --out "$app"
  kept=$(grep -oE 'safetensors of step [0-9]+ is kept' err | grep -oE '[0-9]+')
  check "$app: the checkpoint is of another step than $kept" grep -qa "step\\\\\":$kept," "$app/checkpoint.safetensors"
  refuses 1 "; $app/checkpoint.safetensors of step $kept is kept" "$app" train --resume "$app" --quiet
done

# shellcheck disable=SC2046
refuses 1 "no checkpoint was saved before" classify train $(toy classify) "${diverges[@]}" --out first
check "a checkpoint that is not finite was saved" test ! -e first/checkpoint.safetensors

# So does an evaluation with non-finite numbers.
for app in classify lm segment; do
  # shellcheck disable=SC2046
  refuses 1 "in the evaluation at step" "$app" train $(toy "$app") "${diverges[@]}" --eval-every 0.0001 --out "$app-evaluated"
  grep -qF "Use a lower --lr, or --clip-norm" err || fail "$app: says not what to do: $(cat err)"
done

# A file with such weights is not imported.
# shellcheck disable=SC2046
ok classify train $(toy classify) --out run
ok classify export --checkpoint run weights.safetensors
sed -i 's/xxh3_64/xxh3_65/' weights.safetensors # as a file without checksums
printf '\377\377\377\377' | dd of=weights.safetensors bs=1 seek=$(($(stat -c %s weights.safetensors) - 4)) conv=notrunc status=none
refuses 1 "weights.safetensors: '" classify import weights.safetensors --out imported
check "a refused import left a folder" test ! -e imported
done_testing
