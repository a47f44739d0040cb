#!/usr/bin/env bash
# eval.json: results with the same settings are merged, others are separate entries, and none is lost.
. "$(dirname "$0")/lib.sh"
entries() { grep -o '"fingerprint":' "$1/eval.json" | wc -l; }
entries_are() { check "$1: $(entries "$1") entries in eval.json, not $2" test "$(entries "$1")" == "$2"; }

read -ra toy <<<"$(toy classify)"
ok classify train "${toy[@]}" --out a
ok classify train "${toy[@]}" --attention rpc --out b
entries_are a 1
few=(eval --checkpoint a --limit 20 --quiet)
ok classify "${few[@]}" # what training measured
entries_are a 1
ok classify "${few[@]}" --corruptions fog --severities 1
ok classify "${few[@]}" --corruptions fog,snow --severities 1,2
entries_are a 1
check "corruptions of one kind add up" test "$(grep -o '"severity"' a/eval.json | wc -l)" == 4
ok classify "${few[@]}" --corruptions fog --severities 1 --seed 1
entries_are a 2
ok classify eval --checkpoint a --quiet --first 25 --limit 20
entries_are a 3
ok classify "${few[@]}" --dtype bf16
entries_are a 4
ok classify "${few[@]}" --attack fgsm --budgets 2,4 --attack-limit 8
says "none    -" out
says "8" out
entries_are a 5
says '"count":8,"settings":"","clean_top1":' a/eval.json
ok classify "${few[@]}" --attack fgsm --budgets 2 --attack-limit 8 --json
says '"count":8,' out
says '"clean_top1":' out
entries_are a 5
says "All evaluations" a/report.html
says "Budget 0: the same 8 pictures without attack" a/report.html

# Attacks on other numbers of pictures and corruptions at other severities have columns of their own.
ok classify eval --checkpoint b --limit 20 --quiet --attack fgsm --budgets 4 --corruptions fog,snow --severities 1
ok classify compare a b --report both.html
cp out both.txt
for heading in "top-1 (20" "top-1 (8" "fgsm 4/255 (8" "fgsm 4/255 (20" "fog, snow at 1-2 (20" "fog, snow at 1 (20"; do
  says "$heading" both.txt
  says "$heading" both.html
done
says "in parentheses: pictures" both.txt
check "what only one run has is marked as the best" test "$(grep -cE '^b .*fgsm[^|]*\*' both.txt)" == 0

# A run that goes on keeps the results of the earlier step.
ok classify train --resume a --steps 6 --quiet
says '"step":4,' a/eval.json
says '"step":6,' a/eval.json

# Its settings alone would give other weights: no second seed of a run that was never resumed, nor is a folder that is
# named twice.
ok classify train "${toy[@]}" --steps 6 --seed 1 --out c
ok classify compare a c ./a "$PWD/c"
check "a resumed run and a straight one are one row" test "$(grep -cE '^[ac] +1 ' out)" == 2
says "steps 4 to 6 at step 4" out
says "counts once" err
says "--resume changed steps 4 to 6 at step 4" a/report.html

# What belongs to a training that was replaced is not added to the new one's.
"$bin/classify" eval --checkpoint b --limit 20 --quiet --corruptions all >out 2>err &
evaluation=$!
before=$(grep -o '"severity"' b/eval.json | wc -l)
while [[ $(grep -o '"severity"' b/eval.json | wc -l) == "$before" ]] && kill -0 "$evaluation"; do sleep 0.02; done
"$bin/classify" train "${toy[@]}" --seed 5 --out b --overwrite >/dev/null
code=0
wait "$evaluation" || code=$?
check "an evaluation of weights that were replaced: exit code $code" test $code == 1
says "another training has begun there" err
says_not '"severity"' b/eval.json

read -ra toy <<<"$(toy lm)"
ok lm train "${toy[@]}" --out l
few=(eval --checkpoint l --quiet --window blocks)
ok lm "${few[@]}" --limit 200
ok lm "${few[@]}" --limit 100
for word in '<unk>' '<eos>' '' 'a b'; do
  refuses 1 "--swap-word" lm "${few[@]}" --limit 100 --word-swap --swap-word "$word"
done
ok lm "${few[@]}" --limit 100 --word-swap --swap-word box
ok lm "${few[@]}" --limit 100 --word-swap --swap-word box --seed 5
ok lm "${few[@]}" --limit 100 --dtype bf16
entries_are l 6
ok lm "${few[@]}" --limit 100
entries_are l 6

