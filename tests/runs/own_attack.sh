#!/usr/bin/env bash
# An attack in one file, linked into the apps: on their command lines with its option, in results, records, reports and
# comparisons. Usage: own_attack.sh FOLDER_OF_APPS
set -euo pipefail
bin=$(realpath "$1")
. "$(dirname "$0")/../temporary_folder.sh"
cd "$folder"
fail() { echo "FAILED: $*" >&2 && exit 1; }

declare -A settings=(
  [classify]="--recipe nano-synthetic --limit 64 --test-limit 10 --batch-size 16 --dim 48 --heads 2 --depth 1"
  [segment]="--recipe nano --limit 16 --test-limit 2 --batch-size 4 --patch 16 --dim 48 --heads 2 --depth 1"
)
for app in classify segment; do
  program=$bin/${app}_with_attack
  help=$("$program" eval --help)
  grep -q "of the budget that is used" <<<"$(grep -A1 -- "--brightness-share" <<<"$help")" ||
    fail "$app: no --brightness-share"
  read -ra words <<<"${settings[$app]}"
  "$program" train "${words[@]}" --steps 4 --quiet --threads 1 --out "$app" >out
  few=(eval --checkpoint "$app" --limit 2 --quiet --attack brightness --budgets 8)
  if "$program" "${few[@]}" --brightness-share 2 >out 2>err; then fail "$app: a share of 2"; fi
  grep -q "need above 0" err || fail "$app: $(cat err)"
  "$program" "${few[@]}" --brightness-share 0.5 >out || fail "$app: eval"
  grep -q "brightness .*8/255.*0.5 of the budget" out || fail "$app: not in the table: $(cat out)"
  grep -q '"arguments":"--brightness-share 0.5"' "$app/eval.json" || fail "$app: not in the results"
  grep -q "0.5 of the budget" "$app/report.html" || fail "$app: not in the report"
  "$program" compare "$app" "$app" >out
  grep -q "brightness 8/255" out || fail "$app: not in the comparison: $(cat out)"
  # Results of an attack that a program does not have stay readable.
  "$bin/$app" report "$app" >out 2>err || fail "$app without the attack: $(cat err)"
  if "$bin/$app" "${few[@]}" >out 2>err; then fail "$app without the attack ran it"; fi
  grep -q "brightness" err || fail "$app without the attack: $(cat err)"
done
"$bin/classify_with_attack" eval --checkpoint classify --limit 2 --quiet --attack brightness --budgets 51 \
  --attack-space pixel --attack-records records >out
grep -q '"attack":"brightness","space":"pixel","budget":51.0' records || fail "not in the records: $(cat records)"
echo "an attack in one file"
