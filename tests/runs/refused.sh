# refused WHAT COMMAND...: COMMAND fails with one line that says WHAT; sourced by tests, which keep its words in $folder.
refused() {
  if "${@:2}" >/dev/null 2>"$folder/said"; then
    echo "${*:2}: not refused" >&2
    exit 1
  fi
  [[ $(wc -l <"$folder/said") == 1 ]] && grep -q -- "$1" "$folder/said" && return
  echo "${*:2}: need one line with '$1', got: $(cat "$folder/said")" >&2
  exit 1
}
