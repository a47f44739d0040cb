#!/usr/bin/env bash
# An app's command line on a toy run: every command, the effect of its options on the output, and the messages for
# mistakes. Usage: command_line.sh classify|lm|segment PROGRAM
set -euo pipefail
name=$1 app=$2
. "$(dirname "$0")/../temporary_folder.sh"
cd "$folder"

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}
# shows TEXT COMMAND...: succeeds and prints TEXT, where * matches any text.
shows() {
  local printed
  printed=$("$app" "${@:2}" 2>errors) || fail "$name ${*:2}: exit code $?: $(cat errors)"
  # shellcheck disable=SC2053
  [[ $printed == *$1* ]] || fail "$name ${*:2}: prints no '$1' but: $printed"
}
# refuses CODE TEXT COMMAND...: it ends with the exit code and the text on stderr.
refuses() {
  local code=0
  "$app" "${@:3}" >/dev/null 2>errors || code=$?
  [[ $code == "$1" ]] || fail "$name ${*:3}: exit code $code, not $1: $(cat errors)"
  grep -qF -- "$2" errors || fail "$name ${*:3}: says no '$2' but: $(cat errors)"
}
written() {
  local file
  for file in "$@"; do [[ -s $file ]] || fail "$name wrote no $file"; done
}

toy=(--recipe nano --steps 4 --quiet)
case $name in
  classify) toy=(--recipe nano-synthetic --limit 64 --test-limit 20 --steps 4 --batch-size 16 --quiet) ;;
  segment) toy+=(--limit 16 --test-limit 3 --batch-size 4 --depth 1 --dim 48 --patch 16) ;;
  lm) toy+=(--batch-size 8 --eval-tokens 300) ;;
esac

shows "attention" train --help
shows nano recipes
shows . --version
shows "" train "${toy[@]}" --out run
shows "" train "${toy[@]}" --out other --attention rpc --seed 1
shows "" train "${toy[@]/--quiet/--threads=2}" --out loud --attention softmax --lambda 9 --warmup-epochs 1000
grep -qF "note: --lambda changes nothing" errors || fail "$name: says not that --lambda changes nothing: $(cat errors)"
grep -qF "note: the learning rate rises for all 4 steps" errors || fail "$name: says nothing of the warm-up: $(cat errors)"
PURSUIT_TRACE=trace.json "$app" train "${toy[@]}" --out traced >/dev/null || fail "$name: fails with PURSUIT_TRACE"
python3 - <<'END' || fail "$name: trace.json is not what it should be"
import json
names = [event["name"] for event in json.load(open("trace.json"))["traceEvents"]]
assert names.count("step") == 4 and {"linear", "memory pool"} <= set(names), sorted(set(names))
END
PURSUIT_TRACE=no-folder/trace.json refuses 1 "no-folder/trace.json" recipes
written {run,other}/{config.json,checkpoint.safetensors,metrics.jsonl,report.html}
rm run/report.html
shows "" report run
written run/report.html
shows '*run*other' compare run other
shows '| run*|' compare --markdown run other
shows '"other"*"attention": "rpc"' compare --json run other

refuses 2 "subcommand"
refuses 2 --no-such train --no-such 1
refuses 2 "--steps" train --steps many
refuses 2 "--checkpoint" eval
refuses 1 "no-recipe" train --recipe no-recipe
refuses 1 "no-attention" train "${toy[@]}" --out new --attention no-attention
refuses 1 "--overwrite" train "${toy[@]}" --out run
refuses 1 "missing" train --resume missing
refuses 1 "missing" eval --checkpoint missing
refuses 1 "missing" eval --checkpoint run --data missing
refuses 1 "no-device" eval --checkpoint run --device no-device
refuses 1 "missing" compare run missing
refuses 2 "--markdown excludes --json" compare run --markdown --json
refuses 1 "missing" report missing
[[ ! -e new ]] || fail "$name left a folder of a run that never began"

