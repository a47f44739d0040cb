#!/usr/bin/env bash
# The simulation of data-parallel steps prints its assumptions, and whether its goals are met.
source "$(dirname "$0")/lib.sh"

ok bench ddp --slices 1,4
grep -q 'lm-wikitext103 .*estimate.* rows ' out || fail "no line for the rows of the tied embedding"
[[ $(grep -cE '^(deit|segmenter|lm)' out) == $(grep -cE '^(deit|segmenter|lm).*estimate' out) ]] || fail "a line does not say that it is an estimate"
# Nothing is exposed without a network's limits; all bars fall on a slow one.
ok bench ddp deit-tiny-softmax --bandwidth 1e9 --latency 0 --contention 0
grep -q ' 0.00 % exposed .*: met' out || fail "something is exposed on a perfect network"
ok bench ddp --bandwidth 1 --slices 2
[[ $(grep -c ': MISSED$' out) == $(grep -c ' bar ' out) ]] || fail "a bar is met at 1 GB/s"
ok bench ddp --slices 2,4 deit-tiny-rpc
[[ $(grep -c '^deit-tiny-rpc .*  [24]  ' out) == 4 && $(grep -c '^lm' out) == 0 ]] || fail "not two numbers of slices of one setting"
ok bench ddp lm-wikitext103 --ranks 16 --nodes 2 --wire bf16

refuses 1 "do not divide" bench ddp --ranks 9 --nodes 2
refuses 2 "--ranks" bench ddp --ranks 0
refuses 2 "--bandwidth" bench ddp --bandwidth 0
refuses 2 "--slices" bench ddp --slices 0
refuses 2 "--contention" bench ddp --contention 100
refuses 1 "did you mean deit-tiny-rpc" bench ddp deit-tiny-rcp
echo '{"device": "x"}' >times.json
refuses 1 "times.json holds no times" bench ddp --times times.json
refuses 1 "times.json holds no times" bench ddp --measure times.json --device cpu
echo '{"device": "another", "steps": {}}' >times.json
refuses 1 "another device" bench ddp --measure times.json --device cpu
refuses 1 "nowhere.json" bench ddp --times nowhere.json
refuses 2 "a workload" bench
refuses 2 "excludes" bench ddp --times a --measure b
done_testing
