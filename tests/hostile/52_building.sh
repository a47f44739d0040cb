#!/usr/bin/env bash
# If the project cannot be configured or installed, the message names what is missing.
source "$(dirname "$0")/lib.sh"

! cmake -S "$root" -B simulated -G Ninja -DPURSUIT_CUDA=SIMULATED -DBOOST_CONTEXT= >out 2>&1 || fail "configured without Boost"
check "the package is not named" grep -q libboost-context-dev out
cmake -S "$root" -B partial -G Ninja -DPURSUIT_CUDA=OFF -DPURSUIT_TESTS=OFF >out 2>&1 || fail "$(cat out)"
! cmake --install partial --prefix installed >out 2>&1 || fail "installed what is not built"
check "what to do is not told" grep -q 'is not built yet: run cmake --build' out
check "half of it was installed" test ! -e installed
done_testing
