#!/usr/bin/env bash
# install_simulated.sh BUILD SOURCE: installs the library of a build with the simulated GPU, builds the operator of
# apps/examples/normalise_rows against it and tests its kernel on that GPU.
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/usr" --component library >/dev/null
cp -r "$source/apps/examples/normalise_rows" "$work/operator"
cmake -S "$work/operator" -B "$work/operator/build" -DCMAKE_PREFIX_PATH="$work/usr" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/operator/build"
"$work/operator/build/normalise_rows" check normalise_rows --device cuda
