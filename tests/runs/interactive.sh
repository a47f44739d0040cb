#!/usr/bin/env bash
# `segment interactive`: its commands on drawn scenes, resuming and ranks bit for bit, a study, messages for mistakes.
# Usage: interactive.sh SEGMENT
set -euo pipefail
program=("$(realpath "$1")" interactive)
. "$(dirname "$0")/../temporary_folder.sh"
cd "$folder"
fail() { echo "FAILED: $*" >&2 && exit 1; }
# refuses TEXT COMMAND...: it ends with an error, of one line that says TEXT.
refuses() {
  "${program[@]}" "${@:2}" >out 2>err && fail "${*:2}: is not refused"
  grep -qF -- "$1" err || fail "${*:2}: says no '$1' but: $(cat err)"
  [[ $(wc -l <err) == 1 ]] || fail "${*:2}: says more than one line: $(cat err)"
}

toy=(--recipe materials --dim 12 --depth 1 --key-dim 8 --batch-size 4 --limit 40 --test-limit 6 --quiet --schedule constant
     --flip 0.5 --photometric true --train-clicks 3)
"${program[@]}" recipes >out
grep -qx materials out || fail "recipes: $(cat out)"
"${program[@]}" train --help >out
grep -q -- "--place-unit" out || fail "train --help: $(cat out)"
"${program[0]}" --help >out
grep -q "interactive " out || fail "segment --help does not list it: $(cat out)"

# Half of it, and on from there: the same weights.
"${program[@]}" train "${toy[@]}" --steps 8 --out whole >out
grep -q "mIoU .* after 5 clicks" out || fail "train: $(cat out)"
"${program[@]}" train "${toy[@]}" --steps 4 --out half >out
"${program[@]}" train --resume half --steps 8 --quiet >out 2>err
cmp whole/checkpoint.safetensors half/checkpoint.safetensors || fail "a resumed run is another one"
"${program[@]}" train "${toy[@]}" --steps 8 --seed 1 --out other >out
cmp -s whole/checkpoint.safetensors other/checkpoint.safetensors && fail "the seed makes no difference"

# Evaluations: the same twice, kept apart where the answers or the robot differ.
"${program[@]}" eval --checkpoint whole --limit 5 --quiet --json >first
"${program[@]}" eval --checkpoint whole --limit 5 --quiet --json >again
cmp first again || fail "evaluations differ"
"${program[@]}" eval --checkpoint whole --limit 5 --quiet --robot-seed 1 >out
grep -q "robot user: random, seed 1" out || fail "eval: $(cat out)"
"${program[@]}" eval --checkpoint whole --limit 5 --quiet --propagate false --noise 0.15 >out
"${program[@]}" eval --checkpoint whole --limit 5 --quiet --key-iterations 1 --theta 3 >out
python3 - first <<'END' || fail "eval: $(cat first)"
import json, sys
one = json.load(open(sys.argv[1]))
iou, targets = one["mean_iou"], {t["iou"]: t for t in one["targets"]}
assert one["count"] == 5 and len(iou) == 20 and all(0 <= x <= 1 for x in iou)
assert sorted(targets) == [0.8, 0.85, 0.9]
assert all(1 <= t["clicks"] <= 20 and 0 <= t["never"] <= 5 for t in targets.values())
all = json.load(open("whole/eval.json"))["evaluations"]
assert len(all) == 5, len(all)  # training's and four
assert len({(e["answers"], e["robot"], e["data"]) for e in all}) == 5
END
for what in "What clicks do" "Clicks" "robot user" "NoC@85"; do
  grep -q "$what" whole/report.html || fail "the report has no '$what'"
done
grep -q "Left out" whole/report.html && fail "the report leaves samples out: $(grep -o "Left out[^<]*" whole/report.html)"
grep -q "IoU [0-9.]* %" whole/report.html || fail "the report has no masks after clicks"

"${program[@]}" compare whole other --report both.html >out
grep -q "NoC@85" out || fail "compare: $(cat out)"
[[ -s both.html ]] || fail "compare wrote no page"
"${program[@]}" report whole >out
"${program[@]}" export weights.safetensors --checkpoint whole >out
"${program[@]}" eval --checkpoint weights.safetensors --limit 5 --quiet --json >exported
python3 - <<'END' || fail "the exported weights answer otherwise"
import json
a, b = (json.load(open(f))["mean_iou"] for f in ("first", "exported"))
assert a == b
END

cat >tiny.toml <<'END'
recipe = "materials"
seeds = [0, 1]
[options]
dim = 8
depth = 0
key-dim = 4
batch-size = 4
steps = 2
limit = 8
test-limit = 2
[variants.plain]
[variants.adapted]
key-iterations = 1
theta = 0.3
[evaluations.clean]
limit = 3
[evaluations.shifted]
limit = 3
noise = 0.15
END
"${program[@]}" study tiny.toml --out study --quiet >out 2>&1 || fail "study: $(cat out)"
grep -q "mIoU@3" study/study.html || fail "the study's page has no mIoU@3"

refuses "--ratio-max is" train --ratio-min 2 --ratio-max 1
refuses "--inspect-every" train --inspect-every 1
refuses "a multiple of 8 pixels" train --halvings 3 --height 36
refuses "need at most 32768: more --halvings" train --height 1024 --width 1024
refuses "--prior magnitude" train --refresh-prior true
refuses "out of range" train --train-clicks 0
refuses "no known layout" eval --checkpoint whole --data "$folder"
refuses "leave it out with --data" eval --checkpoint whole --data "$folder" --noise 0.1
refuses "did you mean eval" evil
refuses "needs true or false" eval --checkpoint whole --clamp maybe
# A run of another app, and the other way round.
"${program[0]}" train --recipe nano --limit 8 --test-limit 1 --batch-size 4 --depth 1 --dim 48 --patch 16 --steps 1 --quiet \
  --out segmenter >out
refuses "segment" eval --checkpoint segmenter
"${program[0]}" eval --checkpoint whole >out 2>err && fail "segment eval takes a run of interactive"
grep -q "interactive" err || fail "segment eval: $(cat err)"
# What no weight can be.
python3 - <<'END'
import json, struct
data = bytearray(open("whole/checkpoint.safetensors", "rb").read())
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8 : 8 + size])
at = 8 + size + header["bias"]["data_offsets"][0]
data[at : at + 4] = struct.pack("<f", float("nan"))
open("nan.safetensors", "wb").write(data)
END
refuses "NaN" eval --checkpoint nan.safetensors --no-verify --limit 1 --quiet
echo "segment interactive: all commands"
