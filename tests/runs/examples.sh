#!/usr/bin/env bash
# examples.sh BIN: the programs of apps/examples, each with three seeds and a threshold for its result, and the first
# exercise of the course.
set -euo pipefail
bin=$1

# holds PROGRAM WORD OP BAR: every number behind WORD in what the program prints; none is a failure, and so is NaN.
holds() {
  awk -v program="$1" -v word="$2" -v op="$3" -v bar="$4" '
    { for (i = 1; i < NF; ++i) if ($i == word) {
        ++found
        number = $(i + 1) + 0
        good = $(i + 1) ~ /^[0-9]/ && (op == "<" ? number < bar : number > bar)
        if (!good) { print program ": " word " " $(i + 1) ", need " op " " bar > "/dev/stderr"; failed = 1 }
      } }
    END { if (!found) { print program ": no line with " word > "/dev/stderr"; failed = 1 }; exit failed }'
}

for seed in 0 1 2; do
  "$bin/example_spiral" --seed $seed | holds "spiral, seed $seed" accuracy ">" 99
  "$bin/exercise_five_arms" --seed $seed | holds "five arms, seed $seed" accuracy ">" 95
  "$bin/example_lenet" --seed $seed | holds "lenet, seed $seed" accuracy ">" 88
  "$bin/example_attention" --seed $seed | holds "attention, seed $seed" difference "<" 2e-6
  "$bin/example_characters" --seed $seed | holds "characters, seed $seed" loss "<" 0.45
done
said=$("$bin/example_spiral" --sed 1 2>&1) && echo "example_spiral takes --sed" >&2 && exit 1
[[ $said == *"did you mean --seed?"* ]] || { echo "example_spiral --sed 1 says: $said" >&2 && exit 1; }
