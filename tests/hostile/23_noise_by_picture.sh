#!/usr/bin/env bash
# The random numbers of an attack depend only on the picture, not on the other pictures evaluated.
source "$(dirname "$0")/lib.sh"

ok classify train $(toy classify) --out run
# The sum, over the pictures used, of the l2 length of their noise.
length() {
  ok classify eval --checkpoint run --attack noise --json --quiet "$@"
  sed 's/.*"attacked":\[{[^}]*"count":\([0-9]*\),[^}]*"l2":\([0-9.]*\).*/\1 \2/' out |
    awk '{ printf "%.9f\n", $1 * $2 }'
}
holds() { awk "BEGIN { exit !($1) }"; }

one=$(length --first 1)             # picture 0
b=$(length --first 500 --limit 2)   # 0, 250
c=$(length --first 1000 --limit 2)  # 0, 500
d=$(length --first 1500 --limit 2)  # 0, 750
all=$(length --first 1000 --limit 4)
check "the noise of a picture depends on --limit: $one, $b, $c, $d, $all" \
  holds "($b + $c + $d - 2 * $one - $all) ^ 2 < 1e-8"
check "every picture has the same noise: $one, $b" holds "($b - 2 * $one) ^ 2 > 1e-8"
check "the noise depends on the batch size" \
  holds "($(length --first 3 --batch-size 1) - $(length --first 3 --batch-size 3)) ^ 2 < 1e-8"
refuses 2 "--first" classify eval --checkpoint run --first -1
done_testing
