#!/usr/bin/env bash
# mpirun.sh TEST_RANK: a real mpirun starts ranks of the test program; one that is killed takes the job with it.
set -euo pipefail
rank=$1
. "$(dirname "$0")/../temporary_folder.sh"
# Ranks would outlive an mpirun that is killed.
trap 'kill $(jobs -p) 2>/dev/null && wait; end_test' EXIT
run() { mpirun --allow-run-as-root --oversubscribe "$@"; }

run -n 3 "$rank" operations >"$folder/out"
[[ $(grep -c ' of 3 by Open MPI, 3 on this machine' "$folder/out") == 3 ]] || { cat "$folder/out" >&2; exit 1; }

# mpirun itself would end the others at once: it is told not to, so that they must find out.
run --mca orte_abort_on_non_zero_status 0 --enable-recovery -n 2 bash -c "
  if [[ \$OMPI_COMM_WORLD_RANK == 1 ]]; then echo \$\$ >'$folder/pid'; fi
  exec '$rank' loop" >"$folder/out" 2>"$folder/err" &
job=$!
for ((i = 0; i < 300; ++i)); do
  [[ $(grep -c looping "$folder/out") != 2 ]] || break
  sleep 0.1
done
kill -9 "$(<"$folder/pid")"
wait "$job" || true
grep -qx 'error: rank 1 is lost (its connection closed)' "$folder/err" || { cat "$folder/err" >&2; exit 1; }

# Two jobs at the same time do not meet each other.
run -n 2 "$rank" operations >"$folder/one" &
job=$!
run -n 2 "$rank" operations >"$folder/two"
wait "$job"
echo "mpirun starts ranks, alone and beside another job; a killed one is named"