run=(--checkpoint run)
case $name in
  classify)
    # A toy's whole test split would be 2000 pictures.
    few=(eval "${run[@]}" --limit 4)
    shows 'top-1*on 4 pictures*fog*fgsm' "${few[@]}" --corruptions fog --severities 2 --attack fgsm --budgets 1
    shows '"count":4,' "${few[@]}" --json
    shows '"name":"fog","severity":2,' "${few[@]}" --corruptions fog --severities 2 --json
    shows '"attack":"pgd","space":"pixel","budget":3.0,"count":3,' \
      "${few[@]}" --attack pgd --budgets 3 --attack-space pixel --attack-limit 3 --json
    shows 'cw * 3 steps, 9 searches, lr 0.01, c 0.001, confidence 1' \
      "${few[@]}" --attack cw --cw-preset usual --cw-steps 3 --cw-confidence 1
    shows 'pgd * 20 steps*pgd * 200 steps*pgd * 255/255' "${few[@]}" --masking-check --budgets 8 \
      --attack-space pixel --square-queries 20
    refuses 1 "--attack-space pixel" "${few[@]}" --masking-check
    shows '"arguments":"--attacked-by other"*"surrogate":"other"' "${few[@]}" --attack fgsm --budgets 1 --attacked-by other --json
    refuses 1 "missing" "${few[@]}" --attack fgsm --attacked-by missing
    shows '"ece":*"calibration":[{"count":' "${few[@]}" --json
    echo one >one.txt
    refuses 1 "--classes one.txt names 1 classes, the model has 10" "${few[@]}" --classes one.txt
    refuses 1 "missing" "${few[@]}" --outliers missing
    refuses 2 "--severities" "${few[@]}" --severities 6
    refuses 1 "--severities has no effect without --corruptions" "${few[@]}" --severities 2
    refuses 1 "--budgets has no effect without an attack in l_inf" "${few[@]}" --attack pgd-l2 --budgets 1
    refuses 1 "--l2-budgets has no effect without an attack in l2" "${few[@]}" --attack fgsm --l2-budgets 1
    refuses 2 "no-corruption" "${few[@]}" --corruptions no-corruption
    refuses 2 "no-space" "${few[@]}" --attack-space no-space
    refuses 1 "averaged" "${few[@]}" --ema
    shows "" train "${toy[@]}" --out idle --crop none --crop-padding 2 --adversarial-steps 3 --skip-bad true
    for option in crop-padding adversarial-steps skip-bad; do
      grep -qF "note: --$option changes nothing" errors || fail "$name: says not that --$option changes nothing: $(cat errors)"
    done
    shows "ranges of activations from 5 samples in 3 batches" quantize "${run[@]}" --out small --calibrate 5 --batch-size 2
    refuses 2 "--percentile: has no effect without --activation-range percentile" \
      quantize "${run[@]}" --out smaller --percentile 99

    shows "run" compare run other --report both.html
    written both.html

    shows "" export "${run[@]}" weights.safetensors
    shows "" import weights.safetensors --out imported --heads 3
    written imported/checkpoint.safetensors
    refuses 1 "a run already" import weights.safetensors --out run
    shows 'residual*kurtosis*J_proj*of random*share of S' inspect --checkpoint other --samples 3 --decompose 1
    written other/inspect.png
    grep -q 'Low-rank and sparse parts' other/report.html || fail "$name inspect: no film strip in the report"
    shows '"j_proj":*"gamma_relative":*"control_relative":*"low_rank":*"notes":' inspect --checkpoint other --samples 2 --json
    shows 'no layer iterates' inspect "${run[@]}" --samples 1
    refuses 2 "--samples" inspect "${run[@]}" --samples 0
    shows "" train "${toy[@]}" --out watched --inspect-every 0.5
    grep -q '"inspect_j_proj"' watched/metrics.jsonl || fail "$name train --inspect-every: no J_proj in the metrics"
    shows "held for backward" inspect "${run[@]}" --batch-size 2 --tape tape.dot
    grep -q 'blocks.0.attn.qkv.weight f32' tape.dot || fail "$name inspect: the graph names no parameter"
    if command -v dot >/dev/null; then
      shows "tape.svg" inspect "${run[@]}" --batch-size 2 --tape tape.svg
      grep -q '<svg' tape.svg || fail "$name inspect: tape.svg is no picture"
    fi
    mkdir -p nothing
    PATH=$PWD/nothing "$app" inspect "${run[@]}" --tape other.svg >shown 2>errors || fail "$name inspect without Graphviz"
    grep -q 'apt-get install graphviz' errors || fail "$name inspect: does not say how to get Graphviz"
    written other.svg.dot
    refuses 1 ".svg or .dot" inspect "${run[@]}" --tape tape.png
    refuses 2 "--samples excludes --tape" inspect "${run[@]}" --tape tape.dot --samples 2
    refuses 2 "--batch-size: has no effect without --tape" inspect "${run[@]}" --batch-size 2
    # 6 x 6 pixels of grey.
    base64 -d >picture.png <<END
