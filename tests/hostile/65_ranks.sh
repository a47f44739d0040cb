#!/usr/bin/env bash
# All ranks report the difference if their settings do not match; a small data set and evaluation are shared correctly;
# torchrun restarts a job, which resumes.
source "$(dirname "$0")/lib.sh"
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
small=(--recipe nano-synthetic --limit 64 --test-limit 20 --steps 4 --batch-size 8 --quiet --threads 1)

# as RANK RANKS PROGRAM WORD...: in the background; its stderr is in the file RANK.
as() {
  PURSUIT_PORT=$port PURSUIT_RANK=$1 PURSUIT_RANKS=$2 "$bin/$3" "${@:4}" >/dev/null 2>"$folder/$1" &
}
# both_refuse TEXT: the two last started end with 1 and one line each, "error: ..." with the text.
both_refuse() {
  local pid
  for pid in $(jobs -p); do
    local code=0
    wait "$pid" || code=$?
    [[ $code == 1 ]] || fail "exit code $code: $(cat 0 1)"
  done
  grep -qE "^error: .*$1" 0 || fail "rank 0 says no '$1' but: $(cat 0)"
  grep -qE "^\[rank 1\] error: .*$1" 1 || fail "rank 1 says no '$1' but: $(cat 1)"
  [[ $(cat 0 1 | wc -l) == 2 ]] || fail "more than a line each: $(cat 0 1)"
  checks=$((checks + 1))
}

as 0 2 classify train "${small[@]}" --out a
as 1 2 classify train "${small[@]}" --out a --seed 5
both_refuse "rank 1 differs from rank 0: seed is '5', not '0'"
as 0 2 classify train "${small[@]}" --out a
as 1 2 classify train "${small[@]}" --out a --depth 5
both_refuse "rank 1 differs from rank 0: depth is '5'"
# The same words, in another sentence, under the same name.
for place in here there; do
  mkdir -p $place/text
  for split in train valid test; do
    for i in {1..60}; do echo "one two three four $((i % 7)) five six"; done >$place/text/$split.txt
  done
done
sed -i '9s/.*/one two three four 2 six five five/' there/text/train.txt
language=(--recipe nano --data text --steps 3 --batch-size 4 --quiet --threads 1 --out l)
cd here; as 0 2 lm train "${language[@]}"
cd ../there; as 1 2 lm train "${language[@]}"; cd ..
both_refuse "rank 1 differs from rank 0: data-fingerprint"
[[ ! -e a/checkpoint.safetensors && ! -e here/l/checkpoint.safetensors ]] || fail "a run was begun"

# What is no part of the config, and would end in a reduction that never ends or in other weights.
as 0 2 classify train "${small[@]}" --out a
as 1 2 classify train "${small[@]}" --out a --ordered-reduce
both_refuse "rank 1 differs from rank 0: ordered-reduce is 'true', not 'false'"
ok classify train "${small[@]}" --ranks 2 --out begun
as 0 2 classify train "${small[@]}" --out a
as 1 2 classify train --resume begun --quiet
both_refuse "rank 1 differs from rank 0: the first step is '4', not '0'"
# Rank 0 fails before anything is read.
as 0 2 classify train "${small[@]}" --out begun
as 1 2 classify train "${small[@]}" --out begun
both_refuse "begun already holds a run"

as 0 2 classify train "${small[@]}" --out a
as 1 3 classify train "${small[@]}" --out a
both_refuse "rank 1 was started as one of 3 ranks, and rank 0 as one of 2"
# A rank that believes the others on other machines would look for them elsewhere.
export PURSUIT_JOB_SECRET="a secret for a test"
as 0 2 classify train "${small[@]}" --out a
PURSUIT_ADDRESS=127.0.0.1 PURSUIT_LOCAL_RANK=0 PURSUIT_LOCAL_RANKS=1 as 1 2 classify train "${small[@]}" --out a
both_refuse "rank 1 differs from rank 0: the number of machines is 'more than 1', not '1'"
unset PURSUIT_JOB_SECRET
# --ranks where a supervisor ignores children that end, and where another launch's variables are set.
check "--ranks under a supervisor: $(cat err)" env PURSUIT_ADDRESS=127.0.0.1 PURSUIT_LOCAL_RANKS=4 timeout 120 \
  python3 -c 'import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])' \
  "$bin/classify" train "${small[@]}" --ranks 2 --out supervised >out 2>err

for place in "2 2" "0 0" "-1 2" "x 2" "0 x"; do
  read -r rank ranks <<<"$place"
  PURSUIT_RANK=$rank PURSUIT_RANKS=$ranks refuses 1 "PURSUIT_RANK" classify train "${small[@]}" --out a
