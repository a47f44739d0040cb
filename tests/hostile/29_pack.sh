#!/usr/bin/env bash
# Packing: what it refuses, two at once, a stop, and that a run goes on only with the same pictures.
source "$(dirname "$0")/lib.sh"

python3 - <<'END' || fail "python3 is needed for the pictures"
import os, struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for data, first, side, most in ("data", 0, 40, 300), ("other", 100, 40, 300), ("big", 0, 240, 100):
    for split, count in ("train", most), ("val", 20):
        for c, name in enumerate(("n01440764", "n01443537")):
            os.makedirs(f"{data}/{split}/{name}")
            for i in range(first, first + count):
                rows = b"".join(b"\0" + os.urandom(3 * side) for y in range(side))
                open(f"{data}/{split}/{name}/{i}.png", "wb").write(
                    b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
                    + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))
END
echo "n01440764 tench, Tinca tinca" >data/LOC_synset_mapping.txt
refuses 1 "--out data lies in --data data" classify pack --data data --out data
refuses 1 "--out data/train/x lies in --data data" classify pack --data data --out data/train/x
(cd data && refuses 1 "lies in --data" classify pack --data . --out packed)
refuses 1 "--shorter has no effect" classify pack --data data --out files --shorter 17
mv data/val kept
refuses 1 "holds train but neither val nor test" classify pack --data data --out files
check "nothing was packed before" test ! -e files
mv kept data/val

# Two at once: one of them packs, and the shards are whole.
for i in 1 2 3; do
  rm -rf files
  "$bin/classify" pack --data data --out files --shard-mib 1 >out1 2>err1 &
  pid=$!
  code=0
  "$bin/classify" pack --data data --out files --shard-mib 1 >out2 2>err2 || code=$?
  first=0
  wait $pid || first=$?
  for said in "$first err1" "$code err2"; do
    [[ $said == 0* ]] || check "another packs: $(cat "${said#* }")" grep -q "another process packs into files" "${said#* }"
  done
  check "one of them packs" test $((first * code)) == 0
  ok classify pack --data data --out files --shard-mib 1
done
check "several shards" test -e files/train-00002.shard
check "the words of the classes" cmp data/LOC_synset_mapping.txt files/LOC_synset_mapping.txt
refuses 1 "was packed with shards of 1048576 bytes" classify pack --data data --out files --shard-mib 2
refuses 1 "is of other data" classify pack --data other --out files --shard-mib 1
refuses 1 "packed in another way" classify pack --data data --out files --shard-mib 1 --packing raw

# A stop, at any moment, also while shards of before are read.
mkdir stopped
for delay in 0.01 0.03 0.06 0.1; do
  code=0
  timeout --preserve-status --signal=INT "$delay" "$bin/classify" pack --data data --out stopped --shard-mib 1 \
    >out 2>err || code=$?
  check "a stop: $code $(cat err)" test "$code" -le 1 -o "$code" == 130
done
ok classify pack --data data --out stopped --shard-mib 1
code=0
for i in {1..10}; do
  rm -rf large
  "$bin/classify" pack --data big --out large --packing raw --shorter 200 --shard-mib 1 >out 2>err &
  pid=$!
  until [[ -e large/train-00000.shard ]]; do
    kill -0 $pid 2>/dev/null || break
    sleep 0.002
  done
  kill -INT $pid 2>/dev/null || true
  code=0
  wait $pid || code=$?
  [[ $code == 0 ]] || break
done
check "a stop between shards: exit code $code: $(cat err)" test "$code" == 1
check "says that it goes on: $(cat err)" grep -q "whole shards; the same command goes on" err
ok classify pack --data big --out large --packing raw --shorter 200 --shard-mib 1
check "keeps what was whole: $(cat out)" grep -qE "train: .*, [0-9]+ of them there before" out
for shard in files/*.shard; do same "$shard" "stopped/${shard#*/}"; done

# A run goes on with the packed files of its folder, and not with other pictures.
settings=(--epochs 1 --batch-size 50 --patch 10 --dim 24 --depth 1 --heads 2 --quiet)
ok classify train --data data --steps 4 "${settings[@]}" --out run
ok classify train --resume run --data files --steps 6
ok classify pack --data data --out raw --packing raw --shorter 30
ok classify pack --data data --out raw20 --packing raw --shorter 20
refuses 1 "not the training data" classify train --resume run --data raw --steps 8
ok classify train --data raw --steps 4 "${settings[@]}" --out run20
refuses 1 "not the training data" classify train --resume run20 --data raw20 --steps 8

# A shard that is cut off under a training ends it with a line.
"$bin/classify" train --data files "${settings[@]}" --epochs 100000 --cache-mib 0 --checkpoint-steps 5 --out cut >out 2>err &
pid=$!
gets_to $pid cut/checkpoint.safetensors
truncate -s 4096 files/train-00001.shard
code=0
wait $pid || code=$?
check "a shard that shrinks: exit code $code: $(cat err)" test "$code" == 1
check "a shard that shrinks: $(cat err)" grep -q "error: .*files/train-00001.shard" err
refuses 1 "train-00001.shard is cut off" classify train --resume run --data files
done_testing