iVBORw0KGgoAAAANSUhEUgAAAAYAAAAGCAAAAADFp7CUAAAAM0lEQVR42mNg0AioWHCCgV0/vH75eQY+s7i2ddcYRG1Te7feZZBx
yZmy5wmDsnfx7MOvATa2EIc3vpZGAAAAAElFTkSuQmCC
END
    shows '"class"*"probability"' predict --checkpoint imported picture.png --out seen --json
    written seen/*.png
    echo "not a picture" >broken.png
    refuses 1 broken.png predict "${run[@]}" picture.png broken.png
    ;;
  segment)
    few=(eval "${run[@]}" --limit 3)
    shows 'own size, windows side by side:*on 3 pictures*class*IoU' "${few[@]}"
    shows '"count":3*"views":"own size, stride 32, scales 1,1.5, flip"' \
      "${few[@]}" --stride 32 --scales 1,1.5 --flip --json
    shows 'mIoU under corruption*fog*mean of mIoU' "${few[@]}" --corruptions fog --severities 1,3
    shows 'under attacks on pixels*none*pgd * 2/255' "${few[@]}" --attack pgd --budgets 2
    shows 'pgd * 2/255 * 3 steps' "${few[@]}" --attack pgd --budgets 2 --pgd-steps 3 --attack-limit 2
    refuses 2 "--pgd-steps" "${few[@]}" --attack pgd --pgd-steps -1
    refuses 2 "no-attack" "${few[@]}" --attack no-attack
    shows "" "${few[@]}" --save-predictions masks
    [[ $(find masks -name '*.png' | wc -l) == 3 ]] || fail "$name eval --save-predictions: not three pictures"
    mask=$(find masks -name '*.png' | head -1)
    shows '"overlay": "seen/*-overlay.png"' predict "${run[@]}" "$mask" --out seen --json
    written seen/*-{mask,overlay,legend,classes}.png
    refuses 2 "--opacity" predict "${run[@]}" "$mask" --opacity 2

    shows "" train "${toy[@]}" --out idle --long-side 70 --decoder-depth 3 --cache-mib 1
    for option in long-side decoder-depth cache-mib; do
      grep -qF "note: --$option changes nothing" errors || fail "$name: says not that --$option changes nothing: $(cat errors)"
    done

    # A run's own way of looking counts until an option says otherwise.
    shows "" train "${toy[@]}" --out views --stride 48 --scales 0.5,1 --eval-flip true --short-side 64
    few=(eval --checkpoint views --limit 1 --json)
    shows '"views":"shorter side 64, stride 48, scales 0.5,1, flip"' "${few[@]}"
    shows '"views":"shorter side 64, stride 48, scales 0.5,1",' "${few[@]}" --no-flip
    shows '"views":"own size, windows side by side"' "${few[@]}" --no-flip --stride 0 --scales 1 --short-side 0
    shows '"views":"shorter side 64, longer one up to 70, ' "${few[@]}" --long-side 70

    shows 'encoder.blocks.0*share of S' inspect --checkpoint other --samples 1 --decompose 1
    shows "tensors" export "${run[@]}" model.safetensors
    shows '"count":1' eval --checkpoint model.safetensors --limit 1 --json
    shows "" train "${toy[@]}" --out averaged --ema 0.5
    shows "tensors" export --checkpoint averaged --ema averaged.safetensors
    shows "tensors" export --checkpoint averaged --weights raw last.safetensors
    ! cmp -s averaged.safetensors last.safetensors || fail "$name export --ema: writes the last weights"
    ;;
  lm)
    few=(eval "${run[@]}" --limit 50)
    shows 'blocks*none*50*blocks*rate*50' "${few[@]}" --word-swap --swap-word box --window blocks
    grep -q 'words were swapped (.* %), [0-9]* of them became <unk>' errors || fail "$name eval: $(cat errors)"
    refuses 1 "--swap-word AAA is none of the" "${few[@]}" --word-swap
    shows 'blocks*none*blocks*character-noise, rate 0.2*blocks*word-deletion, rate 0.2' \
      "${few[@]}" --character-noise --word-deletion --swap-rate 0.2 --window blocks
    grep -q 'character-noise: .* words were changed (.* %)' errors || fail "$name eval: $(cat errors)"
    grep -q 'word-deletion: .* words were deleted (.* %), 0 of them became <unk>' errors || fail "$name eval: $(cat errors)"
    mkdir plain
    for ((line = 0; line < 400; ++line)); do echo "a small box"; done >plain/all.txt
    shows "" train "${toy[@]}" --data plain --out words
    refuses 1 "the vocabulary of words has no <unk>" eval --checkpoint words --limit 50 --character-noise --swap-rate 0.5
    [[ $(wc -l <errors) == 1 ]] || fail "$name eval: evaluates before it refuses: $(cat errors)"
    shows "document of WikiText" eval --help
    shows "tensors" export "${run[@]}" model.safetensors
    shows '"perplexity":' eval --checkpoint model.safetensors --limit 50 --json
    shows "" train "${toy[@]}" --out averaged --ema 0.5
    shows "tensors" export --checkpoint averaged --ema averaged.safetensors
    shows "tensors" export --checkpoint averaged --weights raw last.safetensors
    ! cmp -s averaged.safetensors last.safetensors || fail "$name export --ema: writes the last weights"
    refuses 1 "averaged" export "${run[@]}" --ema never.safetensors
    shows "" train "${toy[@]}" --out bytes --level byte --min-count 7 --mask-share 0.5 --div-value 3 --locater-beta 3
    for option in min-count mask-share div-value locater-beta; do
      grep -qF "note: --$option changes nothing" errors || fail "$name: says not that --$option changes nothing: $(cat errors)"
    done
    shows "ranges of activations from 5 samples in 3 batches" quantize "${run[@]}" --out small --calibrate 5 --batch-size 2
    refuses 1 "--locater-unbounded" train "${toy[@]}" --locater 0.1 --locater-form tr2 --out never
    [[ ! -e never ]] || fail "$name train --locater-form tr2: leaves a folder"
    shows '"tokens":50,*"window":"sliding"' "${few[@]}" --window sliding --json
    shows 'the * * *' generate "${run[@]}" --prompt the --tokens 20
    shows '"entropy"' inspect "${run[@]}" --sequences 2 --json
    shows '"fingerprint"*"j_proj"' inspect "${run[@]}" --samples 2 --json
    shows 'largest eigenvalue*share of S' inspect --checkpoint other --samples 2 --decompose 1
    shows "" generate --checkpoint bytes --tokens 2 --temperature 0 --top-k 3 --no-unknown
    for options in "--no-unknown changes" "--top-k and --top-p change"; do
      grep -qF -- "note: $options nothing" errors || fail "$name generate: says not that $options nothing: $(cat errors)"
    done
    refuses 1 "--other-attention scaled-s mixes all tokens" train "${toy[@]}" --out never --other-attention scaled-s
    refuses 2 "no-window" "${few[@]}" --window no-window
    refuses 1 "no-split" "${few[@]}" --split no-split
    refuses 2 "--tokens" generate "${run[@]}" --tokens 0
    ;;
esac
echo "$name: every command does as it is told"
