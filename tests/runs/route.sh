#!/usr/bin/env bash
# route's command line: both models and both problems, resuming, files, drawings, the messages for mistakes.
# Usage: route.sh PROGRAM
set -euo pipefail
route=$(realpath "$1")
shared=${PURSUIT_SHARED:-}
. "$(dirname "$0")/../temporary_folder.sh"
cd "$folder"
fail() { echo "FAILED: $*" >&2 && exit 1; }

small=(--quiet --threads 1 --nodes 8 --dim 32 --heads 4 --hidden 64 --layers 2 --test-instances 40 --label-rounds 20
       --eval-every 0 --lr 2e-3)
"$route" train "${small[@]}" --instances 500 --steps 200 --out tsp >out
"$route" train "${small[@]}" --problem cvrp --instances 500 --steps 200 --out cvrp >out2
"$route" train "${small[@]}" --model pomo --norm instance --instances 640 --steps 60 --batch-size 16 --out pomo >out3
"$route" train "${small[@]}" --model pomo --problem cvrp --norm instance --instances 640 --steps 60 --batch-size 16 \
  --out pomo-cvrp >out4
python3 - out out2 out3 out4 <<'END' || fail "nothing was learnt: $(cat out out2 out3)"
import re, sys
# Untrained models are at 60 to 130 %.
for file in sys.argv[1:]:
    if float(re.search(r"test gap (-?[\d.]+) %", open(file).read())[1]) > 30:
        sys.exit(1)
END

# Half of it, and on from there: the same weights. So the labels are made again with the same bits.
train=("$route" train "${small[@]}" --instances 200 --schedule constant)
for model in lehd pomo; do
  "${train[@]}" --model $model --steps 8 --out $model-half >out
  "${train[@]}" --model $model --steps 16 --out $model-whole >out
  "$route" train --resume $model-half --steps 16 --quiet >out
  "$route" export half.safetensors --checkpoint $model-half >out
  "$route" export whole.safetensors --checkpoint $model-whole >out
  python3 - half.safetensors whole.safetensors <<'END' || fail "$model: resuming gives other weights"
import json, struct, sys
def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    return {n: data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]
            for n, t in header.items() if n != "__metadata__"}
a, b = map(tensors, sys.argv[1:])
sys.exit(not a or a != b)
END
done

"$route" eval --checkpoint tsp --rrc 5,20 --quiet >out
for word in greedy rrc5 rrc20 "nearest neighbour" savings reference; do grep -q "$word" out || fail "eval: no $word"; done
"$route" eval --checkpoint tsp --rrc 20 --nodes 12 --limit 10 --quiet --json >first
"$route" eval --checkpoint tsp --rrc 20 --nodes 12 --limit 10 --quiet --json >again
cmp first again
# What the draws depend on is in the name.
"$route" eval --checkpoint tsp --rrc 20 --nodes 12 --limit 10 --batch-size 4 --quiet --json >batches
grep -q "rrc20, batches of 4" batches && grep -q '"rrc20"' first || fail "no batch size: $(cat batches first)"
# A stop ends the iterations, not only a batch.
code=0
timeout -s INT --preserve-status 2 "$route" eval --checkpoint tsp --rrc 1000000 --quiet >out 2>err || code=$?
[[ $code == 1 ]] && grep -q "stopped before any result" err || fail "not stopped: code $code, $(cat err)"
"$route" eval --checkpoint pomo --augment --quiet --json >pomo.json
"$route" eval --checkpoint pomo-cvrp --augment --quiet --json >pomo-cvrp.json
python3 - tsp/eval.json pomo.json pomo-cvrp.json <<'END' || fail "gaps that cannot be"
import json, sys
by = {e["decoding"]: e["gap"] for e in json.load(open(sys.argv[1]))["evaluations"] if e["data"] == "uniform TSP8"}
assert by["greedy"] >= by["rrc5"] >= by["rrc20"], by
for file in sys.argv[2:]:
    by = {e["decoding"]: e["gap"] for e in json.load(open(file))}
    assert by["single"] >= by["starts"] >= by["x8"], by
assert by["single"] > 0, by
END

