#!/usr/bin/env bash
# Options that are allowed with --resume are recorded with the step at which they take effect, others are refused by
# name; a finished run is not changed. Usage: 21_resume_options.sh FOLDER_OF_PROGRAMS
source "$(dirname "$0")/lib.sh"

for app in classify lm segment; do
  # shellcheck disable=SC2046
  ok "$app" train $(toy "$app") --ema 0.9 --out run
  cp -r run finished
  ok "$app" train --resume run
  check "$app: a finished run was changed" diff -r -x training.lock run finished
  ok "$app" train --resume run --device cpu --threads 1 --eval-batch-size 3
  check "$app: settings were written that nothing was trained with" diff -r -x training.lock run finished

  for option in "--lr 0.5" "--seed 1" "--batch-size 4" "--dtype bf16" "--attention rpc" "--ema 0" "--keep-best true" \
    "--recipe nano" "--out other" "--overwrite" "--schedule constant"; do
    # shellcheck disable=SC2086
    refuses 2 "${option%% *}" "$app" train --resume run --steps 8 $option
  done
  check "$app: a refused option left something" diff -r -x training.lock run finished
  refuses 1 "has done 4 steps already; --steps would end it at 3" "$app" train --resume run --steps 3
  ok "$app" train --resume run --epochs 1000 # which --steps goes before
  grep -qF "all 4 steps are done; for more give --steps" err || fail "$app: names another option: $(cat err)"

  ok "$app" train --resume run --steps 6 --eval-every 0.3 --threads 1 --quiet
  grep -qF "change steps from 4 to 6, from step 4 on" err || fail "$app: says nothing of the change: $(cat err)"
  for change in '"option": "steps", "from": 4, "to": 6' '"option": "eval-every"' '"option": "threads"'; do
    check "$app: config.json lacks $change" grep -qF "\"step\": 4, $change" <(tr -s ' \n' ' ' <run/config.json)
  done
  check "$app: the final evaluation is there more than once" \
    test "$(grep -c '"step":4,.*train_loss' run/metrics.jsonl)" == 1
  # Changed by hand.
  decay=$(sed -nE 's/.*"weight-decay": ([^,]*),/\1/p' run/config.json)
  sed -i -E 's/"weight-decay": [^,]*/"weight-decay": 0.5/' run/config.json
  refuses 1 "'weight-decay' is 0.5, but the run was trained with" "$app" train --resume run --steps 8
  # What may be changed is recorded when it was changed by hand, too.
  sed -i -E 's/"steps": 6,/"steps": 7,/; s/"checkpoint-seconds": [^,]*/"checkpoint-seconds": 77.0/; s/"weight-decay": [^,]*/"weight-decay": '"$decay"'/' run/config.json
  cp run/config.json edited
  mv run/metrics.jsonl kept
  mkfifo run/metrics.jsonl
  refuses 1 "metrics.jsonl" "$app" train --resume run
  same run/config.json edited # a start that fails leaves it as it was
  mv kept run/metrics.jsonl
  ok "$app" train --resume run --quiet
  for change in '"option": "steps", "from": 4, "to": 6' '"option": "steps", "from": 6, "to": 7' \
    '"option": "checkpoint-seconds", '; do
    check "$app: config.json lacks $change" grep -qF "$change" <(tr -s ' \n' ' ' <run/config.json)
  done
  rm -r run finished
done

# Steps beyond the epochs.
ok classify train --recipe nano-synthetic --limit 64 --test-limit 20 --batch-size 16 --quiet --epochs 1 --steps 20 --out run
check "ends with the epochs" grep -q '"step":20,"epoch":5.0,"train_loss"' run/metrics.jsonl
rm -r run

# --steps fits the schedule to itself, "epoch" counts epochs done, and TensorBoard has what metrics.jsonl has.
ok classify train --recipe nano-synthetic --limit 160 --test-limit 20 --batch-size 16 --lr 0.001 --min-lr 0 --quiet \
  --warmup-epochs 0 --steps 20 --out run
check "the last step's learning rate is not near the end of the schedule" \
  awk -F'"lr":' '/"step":20,.*"lr"/ { found = 1; exit !($2 + 0 < 0.0001) } END { exit !found }' run/metrics.jsonl
for line in '"step":10,"epoch":1.0,"loss"' '"step":10,"epoch":1.0,"train_loss"'; do
  check "no line $line" grep -qF "$line" run/metrics.jsonl
done
for tag in train/mean_loss test/loss test/accuracy test/accuracy5; do
  check "TensorBoard has no $tag" grep -qaF "$tag" -r run/tensorboard
done

# Pictures that are reduced when they are read, for a model whose size follows from them.
python3 - <<'END' || fail "python3 is needed for the pictures"
import os, random, struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
draw, side = random.Random(1), 600
for split in "train", "val":
    for name in "a", "b":
        os.makedirs(f"large/{split}/{name}")
        for i in range(4):
            rows = b"".join(b"\0" + draw.randbytes(3 * side) for y in range(side))
            open(f"large/{split}/{name}/{i}.png", "wb").write(
                b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))
END
train="train --data large --dim 16 --heads 2 --depth 1 --batch-size 4 --eval-every 0 --schedule constant --quiet"
# shellcheck disable=SC2086
ok classify $train --steps 4 --out straight
# shellcheck disable=SC2086
ok classify $train --steps 2 --out halves
ok classify train --resume halves --steps 4 --quiet
same straight/checkpoint.safetensors halves/checkpoint.safetensors
done_testing
