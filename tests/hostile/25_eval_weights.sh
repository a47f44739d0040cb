#!/usr/bin/env bash
# eval-weights: training evaluates, records and later commands use the same weights by default.
. "$(dirname "$0")/lib.sh"
score() { grep -o "\"$2\": *[-0-9.e]*" "$1" | tail -1 | sed 's/.*: *//'; }
for app in classify segment lm; do
  read -ra toy <<<"$(toy $app)"
  case $app in
    classify) key=test_loss of=loss few=(--limit 20) ;;
    segment) key=mean_iou of=mean_iou few=(--limit 3 --split val) ;;
    lm) key=valid_loss of=loss few=(--split valid --limit 300) ;;
  esac
  ok $app train "${toy[@]}" --ema 0.5 --lr 0.02 --warmup-epochs 0 --out $app-ema
  ok $app train "${toy[@]}" --ema 0.5 --lr 0.02 --warmup-epochs 0 --eval-weights raw --out $app-raw
  for weights in ema raw; do
    run=$app-$weights
    check "$run: metrics.jsonl says which weights" grep -q "\"weights\":\"$weights\"" $run/metrics.jsonl
    ok $app eval --checkpoint $run "${few[@]}" --json --quiet
    own=$(score out $of)
    check "$run: eval without an option is $own, training said $(score $run/metrics.jsonl $key)" \
      test "$own" == "$(score $run/metrics.jsonl $key)"
    for option in "--weights raw" "--no-ema" "--weights ema" "--ema"; do
      read -ra words <<<"$option"
      ok $app eval --checkpoint $run "${few[@]}" --json --quiet "${words[@]}"
      cp out "$run $option"
    done
    same "$run --weights raw" "$run --no-ema"
    same "$run --weights ema" "$run --ema"
    check "$run: both weights score alike" test "$(score "$run --ema" $of)" != "$(score "$run --no-ema" $of)"
    check "$run: another score than by its own weights" test "$(score "$run --weights $weights" $of)" == "$own"
  done
  refuses 2 "--eval-weights: got 'best', need one of ema, raw" $app train "${toy[@]}" --eval-weights best --out new
  refuses 2 "--weights" $app eval --checkpoint $app-raw --weights best
done
done_testing
