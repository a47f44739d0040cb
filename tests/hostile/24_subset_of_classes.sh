#!/usr/bin/env bash
# A folder with a subset of the model's classes: only their logits are compared, with a note. Other classes are refused.
. "$(dirname "$0")/lib.sh"
# 6 x 6 pixels of grey.
base64 -d >picture.png <<END
iVBORw0KGgoAAAANSUhEUgAAAAYAAAAGCAAAAADFp7CUAAAAM0lEQVR42mNg0AioWHCCgV0/vH75eQY+s7i2ddcYRG1Te7feZZBx
yZmy5wmDsnfx7MOvATa2EIc3vpZGAAAAAElFTkSuQmCC
END
for class in bird cat dog; do
  mkdir -p data/{train,val}/$class
  for i in 1 2 3 4; do cp picture.png data/train/$class/$i.png && cp picture.png data/val/$class/$i.png; done
done
ok classify train --data data --out run --epochs 1 --batch-size 4 --patch 3 --dim 24 --depth 1 --heads 2 --quiet
check "the split is called val" grep -q "data val" out run/eval.json
mkdir some && cp -r data/val/bird data/val/dog some/
ok classify eval --checkpoint run --data some
check "said on stderr" grep -qF "the data has 2 of the model's 3 classes; the logits of the others are left out" err
check "said on stdout" grep -qF "the data has 2 of the model's 3 classes; the logits of the others are left out" out
ok classify eval --checkpoint run --data some --json --quiet
check "in the result" grep -qF '"classes":["bird","dog"],"left_out":1,' out
# Every picture is the same, so all have one prediction, and it is one of the two classes: half are right.
check "another class was predicted: $(cut -c 1-300 out)" grep -qF '"top1":0.5,' out
ok classify eval --checkpoint run --data some --attack fgsm --budgets 1 --quiet --json
check "the attack's classes compete too: $(cut -c 1-300 out)" grep -qF '"clean_top1":0.5,' out
refuses 1 "compares the 4 highest logits, the model has 2; apgd-ce, fab-t and square need only two" \
  classify eval --checkpoint run --data some --attack apgd-t --budgets 1 --attack-space pixel --quiet
ok classify eval --checkpoint run --data some --attack cw --cw-target least --attack-space pixel --quiet --json
check "aimed at a class that the data lacks: $(cut -c 1-300 out)" grep -qE '"attack":"cw"[^}]*"top1":0.0' out
mkdir sparrows && cp -r data/val/bird sparrows/
refuses 1 "sparrows has pictures of one class only, and an attack needs two or more" \
  classify eval --checkpoint run --data sparrows --attack fgsm --budgets 1
# Whole data with few pictures is about all classes.
ok classify eval --checkpoint run --limit 2 --json --quiet
check "all classes" grep -qF '"classes":["bird","cat","dog"],"left_out":0,' out
# A report's pictures are judged by the same classes.
mkdir birds && cp -r data/train birds/train && mkdir birds/val && cp -r data/val/bird birds/val/bird
ok classify train --data birds --out birds-run --epochs 1 --batch-size 4 --patch 3 --dim 24 --depth 1 --heads 2 --quiet
grep -q "val accuracy 100.00 %" out || fail "not the only class that is tested on: $(cat out)"
says_not ", is bird" birds-run/report.html # a picture of the only class is not called wrong

# Classes of another order are no note: their labels are numbers.
mkdir -p streets/{images,labels}
for i in {10..29}; do cp picture.png streets/images/$i.png && cp picture.png streets/labels/$i.png; done
for i in {0..254}; do echo "class $i"; done >streets/classes.txt
ok segment train $(toy segment) --data streets --out streets-run
cp -r streets turned && tac streets/classes.txt >turned/classes.txt
refuses 1 "the data's classes have another order than the model's: 'class 254' is number 0 there and 254 here" \
  segment eval --checkpoint streets-run --data turned
cp -r streets renamed && sed -i 's/^/other /' renamed/classes.txt
ok segment eval --checkpoint streets-run --data renamed --quiet
grep -q "they are taken by number" err || fail "no note on other names: $(cat err)"

cp -r data/val/cat some/griffin && cp -r data/val/cat some/unicorn
refuses 1 "2 of its 4 class folders are none of the 3 classes of the training data: griffin, unicorn" \
  classify eval --checkpoint run --data some

# Errors relative to AlexNet's are for ImageNet's 1000 classes.
ok classify eval --checkpoint run --corruptions all --limit 3 --quiet
check "named for what it is: $(tail -1 out)" grep -qF "mean corruption error" out
check "a CE column" test "$(grep -cw CE out)" == 0
ok classify eval --checkpoint run --corruptions all --limit 3 --quiet --json
says_not '"mce"' out
check "mean_corruption_error" grep -qF '"mean_corruption_error":' out
done_testing