done
PURSUIT_RANK=0 PURSUIT_RANKS=2 refuses 2 "but 2 ranks were started" classify train "${small[@]}" --out a --ranks 3
python3 -c 'import socket, sys, time; s = socket.create_server(("127.0.0.1", int(sys.argv[1]))); print(flush=True); time.sleep(60)' \
  "$port" >listening &
taken=$!
until [[ -s listening ]]; do
  kill -0 $taken || fail "port $port is not free"
  sleep 0.02
done
PURSUIT_PORT=$port PURSUIT_RANK=0 PURSUIT_RANKS=2 refuses 1 "$port" classify train "${small[@]}" --out a
kill $taken

# Data that do not fill a step; evaluations of fewer samples than ranks.
few=(--recipe nano-synthetic --test-limit 1 --steps 2 --batch-size 2 --quiet --threads 1)
"$bin/classify" train "${few[@]}" --limit 4 --ranks 3 --out few 2>err && fail "4 pictures were shared by 3 ranks of 2"
check "4 pictures for 3 ranks" grep -q "4 training pictures do not fill a step of 3 batches of 2" err
ok classify train "${few[@]}" --limit 12 --ranks 3 --ordered-reduce --out ranks
ok classify train "${few[@]}" --limit 12 --accumulate 3 --out one
same <(sed 's/,"seconds.*//' ranks/metrics.jsonl) <(sed 's/,"seconds.*//' one/metrics.jsonl)

# Only rank 0 writes: what is printed and the run's files are those of one process.
loud=(--recipe nano-synthetic --limit 48 --test-limit 5 --epochs 2 --batch-size 8 --threads 1)
"$bin/classify" train "${loud[@]}" --ranks 2 --out two >two.out 2>two.err || fail "$(cat two.err)"
"$bin/classify" train "${loud[@]}" --accumulate 2 --out alone >alone.out 2>alone.err || fail "$(cat alone.err)"
for run in two alone; do
  (cd $run && find . -type f | sed 's/tfevents.*/tfevents/' | sort) >$run.files
  grep -vE "^(batch|train) " $run.out $run.err -h | sed "s/ $run/ RUN/" >$run.lines
done
same two.files alone.files
same two.lines alone.lines
check "nothing was compared" grep -q "test accuracy" two.lines

# torchrun: one rank is killed, all are started again with the same command line. Usage: agent RESTARTS [JOB]
agent() {
  local rank
  pids=()
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=${2:-a} \
      TORCHELASTIC_RESTART_COUNT=$1 TORCHELASTIC_ERROR_FILE=$PWD/failure-$rank "$bin/classify" train "${small[@]/--quiet/--no-graph}" \
      --limit 256 --epochs 12 --checkpoint-steps 2 --out r "${@:3}" >/dev/null 2>$rank &
    pids+=($!)
  done
}
unset 'small[6]' 'small[7]' # the steps
agent 0
for _ in {1..400}; do [[ -s r/checkpoint.safetensors ]] && break || sleep 0.02; done
kill -9 "${pids[1]}"
! wait "${pids[0]}" || fail "rank 0 went on alone"
check "the cause is not in torchrun's file" grep -q "rank 1 is lost" failure-0
agent 1 other
! wait "${pids[0]}" || fail "another job went on with the run"
! wait "${pids[1]}" || fail "rank 1 went on alone"
check "the cause is not in torchrun's file" grep -q "r already holds a run" failure-0
agent 1
for pid in "${pids[@]}"; do wait "$pid" || fail "started again, it does not go on: $(cat 0 1)"; done
check "it began anew: $(cat 0)" grep -q "going on at step" 0
ok classify train "${small[@]}" --limit 256 --epochs 12 --accumulate 2 --out undisturbed
python3 - r undisturbed <<'END' || fail "other weights than an undisturbed run's"
import sys
bodies = [(lambda d: d[8 + int.from_bytes(d[:8], "little"):])(open(f"{run}/checkpoint.safetensors", "rb").read()) for run in sys.argv[1:]]
sys.exit(bodies[0] != bodies[1] or len(bodies[0]) < 10000)
END

# A slow rank is named: this one is stopped for most of the time.
slow=(--recipe nano-synthetic --limit 7680 --test-limit 4 --batch-size 256 --epochs 1 --threads 1 --out s)
PURSUIT_PORT=$port PURSUIT_RANK=1 PURSUIT_RANKS=2 "$bin/classify" train "${slow[@]}" >/dev/null 2>&1 &
slowed=$!
while kill -STOP $slowed 2>/dev/null; do
  sleep 0.08
  kill -CONT $slowed 2>/dev/null && sleep 0.02
done &
PURSUIT_PORT=$port PURSUIT_RANK=0 PURSUIT_RANKS=2 "$bin/classify" train "${slow[@]}" >/dev/null 2>0
wait $slowed
check "the slow rank is not named: $(cat 0)" grep -qE "waited for rank 1: [1-9][0-9] %" 0
done_testing
