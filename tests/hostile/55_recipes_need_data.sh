#!/usr/bin/env bash
# A recipe for a data set refuses to train without it.
source "$(dirname "$0")/lib.sh"

built_in=(classify/nano-synthetic lm/nano segment/nano)
for app in classify lm segment; do
  for recipe in $("$bin/$app" recipes); do
    [[ " ${built_in[*]} " == *" $app/$recipe "* ]] && continue
    refuses 2 "recipe $recipe is made for" "$app" train --recipe "$recipe" --out new
    grep -q -- "--data" err || fail "$app/$recipe: $(cat err)"
    refuses 1 "/nowhere" "$app" train --recipe "$recipe" --data /nowhere --out new
  done
done
# One of one's own says it in a line.
printf 'requires-data = "my pictures"\nepochs = 1\n' >own.toml
refuses 2 "recipe own.toml is made for my pictures" classify train --recipe own.toml --out new
# Nor is what is drawn taken for a folder's.
mkdir data
printf 'requires-data = "my pictures"\nformat = "synthetic"\n' >drawn.toml
refuses 1 "format synthetic is drawn, but the data is to be that of data" classify train --recipe drawn.toml --data data --out new
refuses 1 "format scenes is drawn, but the data is to be that of data" \
  segment train --recipe nano-camvid --data data --format scenes --out new
[[ ! -e new ]] || fail "a refused training left a folder"
((checks > 40)) || fail "only $checks checks"
done_testing
