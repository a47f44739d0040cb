#!/usr/bin/env bash
# Numbers out of range, and runs that do not fit in memory, are refused in one line before a run's folder is created.
source "$(dirname "$0")/lib.sh"

# Every option of `train` that takes a number refuses what is none, and names itself and its range.
for app in classify lm segment; do
  help=$("$bin/$app" train --help)
  options=$(grep -oE '^ +--[a-z-]+ (INT|UINT|FLOAT)' <<<"$help" | grep -oE '\-\-[a-z-]+')
  [[ $(wc -w <<<"$options") -gt 25 ]] || fail "$app train --help lists only $options"
  for option in $options; do
    for value in nan -inf 9223372036854775807 -9223372036854775808; do
      [[ $option$value == --seed922* ]] && continue # a seed like any other
      refuses 2 "$option" "$app" train "$option=$value" --out new
    done
  done
  for setting in threads=2147483647 threads=-1 epochs=0 epochs=9223372036854775807 batch-size=0 lr=0 lr=-1 ema=1 \
    eval-batch-size=9223372036854775807 depth=1.9 seed=-1 seed=18446744073709551616 checkpoint-seconds=-1; do
    refuses 2 "--${setting%%=*}" "$app" train "--$setting" --out new
  done
  printf 'lr = nan\n' >bad.toml
  refuses 1 "bad.toml: 'lr'" "$app" train --recipe bad.toml --out new
done
for setting in batch-size=-1 limit=-1 limit=nan threads=2147483647 seed=-1; do
  for app in classify lm segment; do refuses 2 "--${setting%%=*}" "$app" eval --checkpoint x "--$setting"; done
done
refuses 2 "--severities" classify eval --checkpoint x --severities 1,6
refuses 2 "--budgets" classify eval --checkpoint x --budgets nan
refuses 2 "need 1 to 65535" classify eval --checkpoint x --spsa-steps 65536 # the streams that a picture has
refuses 2 "--temperature" lm generate --checkpoint x --temperature nan
refuses 2 "--top-p" lm generate --checkpoint x --top-p 0
refuses 2 "--scales" segment eval --checkpoint x --scales 1,inf
refuses 2 "--opacity" segment predict --checkpoint x --opacity nan x.png
refuses 2 "--threads" bench list --threads 2147483647

# More than any machine has.
refuses 1 "takes about" lm train --recipe nano --batch-size 10000000 --out new
refuses 1 "--batch-size" lm train --recipe nano --context 1000000 --batch-size 64 --out new
refuses 1 "takes about" lm train --recipe nano --eval-batch-size 10000000 --out new
refuses 1 "takes about" lm train --recipe nano --dim 65536 --depth 1000 --heads 64 --out new
refuses 1 "takes about" classify train --recipe nano-synthetic --batch-size 10000000 --out new
refuses 1 "takes about" classify train --recipe nano-synthetic --eval-batch-size 10000000 --out new
refuses 1 "takes about" segment train --recipe nano --batch-size 1000000 --out new
[[ ! -e new ]] || fail "a refused training left a folder"
for app in classify lm segment; do
  # shellcheck disable=SC2046
  ok "$app" train $(toy "$app") --out "$app"
done
refuses 1 "--batch-size" classify eval --checkpoint classify --batch-size 16000000
refuses 1 "--batch-size" lm eval --checkpoint lm --batch-size 16000000
refuses 1 "lower --eval-batch-size: a resumed run keeps its other sizes" \
  lm train --resume lm --steps 8 --eval-batch-size 10000000
refuses 1 "lower --batch-size, --eval-batch-size, --height, --width or, by" \
  segment train --recipe nano --encoder classify --batch-size 1000000 --out new
refuses 1 "--spsa-samples" classify eval --checkpoint classify --attack spsa --spsa-samples 1000000

# Under a limit in which the libraries would hang every program ends in one line.
for program in classify lm segment bench; do
  (
    ulimit -v 250000
    refuses 1 "ulimit -v" "$program" --help
  )
  checks=$((checks + 1))
done

# The limit of the shell counts: what is too much for it is refused, what fits goes on.
(
  ulimit -v 3000000
  # shellcheck disable=SC2046
  refuses 1 "ulimit -v" classify train $(toy classify) --batch-size 60 --dim 960 --depth 60 --out new
  # shellcheck disable=SC2046
  ok classify train $(toy classify) --out small
  # shellcheck disable=SC2046
  refuses 1 "1024 threads" classify train $(toy classify) --threads 1024 --out new-threads
)
[[ ! -e new ]] || fail "a refused training left a folder"
done_testing
