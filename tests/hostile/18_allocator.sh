#!/usr/bin/env bash
# A wrong PURSUIT_ALLOC gives one clear line when the first tensor is created, not before: registering the operators
# creates no tensors.
. "$(dirname "$0")/lib.sh"

export PURSUIT_ALLOC=x
for app in classify lm segment; do
  # shellcheck disable=SC2046
  refuses 1 "PURSUIT_ALLOC is 'x'; known are pool, raw and async" $app train $(toy $app) --out run
  [[ $(wc -l <err) == 1 ]] || fail "$app says more than one line: $(cat err)"
  ok $app --help
done
export PURSUIT_ALLOC=raw
ok classify train $(toy classify) --out run

done_testing
