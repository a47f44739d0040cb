#!/usr/bin/env bash
# An attention kind in one file, linked into the apps: on the command lines of all three, with its option, in a recipe, in
# a run's config, weights, report and comparison, in an export, and resumed. Usage: attention_kind.sh FOLDER_OF_APPS
set -euo pipefail
bin=$(realpath "$1")
. "$(dirname "$0")/../temporary_folder.sh"
cd "$folder"
fail() { echo "FAILED: $*" >&2 && exit 1; }

vision=(--dim 48 --heads 2 --depth 2)
declare -A settings=(
  [classify]="--recipe nano-synthetic --limit 64 --test-limit 10 --batch-size 16 ${vision[*]}"
  [segment]="--recipe nano --limit 16 --test-limit 2 --batch-size 4 --patch 16 ${vision[*]}"
  [lm]="--recipe nano --batch-size 4 --eval-tokens 300"
)
for app in classify lm segment; do
  program=$bin/${app}_with_kind
  help=$("$program" train --help)
  grep -q "tempered" <<<"$help" || fail "$app: no tempered in --help"
  grep -q "tempered: what scores are divided by" <<<"$(grep -A3 -- "--temperature" <<<"$help")" ||
    fail "$app: no --temperature"
  # A custom recipe, and an option on the command line.
  read -ra words <<<"${settings[$app]}"
  printf 'attention = "tempered"\ntemperature = 3\nlayers = "1"\n' >own.toml
  if "$program" train --recipe own.toml --temperature -1 --out bad 2>err; then fail "$app: temperature -1"; fi
  grep -q "need above 0" err || fail "$app: $(cat err)"
  "$program" train "${words[@]}" --attention tempered --layers 1 --temperature 3 --steps 4 --quiet --threads 1 --out "$app" >out
  grep -q "tempered attention (block 1)" "$app/report.html" || fail "$app: not in the report"
  python3 - "$app" <<'END' || fail "$app: not in the run"
import json, sys
config = json.load(open(f"{sys.argv[1]}/config.json"))
data = open(f"{sys.argv[1]}/checkpoint.safetensors", "rb").read()
names = [n for n in json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]) if "log_temperature" in n]
own = {n.split("blocks.")[1] for n in names}
sys.exit(config["attention"] != "tempered" or config["temperature"] != 3 or own != {"1.attn.log_temperature"})
END
  "$program" train --resume "$app" --steps 6 --quiet >out
  "$program" train "${words[@]}" --attention softmax --steps 4 --quiet --threads 1 --out "$app-softmax" >out
  "$program" compare "$app" "$app-softmax" >out
  grep -q "tempered attention" out || fail "$app: not in the comparison: $(cat out)"
  if "$bin/$app" eval --checkpoint "$app" >out 2>err; then fail "$app without the kind read its run"; fi
  grep -q "tempered" err || fail "$app without the kind: $(cat err)"
done
classify=$bin/classify_with_kind
"$classify" train --recipe own.toml --steps 2 --limit 32 --test-limit 8 --batch-size 8 --image-size 32 --patch 8 "${vision[@]}" \
  --quiet --threads 1 --out recipe >out
"$classify" train --recipe own.toml --layers all --steps 2 --limit 32 --test-limit 8 --batch-size 8 --image-size 32 --patch 8 \
  "${vision[@]}" --quiet --threads 1 --out all >out
"$classify" export all.safetensors --checkpoint all >out
grep -q "tempered attention" recipe/report.html || fail "a recipe's kind is not in the report"
# Without the config in its metadata, the file tells the kind by its parameters alone.
python3 - <<'END'
import json
data = open("all.safetensors", "rb").read()
size = int.from_bytes(data[:8], "little")
header = json.loads(data[8 : 8 + size])
header.pop("__metadata__")
text = json.dumps(header).encode()
open("bare.safetensors", "wb").write(len(text).to_bytes(8, "little") + text + data[8 + size :])
END
"$classify" import bare.safetensors --out imported --heads 2 >out 2>err
for option in "--dim 999" "--patch 16" "--image-size 384" "--depth 7"; do
  # shellcheck disable=SC2086
  if "$classify" import bare.safetensors --out other --heads 2 $option >out 2>err; then fail "an import ignores $option"; fi
  grep -q -- "${option/ / is }, but the weights in bare.safetensors have" err || fail "$option: $(cat err)"
done
grep -q '"attention": "tempered"' imported/config.json || fail "an import does not know the kind by its parameters: $(cat out)"
echo "a kind in one file"
