#!/usr/bin/env bash
# Photographs with an EXIF orientation: predict applies it; a data set keeps the pixels as stored and prints a warning.
source "$(dirname "$0")/lib.sh"

# 12 x 8 pixels, and the same turned to 8 x 12 with the EXIF orientation that turns it back.
base64 -d >upright.png <<END
iVBORw0KGgoAAAANSUhEUgAAAAwAAAAICAIAAABChommAAAAG0lEQVR42mNkYGAQYeDBj1gY5HgYGAig4a0IAABQBkA2jSzCAAAAAElFTkSuQmCC
END
base64 -d >turned.png <<END
iVBORw0KGgoAAAANSUhEUgAAAAgAAAAMCAIAAADQ/GvKAAAAGmVYSWZNTQAqAAAACAABARIAAwAAAAEABgAAAAAAANZnS2kAAAAaSURBVHjaY7zD
0MIgx4OJWN4wfGHABkauBADrUhdU6tyeUgAAAABJRU5ErkJggg==
END
base64 -d >labels.png <<END
iVBORw0KGgoAAAANSUhEUgAAAAgAAAAMCAAAAAB69aNBAAAADElEQVR42mNgoB8AAABsAAHuqJaUAAAAAElFTkSuQmCC
END

for app in classify segment; do
  ok $app train $(toy $app) --out $app-run
  for picture in upright turned; do
    ok $app predict --checkpoint $app-run $picture.png --out $app-$picture --json
    sed "s/$picture/picture/g" out >$app-$picture.json
  done
  same $app-upright.json $app-turned.json
done
same segment-upright/upright-classes.png segment-turned/turned-classes.png

mkdir -p set/{images,labels}/{train,val}
printf 'ground\nsky\n' >set/classes.txt
for i in 1 2 3 4; do cp upright.png set/images/train/$i.png; done
cp turned.png set/images/train/turned.png
cp turned.png set/images/val/held-out.png
# Label maps of the pixels as stored: 8 x 12 for the turned ones.
cp labels.png set/labels/train/turned.png
cp labels.png set/labels/val/held-out.png
base64 -d >set/labels/train/1.png <<END
iVBORw0KGgoAAAANSUhEUgAAAAwAAAAICAAAAADoj0EtAAAADElEQVR42mNgoA8AAABoAAGOf6KGAAAAAElFTkSuQmCC
END
for i in 2 3 4; do cp set/labels/train/1.png set/labels/train/$i.png; done
ok segment train $(toy segment) --data set --format folder --out street --epochs 3
for name in turned held-out; do
  check "$name.png is named $(grep -c "$name.png.*EXIF orientation 6" err) times" \
    test "$(grep -c "$name.png.*EXIF orientation 6" err)" = 1
done
check "an upright picture is named" test "$(grep -c "EXIF" err)" = 2
done_testing
