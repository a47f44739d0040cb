#!/usr/bin/env bash
# A small app that uses the apps' shared code (tests/study_app): its commands, resuming, messages for mistakes.
# Usage: study_app.sh PROGRAM
set -euo pipefail
program=$(realpath "$1")
. "$(dirname "$0")/../temporary_folder.sh"
cd "$folder"
fail() { echo "FAILED: $*" >&2 && exit 1; }

train=("$program" train --quiet --threads 1 --points 1024 --epochs 30 --test-points 400)
for seed in 0 1; do "${train[@]}" --seed $seed --out "run-$seed" >out; done
grep -q "test accuracy" out || fail "train: $(cat out)"
python3 - out <<'END' || fail "nothing was learnt: $(cat out)"
import sys
words = open(sys.argv[1]).read().split()
sys.exit(float(words[words.index("accuracy") + 1]) < 90)
END
# Half of it, and on from there: the same weights.
"${train[@]}" --schedule constant --steps 16 --out half >out
"${train[@]}" --schedule constant --steps 32 --out whole >out
"$program" train --resume half --steps 32 --quiet >out 2>err
"$program" export half.safetensors --checkpoint half >out
"$program" predict --checkpoint half -- 0.5 0.2 -0.5 0.1 >of_half
"$program" predict --checkpoint half.safetensors -- 0.5 0.2 -0.5 0.1 >of_export
"$program" predict --checkpoint whole -- 0.5 0.2 -0.5 0.1 >of_whole
cmp of_half of_export
cmp of_half of_whole
[[ $(wc -l <of_half) == 2 ]] || fail "predict: $(cat of_half)"

"$program" eval --checkpoint run-0 --noise 0,0.5 --quiet >out
[[ $(grep -c " 400 " out) == 2 ]] || fail "eval: $(cat out)"
"$program" eval --checkpoint run-0 --noise 0,0.5 --quiet --json >first
"$program" eval --checkpoint run-0 --noise 0,0.5 --quiet --json >again
cmp first again
python3 - <<'END' || fail "eval.json"
import json, sys
all = json.load(open("run-0/eval.json"))["evaluations"]
clean, noisy = (next(e["accuracy"] for e in all if e["noise"] == noise) for noise in (0, 0.5))
sys.exit(len(all) != 2 or not 0.4 < noisy < clean)
END
"$program" report run-0
grep -q "All evaluations" run-0/report.html || fail "no evaluations in the report"
"$program" compare run-0 run-1 --report both.html >out
grep -q "run-0 and 1 more" out || fail "compare: $(cat out)"
grep -q "Comparison of spirals" both.html || fail "no comparison"

refused() {
  local code=0
  "$program" "${@:2}" >out 2>err || code=$?
  [[ $code != 0 ]] && grep -q -- "$1" err && [[ $(wc -l <err) == 1 ]] || fail "${*:2}: code $code, $(cat err)"
}
refused "need 1 to 4096" train --hidden 0
refused "did you mean" train --hiden 8
refused "inspect-every" train --inspect-every 1
refused "nowhere" eval --checkpoint nowhere
refused "two for each point" predict --checkpoint run-0 1 2 3
refused "out of range" eval --checkpoint run-0 --noise -1
echo "an app in four files"
