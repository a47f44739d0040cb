#!/usr/bin/env bash
# Errors are one line that names the file, the setting and the reason; text from files is printed escaped.
source "$(dirname "$0")/lib.sh"

# says TEXT PROGRAM WORD...: the program fails with one line that contains TEXT and no control characters.
says() {
  local code=0
  "$bin/$2" "${@:3}" >out 2>err || code=$?
  [[ $code == 1 || $code == 2 ]] || fail "${*:2}: exit code $code: $(head -c 2000 err)"
  grep -qF -- "$1" err || fail "${*:2}: says no '$1' but: $(head -c 2000 err)"
  [[ $(wc -l <err) == 1 ]] || fail "${*:2}: says it on $(wc -l <err) lines: $(head -c 2000 err)"
  ! LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f]' err || fail "${*:2}: prints control characters: $(cat -v err)"
  checks=$((checks + 1))
}

# Mistyped words.
says "no subcommand 'trian'; did you mean train?" classify trian
says "no option --atention; did you mean --attention?" lm train --atention rpc
says "no option --checkpont; did you mean --checkpoint?" segment eval --checkpont x
says "no option --red" lm train $'--red\e[31m'
says "'extra' was not expected" classify train extra
says "no recipe 'nanoo'; did you mean nano?" segment train --recipe nanoo

# Recipes: file and setting.
printf 'dim = 64\natention = "rpc"\n' >typo.toml
says "typo.toml: there is no setting 'atention'; did you mean attention?" classify train --recipe typo.toml
printf 'dim = many\n' >word.toml
says "word.toml: 'dim'" lm train --recipe word.toml
printf 'epochs = 0\n' >range.toml
says "range.toml: 'epochs': --epochs: 0 is out of range, need 1 to" segment train --recipe range.toml
printf '[model]\ndim = 64\n' >section.toml
says "section.toml: there is no setting 'model.dim'" classify train --recipe section.toml
printf 'a \e[31mb\e[0m = 1\n' >control.toml
says "control.toml: there is no setting" classify train --recipe control.toml
printf 'help = true\n' >help.toml
says "help.toml: there is no setting 'help'" segment train --recipe help.toml
printf 'attention = "rpc\ndim = 64\n' >open.toml
says "open.toml: 'attention': the string \"rpc does not end" classify train --recipe open.toml
# Words that only the whole config shows to be wrong; what the command line says wrongly is not the recipe's.
for app in classify lm segment; do
  for setting in 'attention = "rcp"' 'device = "gpu"' 'dim = 100'; do
    printf '%s\nheads = 3\n' "$setting" >wrong.toml
    says "wrong.toml: [$app] --${setting%% *} is" $app train --recipe wrong.toml --out new
  done
  for setting in 'schedule = "cosin"' 'dtype = "f31"' 'init = "zero"'; do
    printf '%s\n' "$setting" >wrong.toml
    says "wrong.toml: '${setting%% *}': --${setting%% *}: got" $app train --recipe wrong.toml
  done
done
for app in classify segment; do
  printf 'format = "png"\n' >wrong.toml
  says "wrong.toml: [$app] --format is" $app train --recipe wrong.toml --out new
done
printf 'dim = 64\nheads = 2\n' >right.toml
says "error: [lm] --attention is 'rcp'" lm train --recipe right.toml --attention rcp --out new

# A yes or no that is the next option.
says "--keep-best: needs true or false, not '--eval-every'" classify train --keep-best --eval-every 0.5
says "--detach-mu: needs true or false, not '--seed'" lm train --detach-mu --seed 1
says "--skip-bad: needs true or false, not '--limit'" segment train --skip-bad --limit 4
says "--keep-stop-words: needs true or false, not '--limit'" lm eval --checkpoint x --keep-stop-words --limit 4

# The programs of the tests.
says "error: mode: wrong not in" ops wrong
says "error: path is required" goldens
says "error: [device] unknown device 'gpu'" goldens --device gpu wrong.toml
says "error: --seeds: 0 is out of range, need 1 to" corruptions check fog --seeds 0
says "error: 'wrong.toml'" corruptions draw wrong.toml

truncate -s 2M large.toml
says "large.toml has 2097152 bytes" lm train --recipe large.toml
head -c 3000 /dev/urandom >random.toml
says "random.toml" classify train --recipe random.toml

# Data that is not there.
for app in classify lm segment; do
  says "/nowhere does not exist" "$app" train --data /nowhere --out new
  says "typo.toml is not a folder" "$app" train --data typo.toml --out new
done
picture() { # 6 x 6 pixels of grey
  base64 -d >"$1" <<END
iVBORw0KGgoAAAANSUhEUgAAAAYAAAAGCAAAAADFp7CUAAAAM0lEQVR42mNg0AioWHCCgV0/vH75eQY+s7i2ddcYRG1Te7feZZBx
yZmy5wmDsnfx7MOvATa2EIc3vpZGAAAAAElFTkSuQmCC
END
}
# Too few pictures for a batch.
for split in train val; do mkdir -p few/$split/a && picture few/$split/a/1.png; done
says "1 training pictures do not fill a batch of 4; use a smaller --batch-size" \
  classify train --data few --patch 3 --batch-size 4 --out new
says "2 training pictures do not fill a batch of 4; use a smaller --batch-size" \
  segment train --recipe nano --limit 2 --batch-size 4 --out new
