#!/usr/bin/env bash
# tools/test: stages can be left out, but not in CI.
source "$(dirname "$0")/lib.sh"
test=$root/tools/test

CI='' "$test" --no-install --without=build --without=tests >out 2>err || fail "a person may leave stages out: $(cat err)"
check "what was left out is not told" grep -qE '^ *tests +left out: --without' out
check "what else there is is not told" grep -q 'tools/test --all' out
! CI=true "$test" --no-install --without=build --without=tests >out 2>err || fail "CI left out a stage and passed"
check "the stage is not named" grep -q 'build is left out' err
check "the summary says otherwise" grep -qE '^ *build +FAILED' out
done_testing
