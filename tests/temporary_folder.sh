# Sourced by the tests: $folder is a new empty folder. However the test ends, the programs that it has in the background
# are killed, and the folder is removed.
folder=$(mktemp -d)
end_test() {
  local running
  running=$(jobs -p)
  # shellcheck disable=SC2086
  [[ -z $running ]] || { kill -KILL $running; wait $running; } 2>/dev/null || true
  rm -rf "$folder"
}
trap end_test EXIT
