#!/usr/bin/env bash
# install.sh BUILD SOURCE: installs the build into a temporary folder, builds the program of tests/consumer and the
# operator of apps/examples/normalise_rows against it and runs them and the installed apps.
set -euo pipefail
build=$1 source=$2
. "$(dirname "$0")/../temporary_folder.sh"
cmake --install "$build" --prefix "$folder/usr" >/dev/null
installed=(-DCMAKE_PREFIX_PATH="$folder/usr" -DCMAKE_BUILD_TYPE=Release)
cmake -S "$source/tests/consumer" -B "$folder/consumer" "${installed[@]}" >/dev/null
cmake --build "$folder/consumer"
"$folder/consumer/consumer"
cp -r "$source/apps/examples/normalise_rows" "$folder/operator"
cmake -S "$folder/operator" -B "$folder/operator/build" "${installed[@]}" >/dev/null
cmake --build "$folder/operator/build"
"$folder/operator/build/normalise_rows" check normalise_rows
"$folder/usr/bin/pca" run --figure 4b --steps 5 --quiet --out "$folder/pca" >/dev/null
for app in classify lm segment; do
  recipes=$folder/usr/share/pursuit/recipes/$app
  diff -r --exclude=interactive "$source/apps/$app/recipes" "$recipes"
  test -s "$recipes/nano.toml"
  # Apps fall back on the recipes of the source folder: one that only the installation has tells which they read.
  cp "$recipes/nano.toml" "$recipes/installed.toml"
  listed=$("$folder/usr/bin/$app" recipes)
  grep -qw installed <<<"$listed" || { echo "$app does not read the installed recipes" >&2; exit 1; }
done
diff -r "$source/apps/segment/interactive/recipes" "$folder/usr/share/pursuit/recipes/segment/interactive"
