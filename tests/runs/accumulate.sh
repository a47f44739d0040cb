#!/usr/bin/env bash
# Gradients of several batches add up to those of one batch of all their samples: --batch-size 4 --accumulate 4 trains as
# --batch-size 16 does, dropout and the last, partial step of a text included; and it resumes bit for bit.
# Usage: accumulate.sh APP SETTING...  (without mixup, which is drawn by batches; --data text is a small one)
set -euo pipefail
app=$1
. "$(dirname "$0")/../temporary_folder.sh"
mkdir "$folder/text"
for split in train valid; do # 3,300 words: 52 rows of 64, three steps of 16 and one of 4
  awk 'BEGIN { for (i = 1; i <= 300; i++) { for (j = 1; j <= 10; j++) printf "w%d ", (i * i + j * j) % 41; print "" } }' \
    >"$folder/text/$split.txt"
done
cd "$folder"
# Of every tenth step, and the mean of every epoch.
losses() { grep -oE '"(train_)?loss":[^,}]*' "$1/metrics.jsonl" | cut -d: -f2; }
for attention in softmax rpc; do
  settings=("${@:2}" --attention "$attention" --schedule constant --seed 3 --quiet)
  "$app" train "${settings[@]}" --steps 20 --batch-size 16 --out one >/dev/null 2>&1
  "$app" train "${settings[@]}" --steps 20 --batch-size 4 --accumulate 4 --out four >/dev/null 2>&1
  paste <(losses one) <(losses four) | awk '
    { d = ($1 - $2) / $1; if (d < 0) d = -d; if (!(d <= 1e-6)) bad = 1; if (d > most) most = d; n++ }
    END { printf "%d losses, largest difference %.2g\n", n, most; exit bad || n < 3 }'
  "$app" train "${settings[@]}" --steps 7 --batch-size 4 --accumulate 4 --out part >/dev/null 2>&1
  "$app" train --resume part --steps 20 --quiet >/dev/null 2>&1
  cmp four/checkpoint.safetensors part/checkpoint.safetensors
  rm -r one four part
done
