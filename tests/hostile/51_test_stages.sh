#!/usr/bin/env bash
# tools/test: stages can be left out, but not in CI, and only those that there are.
source "$(dirname "$0")/lib.sh"
test=$root/tools/test

CI='' "$test" --no-install --without=build --without=tests >out 2>err || fail "a person may leave stages out: $(cat err)"
check "what was left out is not told" grep -qE '^ *tests +left out: --without' out
check "what else there is is not told" grep -q 'tools/test --all' out
! CI=true "$test" --no-install --without=build --without=tests >out 2>err || fail "CI left out a stage and passed"
check "the stage is not named" grep -q 'build is left out' err
check "the summary says otherwise" grep -qE '^ *build +FAILED' out

# refuses_words TEXT WORD...: nothing is begun, and one line says TEXT.
refuses_words() {
  local code=0
  "$test" --no-install --without=format --without=build --without=tests "${@:2}" >out 2>err || code=$?
  check "${*:2}: exit code $code" test $code == 2
  check "${*:2}: says $(cat err)" test "$(cat err)" == "test: $1"
  check "${*:2}: something was begun" test ! -s out
}
few="without --all there are format build tests"
many="with --all there are format build tests sanitize simulated cuda fuzz threads tidy sanitize-rest"
refuses_words "--without: there is no stage 'sanitise'; $few" --without=sanitise
refuses_words "--without: there is no stage 'sanitize'; $few" --without=sanitize
refuses_words "--without: there is no stage ''; $few" --without=
refuses_words "--without: there is no stage 'build tests'; $few" "--without=build tests"
refuses_words "--without: there is no stage 'sanitize_rest'; $many" --all --without=sanitize_rest
for minutes in "" x -1 1.5; do
  refuses_words "--minutes is '$minutes', need a whole number" --minutes=$minutes
done
done_testing
