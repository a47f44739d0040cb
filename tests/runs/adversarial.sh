#!/usr/bin/env bash
# Adversarial training: PGD accuracy at least 20 points above that of the same model trained on clean pictures, at the
# budget it was trained with; and a run resumed half-way equals a straight one bit for bit. Usage: adversarial.sh APP
set -euo pipefail
app=$1
. "$(dirname "$0")/../temporary_folder.sh"
cd "$folder"
pgd=(--adversarial pgd --adversarial-budget 4 --adversarial-steps 2)
train() {
  "$app" train --recipe nano-synthetic --attention softmax --limit 2000 --test-limit 300 --dim 48 --depth 2 --quiet \
    "$@" >/dev/null
}

train --epochs 20 --out clean
train --epochs 20 "${pgd[@]}" --out adversarial
accuracy() {
  "$app" eval --checkpoint "$1" --attack pgd --attack-space pixel --budgets 4 --attack-limit 300 --quiet --json |
    grep -o '"attacked":\[{[^]]*"top1":[0-9.]*' | grep -o '[0-9.]*$'
}
clean=$(accuracy clean)
adversarial=$(accuracy adversarial)
echo "PGD accuracy $clean trained on clean pictures, $adversarial on adversarial ones"
awk -v a="$adversarial" -v c="$clean" 'BEGIN { exit !(a != "" && c != "" && a >= c + 0.2) }'

train --steps 8 --schedule constant --dropout 0.1 "${pgd[@]}" --out straight
train --steps 4 --schedule constant --dropout 0.1 "${pgd[@]}" --out halves
"$app" train --resume halves --steps 8 --quiet >/dev/null 2>&1
cmp straight/checkpoint.safetensors halves/checkpoint.safetensors
train --steps 8 --schedule constant --dropout 0.1 --out plain
if cmp -s straight/checkpoint.safetensors plain/checkpoint.safetensors; then
  echo "adversarial training changed nothing" >&2
  exit 1
fi
