#!/usr/bin/env bash
# Importing exported weights gives runs that match their config: no option is dropped silently, averaged weights exist if
# training continues with them, and records of other runs are removed. Usage: 26_import.sh FOLDER_OF_PROGRAMS
source "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2046
ok classify train $(toy classify) --ema 0.5 --out run
ok classify export --checkpoint run --weights ema weights.safetensors

for option in "--heads 7" "--attention rpc" "--lambda 9" "--seed 3" "--lr 0.5"; do
  # shellcheck disable=SC2086
  refuses 1 "${option/ / is }" \
    classify import weights.safetensors --out imported $option
done
check "a refused import left a folder" test ! -e imported

# Into a folder that holds records of another run.
mkdir imported
cp -r run/{eval.json,metrics.jsonl,report.html,tensorboard} imported
ok classify import weights.safetensors --out imported --heads 3 # as it is in the file
for old in eval.json metrics.jsonl report.html tensorboard; do
  check "import keeps $old" test ! -e imported/$old
done
ok classify eval --checkpoint imported --limit 4 --quiet
check "other weights are recorded" grep -q '"weights":"raw"' imported/eval.json
check "the config says that there are averaged weights" grep -q '"ema": 0.0,' imported/config.json
ok classify train --resume imported --quiet
check "training did not go on" grep -q '"step":4,.*"weights":"raw"' imported/metrics.jsonl

# A config that asks for averaged weights, as earlier versions exported it: they begin with those of the file.
sed -i 's/\\"ema\\":0.0/\\"ema\\":0.5/; s/xxh3_64/xxh3_65/' weights.safetensors
ok classify import weights.safetensors --out averaged
ok classify train --resume averaged --quiet
check "no averaged weights" grep -q '"step":4,.*"weights":"ema"' averaged/metrics.jsonl
done_testing