read -ra toy <<<"$(toy segment)"
ok segment train "${toy[@]}" --out s
few=(eval --checkpoint s --quiet --limit 3)
ok segment "${few[@]}"
ok segment "${few[@]}" --corruptions fog
entries_are s 2
ok segment "${few[@]}" --flip
ok segment "${few[@]}" --corruptions fog --seed 1
ok segment eval --checkpoint s --quiet --first 2
entries_are s 5
# Other views stand beside the run's own and do not take their place.
ok segment train "${toy[@]}" --out v
ok segment eval --checkpoint v --quiet
ok segment eval --checkpoint v --quiet --short-side 48
ok segment compare v
check "one column of each way of looking" test "$(head -n 1 out | grep -o "mIoU (" | wc -l)" == 2
says "scenes test, 200 pictures; own size" v/report.html

# A limit is of the split that is evaluated, not of the run's own training pictures.
ok segment eval --checkpoint v --split train --limit 3 --attack fgsm --budgets 1 --attack-limit 2 --quiet
check "the attack was not on 2 pictures" python3 -c '
import json
assert any(e["count"] == 2 and e.get("attacked") for e in json.load(open("v/eval.json"))["evaluations"])'
ok segment interactive train --recipe materials --steps 2 --limit 6 --test-limit 3 --batch-size 2 --quiet --out i
ok segment interactive eval --checkpoint i --split train --limit 2 --quiet
check "not 2 objects" python3 -c 'import json; assert json.load(open("i/eval.json"))["evaluations"][-1]["count"] == 2'
refuses 1 "give --key-iterations too" segment interactive eval --checkpoint i --theta 3 --quiet

# What cannot be saved is shown before it is told.
for run in "classify a --limit 4" "lm l --limit 50" "segment s --limit 2"; do
  read -r app folder limit <<<"$run"
  rm $folder/eval.json
  mkdir $folder/eval.json
  # shellcheck disable=SC2086
  refuses 1 "$folder/eval.json" $app eval --checkpoint $folder $limit --quiet
  check "$app: the result is lost" test "$(wc -l <out)" -ge 1
  # shellcheck disable=SC2086
  refuses 1 "$folder/eval.json" $app eval --checkpoint $folder $limit --quiet --json
  check "$app: the result is lost" grep -qE '"(loss|mean_iou)":' out
  rmdir $folder/eval.json
done
for app in classify segment; do
  refuses 2 "--budgets: has no effect without --attack" $app eval --checkpoint l --budgets 3
  refuses 2 "--attack-limit: has no effect without --attack" $app eval --checkpoint l --attack-limit 3
done
refuses 2 "--attack-records: has no effect without --attack" classify eval --checkpoint l --attack-records file
refuses 2 "--swap-rate: has no effect without --word-swap or" lm eval --checkpoint l --swap-rate 0.5
refuses 2 "--swap-word: has no effect without --word-swap" lm eval --checkpoint l --word-deletion --swap-word the
refuses 2 "--swap-rate: 0 is out of range, need above 0" lm eval --checkpoint l --word-swap --swap-rate 0

# A set without a test split: val is val, however it was asked for.
mkdir -p streets/{images,labels}
base64 -d >picture.png <<END
iVBORw0KGgoAAAANSUhEUgAAAAYAAAAGCAAAAADFp7CUAAAAM0lEQVR42mNg0AioWHCCgV0/vH75eQY+s7i2ddcYRG1Te7feZZBx
yZmy5wmDsnfx7MOvATa2EIc3vpZGAAAAAElFTkSuQmCC
END
for i in {10..29}; do cp picture.png streets/images/$i.png && cp picture.png streets/labels/$i.png; done
for i in {0..254}; do echo "class $i"; done >streets/classes.txt
cd streets
read -ra toy <<<"$(toy segment)"
ok segment train "${toy[@]}" --data . --validation test --test-limit 0 --out ../w
says "streets has no split test; val is taken in its place" err
ok segment eval --checkpoint ../w --quiet
says "streets val, " out
says "streets has no split test; val is taken in its place" err
ok segment eval --checkpoint ../w --split val --quiet
check "a note where there is nothing to say: $(cat err)" test ! -s err
ok segment eval --checkpoint ../w --split test --quiet
entries_are ../w 1
says_not "test" ../w/eval.json
ok segment eval --checkpoint ../w --split train --quiet # more pictures, but no measure of the run
says "streets val, 2 pictures" ../w/report.html
done_testing
