#!/usr/bin/env bash
# A checkpoint records the version of the random streams that its training draws from. Another version is refused
# by --resume in one line, but works for all other commands.
. "$(dirname "$0")/lib.sh"

for app in classify lm segment; do
  # shellcheck disable=SC2046
  ok $app train $(toy $app) --out $app
  check "$app records the version" grep -aqF '"streams":"2"' $app/checkpoint.safetensors
  sed -i 's/"streams":"2"/"streams":"1"/' $app/checkpoint.safetensors
  refuses 1 "random streams of version 1" $app train --resume $app --no-verify
  [[ $(wc -l <err) == 1 ]] || fail "$app says more than one line: $(cat err)"
done
ok classify eval --checkpoint classify --limit 20 --no-verify

done_testing
