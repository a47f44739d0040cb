#!/usr/bin/env bash
# Two ranks of `bench` start from the same weights as one process with both batches, and have the same losses. Shares of
# the peak are of what multiplies.
source "$(dirname "$0")/lib.sh"

refuses 1 "no training step" bench mlp --start start
refuses 1 "one workload" bench vit32-softmax vit32-rpc --start start
refuses 1 "multiple of 8" bench adamw --batch 7
flags=(--threads 1 --steps 1 --seconds 0 --json)
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
export PURSUIT_PORT=$port
PURSUIT_RANK=1 PURSUIT_RANKS=2 "$bin/bench" vit32-rpc --batch 2 --start start.1 "${flags[@]}" >rank1 2>&1 &
PURSUIT_RANK=0 PURSUIT_RANKS=2 ok bench vit32-rpc --batch 2 --start start.2 "${flags[@]}"
wait $! || fail "rank 1: $(cat rank1)"
[[ ! -s rank1 && ! -e start.1 ]] || fail "rank 1 wrote: $(cat rank1)"
mv out two
ok bench vit32-rpc --batch 4 --start start "${flags[@]}"
same start start.2
python3 - two out <<'END' || fail "the losses of two ranks are not those of one process"
import json, sys
two, one = (json.load(open(file)) for file in sys.argv[1:])
assert two["ranks"] == 2 and one["ranks"] == 1 and len(one["losses"]) == 10
assert one["losses"][9] < 0.9 * one["losses"][0]
sys.exit(any(abs(a / b - 1) > 1e-5 for a, b in zip(two["losses"], one["losses"])))
END
# The share of the peak is of what multiplies: RPC's factors are f32 whatever the dtype, int8 has no peak.
ok bench mlp rpc-operator deit-tiny-int8-1 layer-norm --dtype bf16 --batch 1 "${flags[@]}"
python3 - out <<'END' || fail "wrong factors or shares"
import json, sys
rows = {row["workload"]: row for row in map(json.loads, open(sys.argv[1]))}
factors = {name: row["factors"] for name, row in rows.items() if "of_peak" in row}
assert factors == {"mlp": "bf16", "rpc-operator": "f32"}, factors
assert rows["rpc-operator"]["peak_gflops"] == rows["rpc-operator"]["peak"]["f32_gflops"], rows["rpc-operator"]
narrow = "f32_gflops" if rows["mlp"]["isa_bf16"] == "f32" else "bf16_gflops"
assert rows["mlp"]["peak_gflops"] == rows["mlp"]["peak"][narrow], rows["mlp"]
assert rows["deit-tiny-int8-1"]["factors"] == "int8 and f32" and rows["deit-tiny-int8-1"]["gflops"] > 0
assert all(row["isa"] and row["isa_int8"] for row in rows.values())
END
# All threads, and one.
ok bench mlp --threads 0,1 --batch 1 --steps 1 --seconds 0 --json
python3 - out <<'END' || fail "wrong numbers of threads"
import json, os, sys
threads = [json.loads(line)["threads"] for line in open(sys.argv[1])]
assert threads == [int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0)))), 1], threads
END
# If one rank fails, the other exits and names it.
PURSUIT_RANK=1 PURSUIT_RANKS=2 "$bin/bench" vit32-softmax --batch 2 "${flags[@]}" >rank1 2>&1 &
PURSUIT_RANK=0 PURSUIT_RANKS=2 refuses 1 "no/such/folder" bench vit32-softmax --batch 2 --start no/such/folder/start "${flags[@]}"
! wait $! || fail "rank 1 went on alone"
grep -q '^\[rank 1\] error: rank 0 failed: .*no/such/folder' rank1 || fail "rank 1 says: $(cat rank1)"
done_testing
