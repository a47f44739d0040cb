#!/usr/bin/env bash
# A flipped bit in a checkpoint is detected by the tensor's checksum; --resume and the other commands report it and use
# the previous checkpoint. Usage: 13_damaged_checkpoints.sh FOLDER_OF_PROGRAMS
source "$(dirname "$0")/lib.sh"

# flips FILE OFFSET: one bit of the byte so far from the end.
flips() {
  local size byte
  size=$(stat -c %s "$1")
  byte=$(tail -c "$2" "$1" | head -c 1 | od -An -tu1)
  printf "\\x$(printf %x $((byte ^ 16)))" | dd of="$1" bs=1 seek=$((size - $2)) conv=notrunc status=none
}
use() {
  case $1 in
    classify) echo export --checkpoint "$2" weights.safetensors ;;
    lm) echo generate --checkpoint "$2" --tokens 3 ;;
    segment) echo eval --checkpoint "$2" --limit 1 --quiet ;;
  esac
}

for app in classify lm segment; do
  # shellcheck disable=SC2046
  ok "$app" train $(toy "$app") --checkpoint-steps 2 --keep-best true --ema 0.9 --out run
  cp -r run whole
  flips run/checkpoint.safetensors 5
  # shellcheck disable=SC2046
  ok "$app" $(use "$app" run)
  grep -qE 'run/checkpoint.safetensors: .* is damaged: its checksum is .*run/checkpoint-previous.safetensors of step 2' err ||
    fail "$app: says not what is damaged and used: $(cat err)"
  # shellcheck disable=SC2046
  refuses 1 "is damaged" "$app" $(use "$app" run/checkpoint.safetensors)
  # shellcheck disable=SC2046
  ok "$app" $(use "$app" run/checkpoint.safetensors) --no-verify
  ok "$app" train --resume run --quiet
  grep -qF "checkpoint-previous.safetensors of step 2" err || fail "$app: resumes silently: $(cat err)"
  same run/checkpoint.safetensors whole/checkpoint.safetensors
  # The damaged one has not taken the place of the one before it.
  same run/checkpoint-previous.safetensors whole/checkpoint-previous.safetensors

  # Metadata is covered too, a file that is cut off or gone is damage like any other, and so is the best one.
  sed -i 's/best_score/best_scorf/' run/checkpoint.safetensors
  # shellcheck disable=SC2046
  refuses 1 "the metadata is damaged" "$app" $(use "$app" run/checkpoint.safetensors)
  truncate -s -1 run/checkpoint.safetensors
  # shellcheck disable=SC2046
  ok "$app" $(use "$app" run)
  grep -qF "checkpoint-previous.safetensors of step 2" err || fail "$app: takes the older one silently: $(cat err)"
  rm run/checkpoint.safetensors
  flips run/best.safetensors 5
  ok "$app" train --resume run --quiet
  grep -qE "best.safetensors: .* is damaged.*next evaluation" err || fail "$app: best.safetensors unseen: $(cat err)"
  same run/best.safetensors whole/best.safetensors
  flips run/best.safetensors 5
  ok "$app" train --resume run --quiet
  grep -qE "best.safetensors: .* is damaged.*the last checkpoint is whole" err || fail "$app: a promise after the end: $(cat err)"
  rm run/best.safetensors
  ok "$app" train --resume run --steps 6 --quiet
  check "$app: best.safetensors that was removed is not made again" test -s run/best.safetensors
  flips run/checkpoint.safetensors 5
  flips run/checkpoint-previous.safetensors 5
  refuses 1 "nor can the one before it be used" "$app" train --resume run

  # Without checksums, as earlier versions wrote them: used, and said.
  cp whole/checkpoint.safetensors old.safetensors
  sed -i 's/xxh3_64/xxh3_65/' old.safetensors
  # shellcheck disable=SC2046
  ok "$app" $(use "$app" old.safetensors)
  grep -qF "written without checksums" err || fail "$app: says nothing of a file without checksums: $(cat err)"

  # Any of the three files is a run that a new one may not replace unasked.
  for name in checkpoint-previous best; do
    mkdir left
    cp "whole/$name.safetensors" left
    # shellcheck disable=SC2046
    refuses 1 "already holds a run" "$app" train $(toy "$app") --out left
    rm -r left
  done

  # Exports: checksums too, and never in the place of a checkpoint.
  ok "$app" export --checkpoint whole weights.safetensors
  refuses 1 "weights alone" "$app" train --resume "$(mkdir -p bare && cp weights.safetensors bare/checkpoint.safetensors && cp whole/config.json bare && echo bare)"
  flips weights.safetensors 5
  # shellcheck disable=SC2046
  refuses 1 "is damaged" "$app" $(use "$app" weights.safetensors)
  [[ $app != classify ]] || refuses 1 "is damaged" classify import weights.safetensors --out imported
  # Nor in the place of another file of a run.
  cp -r whole owned
  for name in {checkpoint,checkpoint-previous,best}.safetensors config.json eval.json metrics.jsonl report.html \
    training.lock tensorboard/events; do
    refuses 1 "choose another name" "$app" export --checkpoint whole "./whole/$name"
    refuses 1 "choose another name" "$app" compare whole --report "whole//$name"
  done
  check "$app: an output replaced a file of a run" diff -r owned whole
  ok "$app" export --checkpoint whole whole/weights.safetensors
  mkdir free
  ok "$app" compare whole --report free/report.html

  # Without a checkpoint there is nothing to go on with, and nothing of the run is replaced.
  rm owned/checkpoint*.safetensors
  cp -r owned before
  refuses 1 "owned/best.safetensors is there, but no checkpoint.safetensors" "$app" train --resume owned
  rm owned/best.safetensors before/best.safetensors
  refuses 1 "owned/eval.json is there, but no checkpoint.safetensors" "$app" train --resume owned
  check "$app: a refused start changed the run" diff -r -x training.lock owned before
  # A run that was killed before its first checkpoint.
  mkdir killed
  cp whole/config.json killed
  ok "$app" train --resume killed --quiet
  grep -qF "killed holds no checkpoint yet: the run begins at step 0" err || fail "$app: begins anew unsaid: $(cat err)"
  same killed/checkpoint.safetensors whole/checkpoint.safetensors
  rm -r run whole bare owned before killed free
done
done_testing
