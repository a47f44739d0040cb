#!/usr/bin/env bash
# Two programs on one run's folder: only one may train, its lock ends with the process, and concurrent evaluations keep
# all results. Usage: 14_two_at_once.sh FOLDER_OF_PROGRAMS
source "$(dirname "$0")/lib.sh"

for app in classify lm segment; do
  # shellcheck disable=SC2046
  "$bin/$app" train $(toy "$app") --steps 100000 --epochs 100000 --eval-every 0 --checkpoint-steps 1 --out run 2>first &
  training=$!
  until [[ -e run/checkpoint.safetensors ]]; do
    kill -0 $training 2>/dev/null || fail "$app: the first training ended: $(cat first)"
    sleep 0.05
  done
  for second in "--resume run --quiet" "$(toy "$app") --overwrite --out run"; do
    # shellcheck disable=SC2086
    refuses 1 "run is being trained by process $training on" "$app" train $second
  done
  kill -9 $training
  wait $training 2>/dev/null || true
  # shellcheck disable=SC2046
  ok "$app" train $(toy "$app") --overwrite --out run
  rm -r run
done

# shellcheck disable=SC2046
ok classify train $(toy classify) --out run
# shellcheck disable=SC2046
ok lm train $(toy lm) --out words
evaluations=()
for severity in 2 3 4 5; do
  "$bin/classify" eval --checkpoint run --limit 4 --corruptions fog,snow --severities "$severity" --quiet >/dev/null &
  evaluations+=($!)
done
for split in train valid test; do
  "$bin/lm" eval --checkpoint words --limit 50 --split "$split" --window blocks --quiet >/dev/null &
  evaluations+=($!)
done
for evaluation in "${evaluations[@]}"; do check "an evaluation beside others failed" wait "$evaluation"; done
for severity in 2 3 4 5; do
  check "severity $severity was lost" grep -q "\"name\":\"snow\",\"severity\":$severity" run/eval.json
done
for split in train valid test; do
  check "split $split was lost" grep -q "\"split\":\"$split\"" words/eval.json
done
done_testing
