#!/usr/bin/env bash
# pca's command line: figures, sweeps, the page, resumed and stopped runs, the messages for mistakes.
# Usage: pca.sh PROGRAM
set -euo pipefail
pca=$1
. "$(dirname "$0")/../temporary_folder.sh"
cd "$folder"
fail() {
  printf '%s\n' "$*" >&2
  exit 1
}
refuses() { # CODE TEXT ARGUMENT...: one line on stderr
  local code=0
  "$pca" "${@:3}" >/dev/null 2>said || code=$?
  [[ $code == "$1" ]] || fail "$*: exit code $code, not $1: $(cat said)"
  [[ $(grep -c . said) == 1 ]] || fail "$*: not one line: $(cat said)"
  grep -qF -- "$2" said || fail "$*: says no '$2' but: $(cat said)"
}
exact=(--runs 2 --steps 12 --quiet)
quick=("${exact[@]}" --prompts 6)

"$pca" run --figure all "${quick[@]}" --out all >said
for name in 2 3a 3b 4a 4b 5a 5b 6a 6b 7a 7b 8a 8b; do
  [[ -s all/$name.csv && -s all/$name.json ]] || fail "no results of $name"
  grep -q "^$name: " said || fail "nothing is said of $name"
done
for figure in 1 2 3a 3b 4a 4b 5a 5b 6a 6b 7a 7b 8a 8b; do
  grep -q "<h2>Figure $figure: " all/report.html || fail "no figure $figure on the page"
done
# 2 runs of 14 records (0, 1, ..., 12 and the heading), and of 20 points.
[[ $(wc -l <all/3b.csv) == 27 && $(wc -l <all/5a.csv) == 41 ]] || fail "3b.csv or 5a.csv has another length"
! grep -qi "nan\|inf" all/*.csv || fail "a CSV has numbers that are none"

# Figures that are there are not made again; others are added, to the same page.
"$pca" run --figure 3b "${exact[@]}" --out some >/dev/null
cp some/3b.csv kept
"$pca" run --figure 3b,4b --script-gradient "${exact[@]}" --out some >/dev/null 2>said
grep -q "3b is in some already" said || fail "3b was made again"
cmp kept some/3b.csv
cmp some/3b.csv all/3b.csv
grep -q "script&#39;s gradient" some/report.html || fail "no line of the script's gradient"
rm some/report.html
"$pca" report some >/dev/null
grep -q "<h2>Figure 4b: " some/report.html || fail "report made no page"
"$pca" sweep --figure 8b --values 3,9 "${exact[@]}" --out sweep >/dev/null
[[ $(wc -l <sweep/8b.csv) == 5 ]] || fail "8b.csv has another length"
"$pca" run --figure 3a "${quick[@]}" --seed 1 --threads 1 --out one >/dev/null
"$pca" run --figure 3a "${quick[@]}" --seed 1 --threads 3 --out three >/dev/null
cmp one/3a.csv three/3a.csv
! cmp -s one/3a.csv all/3a.csv || fail "the seed changes nothing"

# Killed or stopped half-way: nothing of the experiment, or all of it.
for signal in KILL TERM; do
  "$pca" run --figure 1 --prompts 512 --quiet --out "at-$signal" >/dev/null 2>said &
  until [[ -s at-$signal/3b.json ]]; do
    kill -0 $! 2>/dev/null || fail "$signal: pca ended before it was stopped: $(cat said)"
    sleep 0.05
  done
  sleep 0.5
  kill -$signal $!
  code=0
  wait $! || code=$?
  [[ $code != 0 ]] || fail "$signal: exit code 0"
  [[ ! -e at-$signal/3a.csv && ! -e at-$signal/3a.json ]] || fail "$signal: half an experiment was written"
  grep -q "<h2>Figure 3b: " "at-$signal/report.html" || fail "$signal: the page of what was done is lost"
done
grep -q "stopped in 3a, of which nothing is kept" said || fail "no word of what was stopped: $(cat said)"

refuses 1 "--figure: there is no '3c'; did you mean" run --figure 3c --out new
refuses 1 "known are 1, 2, 3a" run --figure 3b,nine --out new
refuses 1 "figure 3a is no sweep; need some of 5a" sweep --figure 3a --out new
refuses 1 "--script-gradient is of figure 4b" run --figure 3b --script-gradient --out new
refuses 1 "--theta is of figures in context" run --figure 3b --theta 5 --out new
refuses 1 "--prompts is of figures with drawn prompts" run --figure 3b --prompts 7 --out new
refuses 1 "--values has to rise" sweep --figure 5a --values 5,4 --out new
refuses 1 "takes more than 1 GiB; need fewer --prompts or --runs" run --figure 7a --prompts 4096 --out new
refuses 2 "--figure is required" run --out new
refuses 2 "out of range, need 0 to 1000" run --figure 3b --runs -1 --out new
refuses 2 "out of range, need 2 to 300" sweep --figure 5a --values 1 --out new
refuses 2 "there is no subcommand 'runs'; did you mean run?" runs
refuses 2 "there is no option --step; did you mean --steps?" run --figure 3b --step 3
[[ ! -e new ]] || fail "a refused command made a folder"
refuses 1 "is of another seed or other settings; give another --out, or remove it" run --figure 3b --seed 5 --quiet --out all
refuses 1 "is not finite after step" run --figure 3b --learning-rate 100 --quiet --out far
[[ ! -e far/3b.csv ]] || fail "a diverged experiment was written"
refuses 1 "holds no results of pca" report far
refuses 1 "missing: there is no such folder" report missing
touch file
refuses 1 "--out file is no folder and cannot be made one" run --figure 3b --quiet --out file
echo '{"experiment": "3b"' >some/3b.json
refuses 1 "some/3b.json" report some
refuses 1 "some/3b.json" run --figure 3b "${exact[@]}" --out some
echo "pca makes its figures, keeps what it has and refuses what it cannot do"
