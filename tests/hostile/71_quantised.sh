#!/usr/bin/env bash
# Quantised runs: made, used, and refused in one line where they are damaged or asked for what they cannot do.
# Usage: 71_quantised.sh FOLDER_OF_PROGRAMS
source "$(dirname "$0")/lib.sh"

# change FILE TENSOR NUMBER VALUE: sets one f32 number of a tensor.
change() {
  python3 - "$@" <<'PY'
import json, struct, sys
path, name, number, value = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
data = bytearray(open(path, "rb").read())
size = struct.unpack("<Q", data[:8])[0]
tensor = json.loads(data[8 : 8 + size])[name]
assert tensor["dtype"] == "F32", tensor
at = 8 + size + tensor["data_offsets"][0] + 4 * number
data[at : at + 4] = struct.pack("<f", value)
open(path, "wb").write(data)
PY
}
use() {
  case $1 in
    classify) echo eval --checkpoint "$2" --limit 8 --quiet --json ;;
    lm) echo eval --checkpoint "$2" --limit 300 --quiet --json ;;
  esac
}
# bytes_of FILE: the model's own tensors, without what training keeps.
bytes_of() {
  python3 - "$1" <<'PY'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
spans = {n: t["data_offsets"] for n, t in json.loads(data[8 : 8 + size]).items() if n != "__metadata__"}
print(sum(e - b for n, (b, e) in spans.items() if not n.startswith(("optimizer.", "ema."))))
PY
}

for app in classify lm; do
  # shellcheck disable=SC2046
  ok "$app" train $(toy "$app") --attention softmax --out "$app"
  ok "$app" quantize --checkpoint "$app" --out "$app-8" --calibrate 32 --batch-size 16
  grep -qF "w8a8" out || fail "$app: says not what was made: $(cat out)"
  check "$app: larger than a third" test $((3 * $(bytes_of "$app-8/checkpoint.safetensors"))) -lt "$(bytes_of "$app/checkpoint.safetensors")"
  # shellcheck disable=SC2046
  ok "$app" $(use "$app" "$app-8")
  cp out integers
  # shellcheck disable=SC2046
  ok "$app" $(use "$app" "$app-8") --simulated
  check "$app: integers and simulation differ" python3 - integers out <<'PY'
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
a, b = (x[0] if isinstance(x, list) else x for x in (a, b))
assert abs(a["loss"] - b["loss"]) < 1e-2 * abs(a["loss"]), (a["loss"], b["loss"])
PY
  # The same seed gives the same bytes, another one other ranges.
  ok "$app" quantize --checkpoint "$app" --out "$app-again" --calibrate 32 --batch-size 16
  same "$app-8/checkpoint.safetensors" "$app-again/checkpoint.safetensors"

  refuses 1 "quantised already" "$app" quantize --checkpoint "$app-8" --out other
  refuses 1 "there is a run already" "$app" quantize --checkpoint "$app" --out "$app-8"
  for bits in w9a8 w8a1 w8 8 w8a8x; do
    refuses 2 "--bits: got '$bits'" "$app" quantize --checkpoint "$app" --out other --bits "$bits"
  done
  refuses 1 "cannot be trained" "$app" train --resume "$app-8"
  # shellcheck disable=SC2046
  refuses 1 "computes in f32" "$app" $(use "$app" "$app-8") --dtype bf16
  # shellcheck disable=SC2046
  refuses 1 "is not quantised" "$app" $(use "$app" "$app") --simulated

  # Damage that a checksum does not see.
  weight=blocks.0.attn.qkv.weight_scale
  for damage in "$weight 0 nan" "$weight 3 -1" "$weight 1 0" "blocks.0.attn.scores.grid 0 inf" "blocks.0.attn.scores.grid 1 0.5" \
    "blocks.0.mlp.hidden.grid 1 256"; do
    cp "$app-8/checkpoint.safetensors" damaged.safetensors
    # shellcheck disable=SC2086
    change damaged.safetensors $damage
    # shellcheck disable=SC2046
    refuses 1 "is damaged" "$app" $(use "$app" damaged.safetensors)
    # shellcheck disable=SC2046
    refuses 1 "${damage%% *}" "$app" $(use "$app" damaged.safetensors) --no-verify
  done
  for field in 'weight-bits\\":8/weight-bits\\":9' 'activation-bits\\":8/activation-bits\\":1'; do
    sed "s/$field/" "$app-8/checkpoint.safetensors" >damaged.safetensors
    # shellcheck disable=SC2046
    refuses 1 "${field%%\\*}" "$app" $(use "$app" damaged.safetensors) --no-verify
  done
  # Codes and f32 numbers are not taken for each other.
  sed 's/weight-bits\\":8/weight-bits\\":0/; s/activation-bits\\":8/activation-bits\\":0/' "$app-8/checkpoint.safetensors" >damaged.safetensors
  # shellcheck disable=SC2046
  refuses 1 "i8 (need f32)" "$app" $(use "$app" damaged.safetensors) --no-verify
  head -c 20000 "$app-8/checkpoint.safetensors" >damaged.safetensors
  # shellcheck disable=SC2046
  refuses 1 "damaged.safetensors" "$app" $(use "$app" damaged.safetensors)
done

refuses 1 "no gradients" classify eval --checkpoint classify-8 --limit 4 --attack fgsm --quiet
ok lm generate --checkpoint lm-8 --tokens 5
ok lm quantize --checkpoint lm --out lm-head --float-head --calibrate 16 --granularity tensor --weight-range mse --activation-range percentile
ok lm generate --checkpoint lm-head --tokens 5
# An encoder of masked words.
ok lm train --recipe nano --rows blocks --objective masked --norm post --batch-size 8 --eval-tokens 300 --steps 4 --quiet --out masked
ok lm quantize --checkpoint masked --out masked-8 --float-head --calibrate 16 --batch-size 8
ok lm eval --checkpoint masked-8 --limit 300 --quiet --json
grep -qF '"objective":"masked words"' out || fail "says not what was predicted: $(cat out)"
ok classify train --model resnet18 --width 4 --epochs 1 --limit 16 --test-limit 4 --steps 1 --batch-size 8 --quiet --out resnet
refuses 1 "no quantised form" classify quantize --checkpoint resnet --out other
done_testing
