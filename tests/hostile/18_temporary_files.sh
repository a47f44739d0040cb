#!/usr/bin/env bash
# Temporary files have unpredictable names, are never written through a link, and are removed at the next start.
source "$(dirname "$0")/lib.sh"

settings=(--recipe nano --steps 30 --batch-size 8 --eval-tokens 300 --quiet)
ok lm train "${settings[@]}" --out run
check "a run leaves temporary files" [ -z "$(find . -name '*.tmp*')" ]

# Killed while it writes: what is left has a name of its own, and is gone after the next start.
"$bin/lm" train "${settings[@]}" --steps 100000 --checkpoint-steps 1 --out killed >out 2>err &
pid=$!
until [[ -s killed/checkpoint.safetensors && -n $(find killed -name '*.tmp-*') ]] && kill -STOP $pid &&
  [[ -n $(find killed -name '*.tmp-*') ]]; do
  kill -CONT $pid 2>/dev/null || fail "the training ended"
done
kill -KILL $pid
wait $pid 2>/dev/null || true
left=$(find killed -name '*.tmp-*')
[[ $left =~ \.tmp-[0-9a-f]{16}$ ]] || fail "the temporary file is called $left"
# What only looks like one stays: a folder, a link, another ending, one that a writer holds.
mkdir killed/a.tmp-0123456789abcdef
touch target killed/b.tmp-0123456789abcde killed/c.tmp-0123456789abcdeg
ln -s "$PWD/target" killed/d.tmp-0123456789abcdef
touch killed/e.tmp-0123456789abcdef
exec 9<killed/e.tmp-0123456789abcdef
flock 9
"$bin/lm" train --resume killed >out 2>err 9<&- &
pid=$!
for _ in {1..3000}; do [[ ! -e $left ]] || sleep 0.02; done
[[ ! -e $left ]] || fail "the next start left $left"
kill -TERM $pid
wait $pid || true
for file in killed/{a.tmp-0123456789abcdef,b.tmp-0123456789abcde,c.tmp-0123456789abcdeg,d.tmp-0123456789abcdef,e.tmp-0123456789abcdef} target; do
  [[ -e $file ]] || fail "$file is gone"
done
exec 9<&-
checks=$((checks + 1))

# Who writes next removes what others have left: evaluations, reports, exports, comparisons.
left=run/x.tmp-0123456789abcdef
for command in "eval --checkpoint run --limit 50 --quiet" "report run" "export --checkpoint run run/weights.safetensors" \
  "compare run --report run/runs.html"; do
  touch $left
  # shellcheck disable=SC2086
  ok lm $command
  check "lm $command leaves $left" test ! -e $left
done
done_testing
