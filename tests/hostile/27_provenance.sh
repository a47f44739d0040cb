#!/usr/bin/env bash
# The provenance of a run and its results is in config.json and eval.json, not in checkpoints. A run resumes only with
# the same data, in any folder.
. "$(dirname "$0")/lib.sh"
for app in classify segment lm; do
  read -ra toy <<<"$(toy $app)"
  ok $app train "${toy[@]}" --out $app
  for key in '"app": "'$app'"' '"version": ' '"commit": ' '"processor": ' '"threads": ' '"from": 0' '"data-fingerprint": '; do
    says "$key" $app/config.json
  done
  for key in '"fingerprint":' '"made_by":{"version":' '"commit":' '"processor":' '"threads":' '"dtype":'; do
    says "$key" $app/eval.json
  done
  for word in made-by processor; do says_not "$word" $app/checkpoint.safetensors; done
  ok $app train "${toy[@]}" --out $app-again
  same $app/checkpoint.safetensors $app-again/checkpoint.safetensors
  # Another machine or program goes on: both are recorded.
  sed -i 's/"processor": "[^"]*"/"processor": "an abacus"/' $app/config.json
  ok $app train --resume $app --steps 6 --quiet
  says '"processor": "an abacus"' $app/config.json
  says '"from": 4' $app/config.json
done

base64 -d >picture.png <<END
iVBORw0KGgoAAAANSUhEUgAAAAYAAAAGCAAAAADFp7CUAAAAM0lEQVR42mNg0AioWHCCgV0/vH75eQY+s7i2ddcYRG1Te7feZZBx
yZmy5wmDsnfx7MOvATa2EIc3vpZGAAAAAElFTkSuQmCC
END
for class in cat dog; do
  for split in train val; do
    mkdir -p data/$split/$class
    for i in 1 2 3 4; do cp picture.png data/$split/$class/$i.png; done
  done
done
ok classify train --data data --out run --steps 2 --epochs 8 --batch-size 4 --patch 3 --dim 24 --depth 1 --heads 2 --quiet
cp -r data moved
ok classify train --resume run --data moved --steps 3 --quiet
cp -r data less && rm less/train/cat/3.png
refuses 1 "less: not the training data that the run was started with" classify train --resume run --data less --steps 4
cp -r data changed && printf 'x' >>changed/val/dog/1.png
refuses 1 "changed: not the evaluation data that the run was started with" \
  classify train --resume run --data changed --steps 4
ok classify train --resume run --data data --steps 4 --quiet
done_testing
