#!/usr/bin/env bash
# install.sh BUILD SOURCE: installs the build into a temporary folder, builds the program of tests/consumer and the
# operator of apps/examples/normalise_rows against it and runs them and the installed apps.
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/usr" >/dev/null
cmake -S "$source/tests/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/usr" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/consumer"
"$work/consumer/consumer"
cp -r "$source/apps/examples/normalise_rows" "$work/operator"
cmake -S "$work/operator" -B "$work/operator/build" -DCMAKE_PREFIX_PATH="$work/usr" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/operator/build"
"$work/operator/build/normalise_rows" check normalise_rows
"$work/usr/bin/pca" run --figure 4b --steps 5 --quiet --out "$work/pca" >/dev/null
for app in classify lm segment; do
  recipes=$work/usr/share/pursuit/recipes/$app
  diff -r --exclude=interactive "$source/apps/$app/recipes" "$recipes"
  test -s "$recipes/nano.toml"
  # Apps fall back on the recipes of the source folder: one that only the installation has tells which they read.
  cp "$recipes/nano.toml" "$recipes/installed.toml"
  listed=$("$work/usr/bin/$app" recipes)
  grep -qw installed <<<"$listed" || { echo "$app does not read the installed recipes" >&2; exit 1; }
done
diff -r "$source/apps/segment/interactive/recipes" "$work/usr/share/pursuit/recipes/segment/interactive"
