#!/usr/bin/env bash
# Files that are truncated while in use, and inputs that are not regular files, give one line and exit code 1.
source "$(dirname "$0")/lib.sh"

mkdir text
for i in {1..40000}; do echo "anna saw the dog $((i % 97)) times near the old mill"; done >text/train.txt
head -2000 text/train.txt >text/valid.txt
settings=(--data text --dim 16 --depth 1 --heads 1 --hidden 16 --context 32 --batch-size 4 --eval-tokens 300 --quiet)
ok lm train "${settings[@]}" --cache cache --steps 2 --out first
cache=$(echo cache/*.cache)

# The mapped numbers of the text shrink under a training: what is saved stays.
"$bin/lm" train "${settings[@]}" --cache cache --steps 100000 --checkpoint-steps 20 --out run >out 2>err &
pid=$!
gets_to $pid run/checkpoint.safetensors
truncate -s 4096 "$cache"
code=0
wait $pid || code=$?
[[ $code == 1 ]] || fail "a cache that shrinks: exit code $code: $(cat err)"
grep -q "error: .*$cache.* became shorter" err || fail "a cache that shrinks: $(cat err)"
[[ $(wc -l <err) == 1 ]] || fail "a cache that shrinks: more than one line: $(cat err)"
timeout --signal=INT 3 "$bin/lm" train --resume run >out 2>err || true
grep -q "stopped at step" err || fail "going on after the cache was cut: $(cat err)"

# A cache that is cut before it is opened is made anew.
ok lm train "${settings[@]}" --cache cache --steps 2 --out second
same first/checkpoint.safetensors second/checkpoint.safetensors

# Inputs that are no files: a named pipe without a writer must not be waited for.
# shellcheck disable=SC2046
ok classify train $(toy classify) --out c
# shellcheck disable=SC2046
ok segment train $(toy segment) --out s
mkfifo pipe
for input in pipe /dev/zero; do
  refuses 1 "not a regular file" classify eval --checkpoint "$input"
  refuses 1 "not a regular file" classify predict --checkpoint c "$input"
  refuses 1 "not a regular file" segment predict --checkpoint s "$input"
  refuses 1 "not a regular file" classify import "$input" --out imported
  refuses 1 "not a regular file" lm train --recipe "$input"
done
for names in "idx:train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte" \
  "cifar:data_batch_1.bin test_batch.bin" "cifar-names:batches.meta.txt data_batch_1.bin test_batch.bin"; do
  mkdir "${names%%:*}"
  for name in ${names#*:}; do mkfifo "${names%%:*}/$name"; done
  refuses 1 "not a regular file" classify train --data "${names%%:*}" --out new
done
mkdir words
mkfifo words/train.txt words/valid.txt
refuses 1 "not a regular file" lm train --data words --out new
mkdir -p set/{train,val}/a
mkfifo set/{train,val}/a/1.png
refuses 1 "not a regular file" classify train --data set --out new
for file in config.json eval.json metrics.jsonl; do
  cp -r c broken
  rm -f "broken/$file"
  mkfifo "broken/$file"
  code=0
  timeout 20 "$bin/classify" compare broken >out 2>err || code=$?
  [[ $code != 124 ]] || fail "compare waits for a pipe called $file"
  checks=$((checks + 1))
  rm -r broken
done
[[ ! -e new ]] || fail "a refused training left a folder"

# Nor does a file take the place of a pipe.
mkfifo target
refuses 1 "no regular file" classify export --checkpoint c target
refuses 1 "no regular file" classify compare c --report target
check "the pipe is gone" test -p target
done_testing
