#!/usr/bin/env bash
# The tables of the laboratory's README are what `laboratory count` prints. Usage: tables.sh PROGRAM README
set -euo pipefail
lines=$("$1" count 2>/dev/null | grep -v '^$' || true)
(($(grep -c '^| `' <<<"$lines") >= 4)) || { echo "tables.sh: $1 count prints no tables" >&2 && exit 1; }
missing=$(grep -vxFf "$2" <<<"$lines" || true)
[[ -z $missing ]] || { printf 'tables.sh: %s lacks these lines:\n%s\n' "$2" "$missing" >&2 && exit 1; }
