#!/usr/bin/env bash
# Goldens fail if a tensor of the file is wrong, in f32 and in bf16, even though their tolerances are computed: outputs
# and gradients are zeroed, negated and scaled by 1.01 in turn.
source "$(dirname "$0")/lib.sh"
draws=$root/tests/goldens/draws

# scaled FILE TENSOR FACTOR TO: a copy of the file in which the tensor's f32 numbers are multiplied.
scaled() {
  python3 - "$@" <<'END' || fail "python3 is needed for the wrong files"
import array, json, struct, sys
path, tensor, factor, to = sys.argv[1:]
data = bytearray(open(path, "rb").read())
start = 8 + struct.unpack("<Q", data[:8])[0]
begin, end = (start + at for at in json.loads(data[8:start])[tensor]["data_offsets"])
data[begin:end] = array.array("f", [x * float(factor) for x in array.array("f", bytes(data[begin:end]))]).tobytes()
open(to, "wb").write(data)
END
}

for case in attention_softmax-0 rpc_n4-0 svt-0 scaled_attention_alpha-0 vit_rpc-0; do
  for dtype in f32 bf16; do ok goldens "$draws/$case.safetensors" --dtype $dtype; done
  # Every third of them.
  tensors=$(grep -aoE '"(out|grad)\.[a-z0-9_.]+": \{' "$draws/$case.safetensors" | cut -d'"' -f2 | sed -n '1~3p') ||
    fail "$case: no tensor to make wrong"
  for tensor in $tensors; do
    for factor in 0 -1 1.01; do
      scaled "$draws/$case.safetensors" "$tensor" $factor wrong.safetensors
      for dtype in f32 bf16; do
        code=0
        "$bin/goldens" wrong.safetensors --dtype $dtype >out 2>&1 || code=$?
        [[ $code == 1 ]] || fail "$case passes in $dtype with $tensor times $factor: $(cat out)"
        grep -qF "$tensor" out || fail "$case does not name $tensor: $(cat out)"
        checks=$((checks + 1))
      done
    done
  done
done
done_testing
