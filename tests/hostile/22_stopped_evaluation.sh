#!/usr/bin/env bash
# A run stopped during an evaluation repeats it after resuming, and its records equal those of an undisturbed run.
# Usage: 22_stopped_evaluation.sh FOLDER_OF_PROGRAMS
source "$(dirname "$0")/lib.sh"

records() { sed -E 's/,"(seconds|data_wait|[a-z]+_per_second)":[^,}]*//g' "$1/metrics.jsonl"; }
# Whether a process has a handler for SIGTERM, signal 15, yet: it evaluates soon after.
catches_term() { (("0x0$(sed -n 's/^SigCgt:\s*//p' "/proc/$1/status" 2>/dev/null)" & 1 << 14)); }
# Ten steps an epoch, or in all; evaluations take many times as long as a step.
settings_of() {
  case $1 in
    classify) echo --recipe nano-synthetic --limit 160 --test-limit 1500 --batch-size 16 --epochs 2 --quiet ;;
    segment) echo --recipe nano --limit 40 --test-limit 40 --batch-size 4 --epochs 2 --depth 1 --dim 48 --patch 16 --quiet ;;
    lm) echo --recipe nano --batch-size 8 --steps 10 --quiet ;;
  esac
}
for app in classify segment lm; do
  read -ra settings < <(settings_of "$app")
  ok "$app" train "${settings[@]}" --out straight
  stopped=
  for try in 1 2 3 4 5; do
    "$bin/$app" train "${settings[@]}" --overwrite --out run >out 2>err &
    training=$!
    until grep -qs '"step":10,' run/metrics.jsonl; do
      kill -0 $training 2>/dev/null || break
      sleep 0.01
    done
    kill -TERM $training 2>/dev/null || true
    wait $training || true
    grep -qE "stopped at step 10;|last evaluation" err && ! grep -q '"step":10,.*train_loss' run/metrics.jsonl && stopped=yes && break
  done
  check "$app: no evaluation was stopped in $try tries; nothing was tested" test -n "$stopped"
  ok "$app" train --resume run --quiet
  check "$app: the records differ" diff <(records run) <(records straight)
  same run/checkpoint.safetensors straight/checkpoint.safetensors
  rm -r run

  # An evaluation that is stopped before anything of it is complete says that, and shows nothing.
  case $app in
    classify) long=(--corruptions all) ;;
    segment) long=(--split train --scales 1,2,3) ;;
    lm) long=(--split train --window sliding) ;;
  esac
  for format in "" --json; do
    stopped=
    for pause in 0.05 0.1 0.2 0.4 0.02; do
      # shellcheck disable=SC2086
      "$bin/$app" eval --checkpoint straight "${long[@]}" --quiet $format >out 2>err &
      evaluation=$!
      until catches_term $evaluation; do
        kill -0 $evaluation 2>/dev/null || break
        sleep 0.01
      done
      sleep $pause
      kill -TERM $evaluation 2>/dev/null || true
      wait $evaluation || true
      ! grep -qF "error:" err || fail "$app: $(cat err)"
      if grep -qF "stopped before any result was complete" err; then
        stopped=yes
        break
      fi
    done
    check "$app: no evaluation was stopped in time; nothing was tested" test -n "$stopped"
    check "$app: shows what is not there: $(cat out)" test ! -s out
  done
  rm -r straight
done
done_testing
