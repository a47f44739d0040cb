#!/usr/bin/env bash
# install.sh BUILD SOURCE: installs the build into a temporary folder, builds the program of tests/consumer against
# it and runs both it and the installed classify.
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/usr" >/dev/null
cmake -S "$source/tests/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/usr" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/consumer"
"$work/consumer/consumer"
cd "$work"
usr/bin/classify recipes | grep -q deit-tiny
