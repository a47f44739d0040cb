#!/usr/bin/env bash
# Several ranks train as one process that accumulates as many batches, bit for bit: on one machine, and over TCP two of
# them and four in order; four over TCP in any order to 1e-6 of the loss. A run resumes with other numbers of ranks.
# Usage: ranks.sh APP STEPS SETTING...  (STEPS by two ranks, the long form is 100; four take 20)
set -euo pipefail
app=$(realpath "$1") steps=$2
. "$(dirname "$0")/../temporary_folder.sh"
cd "$folder"
# same A B: their checkpoints hold the same bytes, but for the settings in the header.
same() {
  python3 - "$1/checkpoint.safetensors" "$2/checkpoint.safetensors" <<'END' || { echo "$1 and $2 differ" >&2 && exit 1; }
import json, sys
def tensors(path):
    data = open(path, "rb").read()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__")
    assert len(header) > 10
    return header, data[8 + n :]
sys.exit(tensors(sys.argv[1]) != tensors(sys.argv[2]))
END
}
# close A B: every loss that they have written.
close() {
  paste <(losses "$1") <(losses "$2") | awk '
    { d = ($1 - $2) / $1; if (d < 0) d = -d; if (!(d <= 1e-6)) bad = 1; if (d > most) most = d; n++ }
    END { printf "%d losses, largest difference %.2g\n", n, most; exit bad || n < 3 }'
}
# Of every tenth step, and the means of the evaluations.
losses() { grep -oE '"([a-z]+_)?loss":[^,}]*' "$1/metrics.jsonl" | cut -d: -f2; }
train() { "$app" train "${settings[@]}" --quiet --threads 1 "$@" >/dev/null; }
for attention in softmax rpc; do
  settings=("${@:3}" --attention "$attention" --schedule constant --seed 3)
  train --steps "$steps" --accumulate 2 --out one
  train --steps "$steps" --ranks 2 --check-replicas --out two
  same one two
  train --steps 20 --accumulate 4 --out four
  train --steps 20 --ranks 4 --check-replicas --out ordered
  same four ordered
  export PURSUIT_SHARED_MEMORY=off
  train --steps "$steps" --ranks 2 --out tcp
  same one tcp
  train --steps 20 --ranks 4 --ordered-reduce --out tcp-ordered
  same four tcp-ordered
  train --steps 20 --ranks 4 --check-replicas --out unordered
  close four unordered
  unset PURSUIT_SHARED_MEMORY
  # On with one rank, and on with two again.
  train --steps 4 --ranks 2 --out half
  "$app" train --resume half --steps 7 --ranks 1 --quiet >/dev/null
  "$app" train --resume half --steps "$steps" --ranks 2 --quiet >/dev/null
  same one half
  if "$app" train --resume half --ranks 3 --quiet 2>err; then echo "3 ranks shared 2 batches" >&2 && exit 1; fi
  grep -q "cannot share equally" err || { cat err >&2 && exit 1; }
  if "$app" train --out many --ranks 65536 --quiet 2>err; then echo "65536 ranks were started" >&2 && exit 1; fi
  grep -q "ranks are more than 8 for each of" err || { cat err >&2 && exit 1; }
  rm -r one two four ordered tcp tcp-ordered unordered half
done
echo "ranks equal accumulated batches"
