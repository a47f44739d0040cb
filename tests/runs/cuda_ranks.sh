#!/usr/bin/env bash
# Training by several ranks on the simulated GPU and NCCL. Captured or operator by operator, with late or early streams
# and with any rank late, two ranks have the bits of one process with two batches per step, and three ordered ones of
# three batches.
# Usage: cuda_ranks.sh APP SETTING...
set -euo pipefail
app=$(realpath "$1")
. "$(dirname "$0")/../temporary_folder.sh"
cd "$folder"
train() { "$app" train "${settings[@]}" --out "$@" >/dev/null; }
# The weights and the optimizer's state: the header holds settings too.
tensors() { python3 -c 'import sys; d = open(sys.argv[1], "rb").read(); sys.stdout.buffer.write(d[8 + int.from_bytes(d[:8], "little"):])' "$1/checkpoint.safetensors"; }
same() {
  tensors "$1" >first && tensors "$2" >second
  test "$(wc -c <first)" -gt 10000
  cmp first second || { echo "$1 and $2 differ" >&2 && exit 1; }
}
for run in softmax-f32 rpc-bf16; do
  settings=("${@:2}" --attention "${run%-*}" --dtype "${run#*-}" --schedule constant --seed 3 --threads 1 --quiet
    --steps 3 --device cuda)
  train "$run" --accumulate 2
  train "$run-ranks" --ranks 2 --check-replicas
  SIMT_STREAMS=early SIMT_LATE_RANK=0 train "$run-early" --ranks 2
  SIMT_STREAMS=early SIMT_LATE_RANK=1 train "$run-eager" --ranks 2 --no-graph
  for other in ranks early eager; do same "$run" "$run-$other"; done
  train "$run-three" --accumulate 3
  train "$run-ordered" --ranks 3 --ordered-reduce --check-replicas
  same "$run-three" "$run-ordered"
  train "$run-wire" --ranks 2 --wire bf16 --check-replicas
done
if "$app" train "${settings[@]}" --device cuda:0 --ranks 2 --out one-gpu 2>err; then echo "two ranks shared cuda:0" >&2 && exit 1; fi
grep -q -- "--device cuda:0 is one GPU" err || { cat err >&2 && exit 1; }
echo "ranks on GPUs equal accumulated batches"
