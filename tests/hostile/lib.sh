# Shared by the scripts in this folder. Each is called with the folder of the programs, works in a new empty folder
# and ends with `done_testing`. They run under ctest as hostile_<name>.
set -euo pipefail
bin=$(realpath "$1")
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..") # of the repository
shared=${PURSUIT_SHARED:-}
. "$root/tests/temporary_folder.sh"
cd "$folder"
checks=0

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}
# ok PROGRAM WORD...: the program succeeds. Its output is in the files out and err.
ok() {
  local code=0
  "$bin/$1" "${@:2}" >out 2>err || code=$?
  [[ $code == 0 ]] || fail "$*: exit code $code: $(cat err)"
  checks=$((checks + 1))
}
# refuses CODE TEXT PROGRAM WORD...: it ends with the exit code (1 failed, 2 wrong usage) and one line "error: ..."
# on stderr, the last one. The text is in it or in the notes before it.
refuses() {
  local code=0
  "$bin/$3" "${@:4}" >out 2>err || code=$?
  [[ $code == "$1" ]] || fail "${*:3}: exit code $code, not $1: $(head -c 2000 err)"
  grep -qF -- "$2" err || fail "${*:3}: says no '$2' but: $(head -c 2000 err)"
  [[ $(grep -c '^error: ' err) == 1 && $(tail -n 1 err) == error:* ]] || fail "${*:3}: no error of one line: $(head -c 2000 err)"
  checks=$((checks + 1))
}
# same A B: the two files have the same bytes.
same() {
  cmp "$1" "$2" || fail "$1 and $2 differ"
  checks=$((checks + 1))
}
# check TEXT COMMAND...: the command succeeds.
check() {
  "${@:2}" || fail "$1"
  checks=$((checks + 1))
}
# says TEXT FILE: the file has the text.
says() { check "no '$1' in $2: $(head -c 1500 "$2")" grep -qaF -- "$1" "$2"; }
# says_not TEXT FILE: the file is there and lacks the text.
says_not() { check "'$1' in $2" test "$(grep -caF -- "$1" "$2")" == 0; }
# gets_to PROCESS FILE: waits until the file is there and not empty; fails if the process ends before.
gets_to() {
  until [[ -s $2 ]]; do
    kill -0 "$1" 2>/dev/null || [[ -s $2 ]] || fail "the program ended without $2: $(cat err)"
    sleep 0.02
  done
}
# Settings of a training that takes a second, by app.
toy() {
  case $1 in
    classify) echo --recipe nano-synthetic --limit 64 --test-limit 20 --steps 4 --batch-size 16 --quiet ;;
    segment) echo --recipe nano --limit 16 --test-limit 3 --batch-size 4 --steps 4 --depth 1 --dim 48 --patch 16 --quiet ;;
    lm) echo --recipe nano --batch-size 8 --eval-tokens 300 --steps 4 --quiet ;;
  esac
}
# Ends a script; it fails if nothing was checked.
done_testing() {
  ((checks > 0)) || fail "nothing was checked"
  echo "$checks checks passed"
}
