#!/usr/bin/env bash
# classify corrupt: its output files, and one line for each mistake.
source "$(dirname "$0")/lib.sh"

base64 -d >picture.png <<END
iVBORw0KGgoAAAANSUhEUgAAAAwAAAAICAIAAABChommAAAAG0lEQVR42mNkYGAQYeDBj1gY5HgYGAig4a0IAABQBkA2jSzCAAAAAElFTkSuQmCC
END
ok classify corrupt picture.png --out all
check "not all 15 corruptions at 5 severities" test "$(find all -name 'picture-*-[1-5].png' | wc -l)" = 75
grep -q -- "--frost" err || fail "drawn frost is not noted: $(cat err)"

ok classify corrupt picture.png --corruption fog,snow --severity 2,4 --out some --seed 3
check "not four pictures" test "$(find some -type f | wc -l)" = 4
check "a note without frost: $(cat err)" test ! -s err
ok classify corrupt picture.png --corruption fog --severity 2 --out again --seed 3
same some/picture-fog-2.png again/picture-fog-2.png
ok classify corrupt picture.png --corruption fog --severity 2 --out other --seed 4
check "the seed changes nothing" test "$(cmp -s some/picture-fog-2.png other/picture-fog-2.png; echo $?)" = 1
ok classify corrupt picture.png --corruption contrast --severity 1 --size 28 --out resized
check "--size is not the size" test "$(od -An -tx1 -j16 -N8 resized/picture-contrast-1.png)" = " 00 00 00 1c 00 00 00 1c"

refuses 2 "rain" classify corrupt picture.png --corruption rain --out none
refuses 2 "--severity: there is no '6'" classify corrupt picture.png --severity 6 --out none
refuses 1 "--size" classify corrupt picture.png --size -1 --out none
refuses 1 "frost1" classify corrupt picture.png --frost /nowhere --out none
refuses 1 "missing.png" classify corrupt missing.png --corruption fog --out none
refuses 2 "--out" classify corrupt picture.png
check "a mistake in the options left a folder" test ! -e none/picture-fog-1.png
for seed in -1 nan 18446744073709551616; do
  refuses 2 "--seed" classify corrupt picture.png --seed $seed --out none
done
# One bad picture does not lose the others.
echo "no picture" >bad.png
refuses 1 "bad.png" classify corrupt bad.png picture.png --corruption fog --severity 1 --out rest
check "the good picture is missing" test -s rest/picture-fog-1.png
# Nor one that is too large for the memory.
python3 - <<'END' || fail "python3 is needed for the large picture"
import struct, zlib
side = 7000
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
open("large.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
                              + chunk(b"IDAT", zlib.compress(bytes((3 * side + 1) * side), 1)) + chunk(b"IEND", b""))
END
for app in classify segment; do ok $app train $(toy $app) --out $app-run; done
(
  ulimit -v 1000000
  refuses 1 "large.png: out of memory" classify corrupt large.png picture.png --corruption contrast --severity 1 --out more
  check "the good picture is missing" test -s more/picture-contrast-1.png
  refuses 1 "large.png: " segment predict --checkpoint segment-run large.png picture.png --threads 1 --out more
  check "the good picture's mask is missing" test -s more/picture-mask.png
)

# Evaluations say that frost is of drawn crystals.
for app in classify segment; do
  ok $app eval --checkpoint $app-run --limit 2 --corruptions frost --severities 1 --quiet
  grep -q -- "--frost" err || fail "$app eval does not note drawn frost: $(cat err)"
  ok $app eval --checkpoint $app-run --limit 2 --corruptions fog --severities 1 --quiet
  check "$app eval notes frost where there is none" test "$(grep -c -- "--frost" err)" = 0
done
done_testing