# A text without a test split; words that a vocabulary lacks.
mkdir text && printf 'a b\na b c\n' | tee text/train.txt >text/valid.txt
ok lm train --recipe nano --data text --min-count 2 --steps 1 --batch-size 1 --quiet --out lm-run
says "text has no split test: give --split valid" lm eval --checkpoint lm-run
says "text has no split test: give --split valid" lm inspect --checkpoint lm-run --split test
ok lm eval --checkpoint lm-run --split valid --quiet
ok lm generate --checkpoint lm-run --prompt $'a zzz\e[31m b' --tokens 3
grep -qF 'lacks these words of the prompt, the model reads <unk>: zzz\u001b[31m' err || fail "unknown words: $(cat -v err)"
ok lm generate --checkpoint lm-run --prompt "a b" --tokens 3
[[ ! -s err ]] || fail "a note on known words: $(cat -v err)"

# Names that are not UTF-8, or hold line breaks.
for split in train val; do
  mkdir -p latin/$split/$'Stra\xdfe' lines/$split/$'one\ntwo\e[31m' lines/$split/b
  picture latin/$split/$'Stra\xdfe'/1.png
  for i in 1 2 3 4; do picture "lines/$split/"$'one\ntwo\e[31m'"/$i.png"; done
  picture "lines/$split/b/1.png"
done
says "'Stra\\xdfe' has a name that is not UTF-8; rename it" classify train --data latin --out new
says "--data is '" classify train --data $'latin/train/Stra\xdfe' --out new
ok classify train --data lines --dim 16 --depth 1 --heads 1 --patch 3 --batch-size 1 --epochs 1 --quiet --out lines-run
# A list that serves only reports stops no training.
printf 'b Stra\xdfe\n' >lines/words.txt
ok classify train --data lines --dim 16 --depth 1 --heads 1 --patch 3 --batch-size 1 --epochs 1 --quiet --out words-run
grep -qF "words.txt: 'b Stra\xdfe' is not UTF-8" err || fail "words.txt: $(cat -v err)"
[[ $(wc -l <err) == 1 ]] || fail "words.txt: $(cat -v err)"
rm lines/words.txt
picture $'odd\nname\e[31m.png'
ok classify predict --checkpoint lines-run $'odd\nname\e[31m.png' --out seen
grep -qF 'odd\nname\u001b[31m.png' out || fail "predict: $(cat -v out)"
grep -qF 'one\ntwo\u001b[31m' out || fail "predict: $(cat -v out)"
! LC_ALL=C grep -q $'\x1b' out || fail "predict prints control characters: $(cat -v out)"
echo "no picture" >$'broken\nname\e[31m.png'
says 'broken\nname\u001b[31m.png: neither a JPEG nor a PNG file' classify predict --checkpoint lines-run $'broken\nname\e[31m.png'
says 'no\nfile' classify predict --checkpoint lines-run $'no\nfile\e[31m.png'

# Pictures: too large, and made to fill the memory.
png() { # WIDTH HEIGHT FILE: a grey PNG that says it has this size, with a megabyte of zeros, deflated, for each 64 MiB
  python3 - "$@" <<'END' || fail "python3 is needed for the pictures"
import struct, sys, zlib
width, height, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
pack = zlib.compressobj(9)
data = b"".join(pack.compress(bytes(1 << 20)) for _ in range(600)) + pack.flush()
open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
                       + chunk(b"IDAT", data) + chunk(b"IEND", b""))
END
}
png 65535 65535 huge.png
says "huge.png: got 65535 x 65535 pixels, need 1 to 64 megapixels" classify predict --checkpoint lines-run huge.png
png 100 100 bomb.png
# What a picture of its size does not need is not unpacked.
(ulimit -v 2097152 && "$bin/classify" predict --checkpoint lines-run bomb.png >out 2>&1) || fail "bomb.png: $(cat out)"

# Checkpoints.
echo "dim = 64, some text that is no checkpoint" >text.safetensors
says "is no safetensors file" classify eval --checkpoint text.safetensors
says "is no safetensors file" classify import text.safetensors --out new

# What may not be read says so. Root may read everything, so somebody else tries.
if [[ $(id -u) == 0 ]]; then
  as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
else
  as=()
fi
mkdir -m 755 shut
picture shut/a.png
cp -r lines shut/lines
cp typo.toml shut
chmod 000 shut/{a.png,lines,typo.toml}
chmod 755 .
if "${as[@]}" test -x "$bin/classify" -a -r lines-run/checkpoint.safetensors; then
  denied() {
    local code=0
    "${as[@]}" "$bin/$1" "${@:2}" >out 2>err || code=$?
    [[ $code == 1 ]] || fail "$*: exit code $code: $(cat err)"
    grep -q "Permission denied" err || fail "$*: $(cat err)"
    [[ $(wc -l <err) == 1 ]] || fail "$*: $(cat err)"
    checks=$((checks + 1))
  }
  denied classify train --recipe shut/typo.toml
  denied classify train --data shut/lines --out /tmp/new
  denied classify train --data shut/lines/train --out /tmp/new
  denied lm train --data shut/lines --out /tmp/new
  denied segment train --data shut/lines --out /tmp/new
  denied classify predict --checkpoint shut/lines/x.safetensors x.png
  denied lm eval --checkpoint shut/lines
  denied lm train --recipe nano --steps 1 --quiet --out shut/new
else
  echo "note: the programs cannot be run by another user here; what may not be read was not tried"
fi
chmod 755 shut/lines
[[ ! -e new ]] || fail "a refused training left a folder"
done_testing