cat >a.tsp <<'END'
NAME : a
TYPE : TSP
DIMENSION : 6
EDGE_WEIGHT_TYPE : CEIL_2D
NODE_COORD_SECTION
1 0 0
2 100 0
3 200 0
4 200 100
5 100 100
6 0 100
EOF
END
cat >b.vrp <<'END'
NAME : b
TYPE : CVRP
DIMENSION : 5
EDGE_WEIGHT_TYPE : EUC_2D
CAPACITY : 5
NODE_COORD_SECTION
1 0 0
2 30 40
3 -30 40
4 30 -40
5 -30 -40
DEMAND_SECTION
1 0
2 3
3 3
4 3
5 2
DEPOT_SECTION
1
-1
EOF
END
"$route" solve a.tsp --checkpoint tsp --rrc 30 --svg a.svg --solution a.tour >out
grep -q "rrc30 .*600" out || fail "the shortest tour is 600: $(cat out)"
grep -q "^TOUR_SECTION" a.tour && [[ $(wc -l <a.tour) == 13 ]] || fail "a.tour: $(cat a.tour)"
python3 -c "import xml.dom.minidom as x; assert len(x.parse('a.svg').getElementsByTagName('circle')) == 6"
"$route" solve a.tsp --checkpoint pomo >out
grep -q "x8" out || fail "pomo: $(cat out)"
"$route" solve b.vrp --checkpoint cvrp --rrc 5 --solution b.sol >out
grep -q "of 5" out || fail "no loads: $(cat out)"
grep -q "^Route #3:" b.sol || fail "b.sol: $(cat b.sol)"
"$route" eval --checkpoint cvrp --data b.vrp --max-nodes 4 --quiet >out
grep -q "reference: nearest neighbour" out || fail "says not what the gap is to: $(cat out)"
if [[ -n $shared && -d $shared/data/tsp ]]; then
  "$route" eval --checkpoint tsp --data "$shared/data/tsp/TSPlib_70instances.txt" --max-nodes 60 --quiet >out
  grep -q "TSPlib_70instances.txt" out || fail "TSPLIB: $(cat out)"
  "$route" train --quiet --threads 1 --dim 16 --hidden 16 --layers 1 --data "$shared/data/tsp/test_TSP200_n128.txt" \
    --nodes 20 --test-instances 2 --batch-size 2 --steps 2 --eval-every 0 --out published >out
else
  # See tests/README.md.
  [[ -z ${PURSUIT_MAY_SKIP:-} || ,$PURSUIT_MAY_SKIP, == *,data,* ]] || fail "there is no \$PURSUIT_SHARED/data/tsp"
  echo "no \$PURSUIT_SHARED/data/tsp: the published files were left out"
fi

"$route" report tsp
grep -q "<polygon" tsp/report.html && grep -q "label: " tsp/report.html || fail "no tours in the report"
"$route" compare tsp pomo --report both.html >out
grep -q "Comparison of routing models" both.html || fail "no comparison"

refused() {
  local code=0
  "$route" "${@:2}" >out 2>err || code=$?
  [[ $code != 0 ]] && grep -q -- "$1" err && [[ $(wc -l <err) == 1 ]] || fail "${*:2}: code $code, $(cat err)"
}
refused "need 5 to 1000" train --nodes 4
refused "divides --dim" train --dim 10 --heads 4
refused "--device" train --device cuda
refused "needs no labels" train --model pomo --data a.tsp
refused "instances of tsp with solutions" train --data a.tsp --out other
refused "belongs to lehd" eval --checkpoint pomo --rrc 5
refused "belongs to pomo" solve a.tsp --checkpoint tsp --augment
refused "give both" solve a.tsp --checkpoint tsp --seed 5
refused "need at least 3" eval --checkpoint tsp --nodes 2
refused "no-folder/a.svg" solve a.tsp --checkpoint tsp --rrc 1000000 --svg no-folder/a.svg
refused "is a cvrp, the run solves tsp" solve b.vrp --checkpoint tsp
refused "a.tsp has instances of tsp, the run solves cvrp" eval --checkpoint cvrp --data a.tsp
refused "no instance of up to 3 nodes" eval --checkpoint tsp --data a.tsp --max-nodes 3
sed "s/CEIL_2D/EXPLICIT/" a.tsp >explicit.tsp
refused "EXPLICIT" solve explicit.tsp --checkpoint tsp
sed "s/^2 100 0/2 100/" a.tsp >damaged.tsp
refused "where y is expected" solve damaged.tsp --checkpoint tsp
refused "nowhere" solve a.tsp --checkpoint nowhere
echo "routes"
