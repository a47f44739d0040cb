#!/usr/bin/env bash
# Goldens in bf16 fail where a tensor of the file is wrong, though their bars are computed: with each output and
# gradient zeroed in turn.
source "$(dirname "$0")/lib.sh"
draws=$root/tests/goldens/draws

# zero FILE TENSOR
zero() {
  local header size range begin end
  size=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
  header=$(dd if="$1" bs=1 skip=8 count="$size" status=none)
  range=$(grep -oP "\"\Q$2\E\": \{[^}]*\"data_offsets\": \[\K[0-9]+, [0-9]+" <<<"$header") || fail "no $2 in $1"
  begin=${range%,*} end=${range#*, }
  dd if=/dev/zero of="$1" bs=1 seek=$((8 + size + begin)) count=$((end - begin)) conv=notrunc status=none
}

for case in attention_softmax-0 rpc_n4-0 svt-0 scaled_attention_alpha-0 vit_rpc-0; do
  ok goldens "$draws/$case.safetensors" --dtype bf16
  # Every third of them.
  for tensor in $(grep -aoE '"(out|grad)\.[a-z0-9_.]+": \{' "$draws/$case.safetensors" | cut -d'"' -f2 | sed -n '1~3p'); do
    cp "$draws/$case.safetensors" damaged.safetensors
    chmod u+w damaged.safetensors
    zero damaged.safetensors "$tensor"
    code=0
    "$bin/goldens" damaged.safetensors --dtype bf16 >out 2>&1 || code=$?
    [[ $code == 1 ]] || fail "$case passes with $tensor zeroed: $(cat out)"
    grep -qF "$tensor" out || fail "$case does not name $tensor: $(cat out)"
    checks=$((checks + 1))
  done
done
done_testing
