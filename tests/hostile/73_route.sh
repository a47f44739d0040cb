#!/usr/bin/env bash
# Routing: damaged and malicious instance files, damaged runs, and runs of other apps are refused in one line.
# Usage: 73_route.sh FOLDER_OF_PROGRAMS
source "$(dirname "$0")/lib.sh"

ok route train --quiet --threads 1 --nodes 6 --dim 16 --heads 2 --hidden 16 --layers 1 --instances 20 --label-rounds 2 \
  --test-instances 4 --batch-size 4 --steps 2 --out run

head=$'TYPE : TSP\nDIMENSION : 3\nEDGE_WEIGHT_TYPE : EUC_2D\n'
nodes=$'NODE_COORD_SECTION\n1 0 0\n2 1 0\n3 0 1\nEOF\n'
# file TEXT: as a.tsp
file() { printf '%s' "$1" >a.tsp; }
refused_file() { # WHY TEXT
  file "$2"
  refuses 1 "$1" route solve a.tsp --checkpoint run
  refuses 1 "$1" route eval --data a.tsp --checkpoint run --quiet
}
file "$head$nodes"
ok route solve a.tsp --checkpoint run
refused_file "no NODE_COORD_SECTION" ""
refused_file "need EUC_2D, CEIL_2D, ATT or GEO" "${head/EUC_2D/GEOM}$nodes"
refused_file "need TSP or CVRP" "${head/TSP/ATSP}$nodes"
refused_file "in a file of" "${head/DIMENSION : 3/DIMENSION : 4000000000000}$nodes"
refused_file "need a whole number" "${head/DIMENSION : 3/DIMENSION : 1e999}$nodes"
refused_file "need 1 to 3" "$head${nodes/3 0 1/4 0 1}"
refused_file "comes twice" "$head${nodes/3 0 1/2 0 1}"
refused_file "not a number from -1e9" "$head${nodes/3 0 1/3 0 1e300}"
refused_file "not a number from -1e9" "$head${nodes/3 0 1/3 0 nan}"
refused_file "is not UTF-8" "$head"$'COMMENT : \xff\n'"$nodes"
refused_file "which is not read here" "$head"$'\e[31mEDGE_WEIGHT_SECTION\n'"$nodes"
! grep -q $'\e' err || fail "an escape sequence reached the terminal"
file "$head$nodes"
refuses 1 "--nodes is of uniform instances" route eval --data a.tsp --nodes 5 --checkpoint run --quiet
refuses 1 "--max-nodes is of a file's instances" route eval --max-nodes 5 --checkpoint run --quiet
refuses 1 "--augment belongs to pomo" route eval --augment --checkpoint run --quiet
refuses 1 "--seed is of the draws of --rrc" route eval --seed 1 --checkpoint run --quiet
file "$head"$'NODE_COORD_SECTION\n1 0 0\n2 0.1 0\n3 0 0.1\nEOF\n'
refuses 1 "all distances of" route eval --data a.tsp --checkpoint run --quiet
file "$head$nodes"
printf '0 0 1 0 0 1 output 1 2 2 1\n' >tours.txt
refuses 1 "visited twice" route eval --data tours.txt --checkpoint run --quiet
refuses 1 "visited twice" route train --data tours.txt --nodes 6 --out other
refuses 1 "nowhere.tsp" route solve nowhere.tsp --checkpoint run
refuses 1 "is kept by the run" route solve a.tsp --checkpoint run --svg run/checkpoint.safetensors

# A run whose config says more than its tensors hold, and a truncated checkpoint.
cp -r run larger
sed -i 's/"layers": 1/"layers": 100/' larger/config.json
refuses 1 "layers" route train --resume larger
cp -r run cut
truncate -s 3000 cut/checkpoint.safetensors
rm -f cut/checkpoint-previous.safetensors
refuses 1 "cut/checkpoint.safetensors" route solve a.tsp --checkpoint cut
refuses 1 "route" spirals compare run
done_testing
