#!/usr/bin/env bash
# Standard streams that are closed, full or broken: no output goes to a wrong file, nothing aborts, lost output gives an
# exit code, and signals that end a session save the run.
source "$(dirname "$0")/lib.sh"

# lost PROGRAM WORD...: fails with one line if standard output cannot be written.
lost() {
  local code=0
  "$bin/$1" "${@:2}" >/dev/full 2>err || code=$?
  [[ $code == 1 ]] || fail "$* >/dev/full: exit code $code: $(cat err)"
  [[ $(grep -c "standard output cannot be written: No space" err) == 1 ]] || fail "$* >/dev/full: $(cat err)"
  code=0
  "$bin/$1" "${@:2}" 2>err >&- || code=$?
  [[ $code == 1 ]] || fail "$* >&-: exit code $code: $(cat err)"
  checks=$((checks + 2))
}
whole() { # RUN: every line of its metrics is a JSON object
  [[ -s $1/checkpoint.safetensors && -s $1/report.html && -s $1/metrics.jsonl ]] || fail "$1 is not complete"
  ! grep -v '^{"step":.*}$' "$1/metrics.jsonl" || fail "$1/metrics.jsonl holds what it should not"
  checks=$((checks + 1))
}

for app in classify lm segment; do
  # shellcheck disable=SC2046
  set -- $(toy "$app") --quiet=false
  "$bin/$app" train "$@" --out "$app" >out 2>err
  whole "$app"
  # Without a stderr, with a full one, with none of the streams.
  "$bin/$app" train "$@" --out "$app-closed" >out 2>&- || fail "$app train 2>&-: exit code $?"
  whole "$app-closed"
  same <(sed 's/_per_second":[^,}]*//; s/"seconds":[^,}]*//; s/"data_wait":[^,}]*//' "$app/metrics.jsonl") \
    <(sed 's/_per_second":[^,}]*//; s/"seconds":[^,}]*//; s/"data_wait":[^,}]*//' "$app-closed/metrics.jsonl")
  "$bin/$app" train "$@" --out "$app-full" >out 2>/dev/full || fail "$app train 2>/dev/full: exit code $?"
  whole "$app-full"
  code=0
  "$bin/$app" train "$@" --out "$app-none" <&- >&- 2>&- || code=$?
  [[ $code == 1 ]] || fail "$app train without streams: exit code $code, though its summary is lost"
  whole "$app-none"
  # Whoever reads the progress goes away.
  "$bin/$app" train "$@" --out "$app-gone" 2> >(head -c 1 >/dev/null) >out || fail "$app: exit code $? without a reader"
  whole "$app-gone"
  lost "$app" recipes
  lost "$app" --help
done
lost lm eval --checkpoint lm --limit 50 --quiet
lost lm generate --checkpoint lm --tokens 30
lost classify compare classify classify-full
for program in bench ops; do lost "$program" list; done
lost goldens "$root/tests/goldens/draws/attention_softmax-0.safetensors"
# A text without end stops with its reader.
code=0
{ timeout 60 "$bin/lm" generate --checkpoint lm --tokens 1000000 2>err || echo $? >code; } | head -c 10 >out
[[ $(cat code) == 1 ]] || fail "lm generate went on without a reader: exit code $(cat code)"
code=0
{ "$bin/lm" eval --checkpoint lm --limit 50 --quiet --json 2>err || echo $? >code; } | true
[[ $(cat code) == 1 ]] || fail "lm eval into a pipe that is gone: exit code $(cat code)"

# Signals: the run is saved, and goes on to the same end.
"$bin/lm" train --recipe nano --steps 400 --batch-size 8 --eval-tokens 300 --quiet --out whole >out
for signal in HUP PIPE TERM; do
  "$bin/lm" train --recipe nano --steps 400 --batch-size 8 --eval-tokens 300 --quiet --out "$signal" >out 2>err &
  pid=$!
  gets_to $pid "$signal/metrics.jsonl"
  kill -"$signal" $pid
  code=0
  wait $pid || code=$?
  [[ $code == 1 ]] || fail "SIG$signal: exit code $code"
  [[ -s $signal/checkpoint.safetensors ]] || fail "SIG$signal: nothing was saved"
  ok lm train --resume "$signal" --quiet
  same "$signal/checkpoint.safetensors" whole/checkpoint.safetensors
done
# nohup has SIGHUP ignored: the run goes on.
nohup "$bin/lm" train --recipe nano --steps 400 --batch-size 8 --eval-tokens 300 --quiet --out nohup >out 2>err &
pid=$!
gets_to $pid nohup/metrics.jsonl
kill -HUP $pid
wait $pid || fail "nohup: exit code $?"
same nohup/checkpoint.safetensors whole/checkpoint.safetensors
done_testing
