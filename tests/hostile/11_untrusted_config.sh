#!/usr/bin/env bash
# A config.json that does not match the checkpoint, and checkpoints that once crashed the programs, give one line that
# names file and field. Usage: 11_untrusted_config.sh FOLDER_OF_PROGRAMS
source "$(dirname "$0")/lib.sh"

for app in classify lm segment; do
  # shellcheck disable=SC2046
  ok "$app" train $(toy "$app") --out "$app"
  cp "$app/config.json" config.json
  # rewrites FIELD VALUE: in the run's config.json.
  rewrites() { sed -E "s/\"$1\": [^,]*/\"$1\": $2/" config.json >"$app/config.json"; }
  rewrites depth 1000000000
  refuses 1 "$app/config.json: 'depth' is 1000000000, but the run was trained with" "$app" train --resume "$app"
  # The same in the checkpoint: written without checksums, or it would be damaged.
  mv "$app/checkpoint.safetensors" good
  sed -E 's/xxh3_64/xxh3_65/; s/(\\"depth\\"):./\1:9/' good >"$app/checkpoint.safetensors"
  rewrites depth 9
  refuses 1 "$app/config.json: [config] 'depth' asks for 9 blocks" "$app" train --resume "$app"
  mv good "$app/checkpoint.safetensors"
  rewrites depth 1.9
  refuses 1 "$app/config.json: 'depth' is 1.9, need a whole number" "$app" train --resume "$app"
  rewrites dim 1e300
  refuses 1 "$app/config.json: 'dim' is 1e+300, need a whole number" "$app" train --resume "$app"
  rewrites seed -1
  refuses 1 "$app/config.json: 'seed' is -1, need a whole number" "$app" train --resume "$app"
  rewrites lr null
  refuses 1 "$app/config.json: 'lr' is null, need a finite number" "$app" train --resume "$app"
  cp config.json "$app/config.json"
done

if [[ -d $shared/hostile ]]; then
  printf 'P6 4 4 255 %048d' 0 >picture.ppm # never read: the checkpoints are refused before
  for file in ch2 ch2big; do
    refuses 1 "$file.safetensors: [classify] 'channels' is 2" classify predict --checkpoint "$shared/hostile/$file.safetensors" picture.ppm
  done
  refuses 1 "deep.safetensors: [classify] --depth is 1000000000" classify predict --checkpoint "$shared/hostile/deep.safetensors" picture.ppm
fi
done_testing
