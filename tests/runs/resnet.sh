#!/usr/bin/env bash
# A ResNet from the command line: 6 steps straight equal 3 steps, a resume and 3 more, bit for bit, running statistics
# of batch norm and their averages included; what only attention has is refused in one line.
# Usage: resnet.sh CLASSIFY
set -euo pipefail
classify=$1
. "$(dirname "$0")/../temporary_folder.sh"
train=("$classify" train --model resnet18 --width 4 --limit 96 --test-limit 20 --batch-size 16 --ema 0.9 --mixup 0.8
       --random-erasing 0.25 --schedule constant --warmup-epochs 0 --quiet)
"${train[@]}" --steps 6 --out "$folder/straight" >/dev/null
"${train[@]}" --steps 3 --out "$folder/halves" >/dev/null
if cmp -s "$folder/straight/checkpoint.safetensors" "$folder/halves/checkpoint.safetensors"; then
  echo "3 and 6 steps give the same weights; nothing was tested" >&2
  exit 1
fi
"$classify" train --resume "$folder/halves" --steps 6 --quiet >/dev/null
cmp "$folder/straight/checkpoint.safetensors" "$folder/halves/checkpoint.safetensors"
"$classify" eval --checkpoint "$folder/straight" --limit 10 --attack pgd --budgets 2 >/dev/null
# A page with a model that attends and one that does not has the pictures of both.
"$classify" train --recipe nano-synthetic --limit 96 --test-limit 20 --batch-size 16 --steps 2 --quiet --out "$folder/vit" >/dev/null
"$classify" compare "$folder/vit" "$folder/straight" --report "$folder/compared.html" >/dev/null
grep -q ">Samples<" "$folder/compared.html" || { echo "the page has no samples" >&2 && exit 1; }
if grep "Left out" "$folder/compared.html" >&2; then exit 1; fi
grep -q "ResNet-18" "$folder/straight/report.html" || { echo "the report names no ResNet-18" >&2 && exit 1; }

. "$(dirname "$0")/refused.sh"
refused "no attention layers" "$classify" inspect --checkpoint "$folder/straight"
refused "leave --block out" "$classify" predict --checkpoint "$folder/straight" --block 0 "$folder"
refused "--attention does not apply" "${train[@]}" --attention rpc --out "$folder/other"
refused "--inspect-every does not apply" "${train[@]}" --inspect-every 1 --out "$folder/other"
echo "a ResNet resumes alike and refuses what only attention has"
