#!/usr/bin/env bash
# --skip-bad: pictures that replace damaged ones are not part of any count, loss, attack or length.
source "$(dirname "$0")/lib.sh"

python3 - <<'END' || fail "python3 is needed for the pictures"
import os, struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for split in "train", "val":
    for c, name in enumerate(("cat", "dog")):
        os.makedirs(f"data/{split}/{name}")
        for i in range(6):
            rows = b"".join(b"\0" + bytes((37 * c + 91 * i + 13 * x * (y + c)) % 256 for x in range(6)) for y in range(6))
            open(f"data/{split}/{name}/{i}.png", "wb").write(
                b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 6, 6, 8, 0, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
ok classify train --data data --out run --epochs 2 --batch-size 4 --patch 3 --dim 24 --depth 1 --heads 2 --quiet

# Damaged pictures after all others leave these their numbers and batches: every score is that of the rest alone.
attacks=(--attack fgsm,pgd,spsa,cw,sld,noise --budgets 4 --spsa-steps 2 --spsa-samples 4)
scores() {
  ok classify eval --checkpoint run --data data --skip-bad --corruptions fog,gaussian_noise --severities 3 \
    "${attacks[@]}" --batch-size "$2" --quiet --json
  sed -E 's/"fingerprint":"[^"]*"//; s/"made_by":\{[^}]*\}//' out >"$1"
}
for size in 3 256; do
  scores alone "$size"
  check "12 pictures" grep -qF '"count":12,' alone
  for damaged in val/dog/8 val/dog/9; do echo "no picture" >"data/$damaged.png"; done
  scores damaged "$size"
  same alone damaged
  rm data/val/dog/[89].png
done

# Wherever they are, and though nothing else is looked at.
echo "no picture" >data/val/cat/0.png
ok classify eval --checkpoint run --data data --skip-bad "${attacks[@]}" --quiet --json
check "11 pictures: $(head -c 1500 out)" grep -qF '"count":11,' out
check "said: $(cat err)" grep -qF "1 damaged pictures were replaced" err
refuses 1 "none of the 1 pictures can be read" classify eval --checkpoint run --data data --skip-bad --first 1 --quiet
done_testing
