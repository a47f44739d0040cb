#!/usr/bin/env bash
# install_simulated.sh BUILD SOURCE: installs the library of a build with the simulated GPU, builds the operator of
# apps/examples/normalise_rows against it and tests its kernel on that GPU.
set -euo pipefail
build=$1 source=$2
. "$(dirname "$0")/../temporary_folder.sh"
cmake --install "$build" --prefix "$folder/usr" --component library >/dev/null
cp -r "$source/apps/examples/normalise_rows" "$folder/operator"
cmake -S "$folder/operator" -B "$folder/operator/build" -DCMAKE_PREFIX_PATH="$folder/usr" \
  -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$folder/operator/build"
"$folder/operator/build/normalise_rows" check normalise_rows --device cuda
