#!/usr/bin/env bash
# `study` of an app on its built-in data: two variants, two seeds, one setting to choose, one evaluation. A study that
# was stopped and killed gives the numbers of one that was not; every number is on the page; what does not fit is refused.
# Of classify and lm every run is quantised too.
# Usage: study.sh PROGRAM (its name chooses the settings)
set -euo pipefail
script=$(realpath "$0")
app=$(realpath "$1")
name=$(basename "$app")
. "$(dirname "$0")/../temporary_folder.sh"
cd "$folder"
fail() { echo "FAILED: $name: $*" >&2 && exit 1; }

quantization=''
case $name in
  classify)
    quantization='calibrate = 16
batch-size = 8'
    base='validation = 16
limit = 64
test-limit = 20
batch-size = 16
steps = 8
checkpoint-steps = 1'
    recipe=nano-synthetic first='attention = "softmax"' second='attention = "rpc"' choose='lambda = [2, 4]'
    evaluation='limit = 8
corruptions = "fog"
severities = 1
attack = "fgsm"
attacked-by = "{second}"
budgets = [1, 2]' ;;
  segment)
    base='limit = 16
test-limit = 3
batch-size = 4
depth = 1
dim = 48
patch = 16
steps = 8
checkpoint-steps = 1'
    recipe=nano first='attention = "softmax"' second='attention = "rpc"' choose='lambda = [2, 4]'
    evaluation='limit = 2
corruptions = "fog"
attack = "fgsm"
budgets = 1' ;;
  lm)
    quantization='float-head = true
calibrate = 16
batch-size = 8'
    base='batch-size = 8
eval-tokens = 300
steps = 8
checkpoint-steps = 1'
    recipe=nano first='attention = "softmax"' second='attention = "rpc"' choose='lambda = [2, 4]'
    evaluation='limit = 100
window = "sliding"
character-noise = true' ;;
  spirals)
    base='points = 1024
test-points = 400
epochs = 10
threads = 1
checkpoint-steps = 1'
    recipe='' first='hidden = 4' second='hidden = 32' choose='lr = [1e-4, 1e-2]'
    evaluation='noise = [0, 0.5]' ;;
  route)
    base='instances = 200
test-instances = 8
validation = 8
label-rounds = 5
dim = 16
heads = 2
hidden = 16
layers = 1
batch-size = 16
steps = 8
threads = 1
checkpoint-steps = 1'
    recipe=tsp20 first='norm = "none"' second='norm = "batch"' choose='lr = [1e-4, 1e-2]'
    evaluation='limit = 8
rrc = 4
nodes = 8' ;;
esac
{
  [[ -z $recipe ]] || echo "recipe = \"$recipe\""
  printf 'seeds = [0, 1]\n[options]\n%s\n[variants.first]\n%s\n[variants.second]\n%s\n' "$base" "$first" "$second"
  printf '[variants.second.choose]\n%s\n[evaluations.all]\n%s\n' "$choose" "$evaluation"
  [[ -z $quantization ]] || printf '[quantizations.w8a8]\n%s\n' "$quantization"
} >small.toml
runs=4
[[ -z $quantization ]] || runs=8

begin=$(date +%s%3N)
"$app" study small.toml --out whole --quiet >shown 2>steps || fail "study: $(cat steps)"
span=$(($(date +%s%3N) - begin)) # ms
grep -q "$runs of $runs runs are trained.* and evaluated" shown || fail "study: $(cat shown)"
[[ $(grep -c " train " steps) == 5 && $(grep -c " eval " steps) == "$runs" ]] || fail "steps: $(cat steps)"
cp whole/study.json before
"$app" study small.toml --out whole --quiet >shown 2>steps || fail "study again: $(cat steps)"
! grep -q " train \| eval \| quantize " steps || fail "a finished step is repeated: $(cat steps)"
cmp before whole/study.json
[[ $(grep -c "Left out" whole/study.html) == 0 ]] || fail "the page lacks samples"
case $name in classify | segment) grep -q ">Samples<" whole/study.html || fail "the page has no samples" ;; esac

# Stopped by time and killed, in shorter and shorter parts until two hit a study at work: the first run may have been
# slow for once.
seconds() { printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)); }
stops=0
for ((try = 1; try <= 5 && stops < 2; ++try, span /= 2)); do
  rm -rf parts
  stops=0
  for part in 5 4; do
    "$app" study small.toml --out parts --quiet --minutes "$(python3 -c "print($span / $part / 60000)")" >out 2>steps && break
    grep -q "go on with: $name study small.toml --out parts" steps || fail "stopped: $(cat steps)"
    stops=$((stops + 1))
  done
  for part in 5 4 3 5; do
    "$app" study small.toml --out parts --quiet >out 2>&1 &
    sleep "$(seconds $((span / part)))"
    kill -9 $! 2>/dev/null && stops=$((stops + 1))
    wait $! 2>/dev/null || true
  done
done
"$app" study small.toml --out parts --quiet >out 2>steps || fail "going on: $(cat steps)"
((stops >= 2)) || fail "only $stops stops hit a study at work; nothing was tested"
for run in whole/*-[01] whole/*-w8a8; do
  [[ -e $run ]] || continue
  cmp "$run/checkpoint.safetensors" "parts/${run#whole/}/checkpoint.safetensors"
done
[[ -z $quantization || $(ls -d whole/*-w8a8 | wc -l) == 4 ]] || fail "quantised runs: $(ls whole)"

python3 - "$name" <<'END' || fail "the numbers"
import html, json, math, re, sys
def numbers(folder):
    all = json.load(open(folder + "/study.json"))
    text = html.unescape(re.sub("<[^>]*>", " ", open(folder + "/study.html").read()))
    return all, text
def measures(all):
    for title, part in all.items():
        if isinstance(part, dict):
            for row in part["rows"]:
                for heading, measure in row["measures"].items():
                    yield title, row["variant"], heading, measure
timing = lambda heading: heading == "train time" or heading.endswith("/s")
whole, page = numbers("whole")
parts, _ = numbers("parts")
exact = [[*m] for m in measures(whole) if not timing(m[2])]
assert len(exact) >= 6, exact
assert exact == [[*m] for m in measures(parts) if not timing(m[2])]
assert whole["choices"] == parts["choices"] and sum(c["chosen"] for c in whole["choices"]) == 1
best = (min if re.search("perplexity|gap", whole["choices"][0]["metric"]) else max)(whole["choices"], key=lambda c: float(c["value"]))
assert best["chosen"], whole["choices"]
assert all(f"{choice['value']:.4f}" in page for choice in whole["choices"])
shown = compared = 0
for title, variant, heading, m in measures(whole):
    values = [m["mean"], *m["values"]] + ([m["std"]] if len(m["values"]) > 1 else [])
    if variant == "second" and "difference" in m:
        d, first = m["difference"], next(x for t, v, h, x in measures(whole) if (t, v, h) == (title, "first", heading))
        a, b = (x - y for x, y in zip(m["values"], first["values"]))
        mean, half = (a + b) / 2, 12.706204736174698 * abs(a - b) / 2  # t(0.975, 1) sqrt(((a - b)^2 / 2) / 2)
        assert d["pairs"] == 2 and d["from"] == "first"
        for x, y in ((d["mean"], mean), (d["low"], mean - half), (d["high"], mean + half)):
            assert math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9), (heading, d, mean, half)
        values += [d["mean"], d["low"], d["high"]]
        compared += 1
    assert heading in page, heading
    for value in values:
        texts = [f"{value:.2f} s"] if m.get("unit") == "s" else [f"{value:.{n}f}" for n in range(4)]
        if abs(value) >= 1e6: texts = [f"{value:.3g}"]  # bounds of points a second
        assert any(t in page for t in texts), (heading, value)
        shown += 1
assert shown > 40 and compared >= 3, (shown, compared)
END

refused() {
  local code=0
  "$app" study "${@:2}" --quiet >out 2>err || code=$?
  [[ $code != 0 ]] && grep -qF -- "$1" err && [[ $(wc -l <err) == 1 ]] || fail "study ${*:2}: code $code, $(cat err)"
}
changed() { sed "$1" small.toml >changed.toml; }
changed 's/steps = 8/steps = 9/; s/epochs = 10/epochs = 11/'
refused "put that back, choose another --out, or remove the folder" changed.toml --out whole
changed 's/^seeds/seed/'
refused "changed.toml: there is no key 'seed'" changed.toml
changed 's/\[0, 1\]/[0, one]/'
refused "changed.toml: 'seeds' has 'one', need whole numbers" changed.toml
changed '0,/batch-size/s//bach-size/; s/test-points/test-point/'
refused "changed.toml [options]: there is no setting" changed.toml
changed 's/variants.second.choose/variants.second.chose/'
refused "there is no section [variants.second.chose]" changed.toml
changed 's/evaluations.all/evaluation.all/'
refused "there is no section [evaluation]" changed.toml
changed 's/^limit = \(100\|8\|2\)$/limit = -1/; s/noise = .*/noise = -1/'
refused "changed.toml [evaluations.all]: '" changed.toml
changed 's/^lambda = .*/lambda = [2, many]/; s/^lr = .*/lr = [1, many]/'
refused "changed.toml [variants.second]: '" changed.toml
changed 's/^lambda = .*/lambda = []/; s/^lr = .*/lr = []/'
refused "[variants.second.choose] has no values for" changed.toml
changed '/variants/d'
refused "changed.toml" changed.toml
refused "missing.toml" missing.toml
if [[ -n $quantization ]]; then
  changed 's/^calibrate = 16/calibrate = 8/'
  refused "was begun with --calibrate 16, now it is to have 8" changed.toml --out whole
  changed 's/^calibrate = 16/bits = "w4a8"/'
  refused "was begun without --bits, now it is to have w4a8" changed.toml --out whole
  changed 's/^calibrate = 16/bits = "w8"/'
  refused "'bits': --bits: got 'w8', need weights and activations" changed.toml
  changed '/^calibrate = 16/d'
  refused "was begun with --calibrate 16; put that back" changed.toml --out whole
  changed 's/^calibrate = 16/out = "x"/'
  refused "changed.toml [quantizations.w8a8]: 'out' is set by the study" changed.toml
  changed 's/^calibrate = 16/calibrat = 16/'
  refused "changed.toml [quantizations.w8a8]: there is no setting 'calibrat'" changed.toml
else
  { cat small.toml && printf '[quantizations.w8a8]\nbits = "w8a8"\n'; } >changed.toml
  refused "$name has no command \`quantize\`" changed.toml
fi
if [[ $name == classify || $name == segment ]]; then
  changed 's/attack = "fgsm"/attack = "fgsn"/'
  refused "'attack': --attack: there is no 'fgsn'; did you mean fgsm?" changed.toml
  changed 's/corruptions = "fog"/corruptions = "fog,rain"/'
  refused "'corruptions': --corruptions: there is no 'rain'" changed.toml
fi
if [[ $name == classify ]]; then
  changed 's/validation = 16/validation = 0/'
  refused "give --validation" changed.toml
  # Transfer from the chosen run of the second variant, to itself too.
  grep -q "fgsm 1/255 by second-lambda=. (RPC" whole/study.html || fail "the page has no transfer"
  for run in first second-lambda=?; do
    grep -q '"surrogate":"second-lambda=.-1"' whole/$run-1/eval.json || fail "$run-1 is not attacked by the second variant"
  done
  printf '[variants.a]\n[variants.a-0]\n[quantizations.0]\nbits = "w8a8"\n' >changed.toml
  refused "two runs would be named a-0-0" changed.toml
  cp -r whole other
  sed -i 's/"data": ""/"data": "there"/' other/first-1/config.json
  refused "first-0 and other/first-1 were trained on different data" small.toml --out other
  changed 's/{second}/{third}/'
  refused "'{third}' names the run of a variant, but there is no [variants.third]" changed.toml
fi
mkdir -p busy/first-0 && cp whole/first-0/config.json busy/first-0
refused "holds a run that this study did not begin" small.toml --out busy
echo '{"options": 1}' >busy/first-0/progress.json
refused "progress.json is damaged" small.toml --out busy
if [[ $name == spirals ]]; then
  printf 'seeds = [0, 1]\n[options]\npoints = 512\nepochs = 3\noptimizer = "sgd"\n' >wild.toml
  printf '[variants.wild]\nlr = 1e6\n[variants.calm]\nlr = 0.1\n' >>wild.toml
  code=0
  "$app" study wild.toml --out wild --quiet >out 2>err || code=$?
  [[ $code == 0 ]] && grep -q "2 of 4 runs are" out && grep -q "wild-1: .* the loss is" err || fail "a diverged run: $(cat err)"
  grep -q "wild-0: .* the loss is" wild/study.html || fail "the page names no diverged run"
  # They are trained again only once they are removed.
  "$app" study wild.toml --out wild --quiet >out 2>err || fail "a diverged run, again: $(cat err)"
  ! grep -q " train " err || fail "a diverged run is trained again: $(cat err)"
  grep -q "wild-0: .* the loss is .*; remove wild/wild-0" err || fail "nothing names a diverged run: $(cat err)"
  grep -q "wild-1: .* the loss is" wild/study.html || fail "the page names no diverged run when it goes on"
  rm -r wild/wild-0
  "$app" study wild.toml --out wild --quiet >out 2>err || fail "a removed run that diverged: $(cat err)"
  [[ $(grep -c " train " err) == 1 ]] || fail "a removed run that diverged is not trained again: $(cat err)"
  # A candidate that diverges is not chosen, and its study ends.
  printf 'seeds = [0, 1]\n[options]\npoints = 512\nepochs = 3\noptimizer = "sgd"\n' >wild.toml
  printf '[variants.one]\n[variants.one.choose]\nlr = [1e6, 0.1]\n' >>wild.toml
  "$app" study wild.toml --out choice --quiet >out 2>err || fail "a candidate that diverges: $(cat err)"
  grep -q "2 of 2 runs are" out || fail "a candidate that diverges: $(cat out)"

  # A run that was trained on; an option that an older version had not.
  printf 'seeds = [0, 1]\n[options]\npoints = 512\nepochs = 3\noptimizer = "sgd"\n' >wild.toml
  printf '[variants.wild]\nlr = 1e6\n[variants.calm]\nlr = 0.1\n' >>wild.toml
  "$app" train --resume wild/calm-1 --epochs 4 --quiet >out 2>&1 || fail "training on: $(cat out)"
  refused "calm-1 was trained on by other commands (epochs 3 to 4" wild.toml --out wild
  rm -r wild/calm-1
  python3 - wild/calm-0/progress.json <<'END'
import json, sys
progress = json.load(open(sys.argv[1]))
del progress["options"]["clip-norm"]
json.dump(progress, open(sys.argv[1], "w"))
END
  "$app" study wild.toml --out wild --quiet >out 2>err || fail "a run of an older version: $(cat err)"
  [[ $(grep -c " train " err) == 1 ]] || fail "a run of an older version is trained again: $(cat err)"
fi
# A study that is stopped at once shows all that is done; another one does not replace its page.
code=0
"$app" study small.toml --out whole --quiet --minutes 1e-6 >out 2>err || code=$?
grep -q "$runs of $runs runs are" out || fail "stopped at once: $(cat out err)"
cmp before whole/study.json
cp small.toml another.toml
refused "whole holds the study small; choose another --out" another.toml --out whole
# TOML forbids what occurs twice.
{ cat small.toml && printf '[variants.first]\n'; } >changed.toml
refused "changed.toml: the section [variants.first] occurs twice" changed.toml
sed '0,/^seeds/s//seeds = [5]\nseeds/' small.toml >changed.toml
refused "changed.toml: 'seeds' occurs twice" changed.toml
{ cat small.toml && printf '[options]\n'; } >changed.toml
refused "changed.toml: the section [options] occurs twice" changed.toml
sed "s/^\[variants.second\]/&\n${choose%% *} = 1/" small.toml >changed.toml
refused "changed.toml: [variants.second] sets '${choose%% *}', which its section choose lists" changed.toml

# A run that is removed is made anew, with what was made of it and measured of it; results that are removed are measured
# again.
steps_are() {
  "$app" study small.toml --out whole --quiet >out 2>steps || fail "study after $1: $(cat steps)"
  local found
  found="$(grep -c " train " steps || true) $(grep -c " quantize " steps || true) $(grep -c " eval " steps || true)"
  [[ $found == "$2" ]] || fail "after $1: $found trainings, quantisations and evaluations, not $2: $(cat steps)"
}
[[ -n $quantization ]] && made=1 || made=0
rm -rf whole/first-0
steps_are "removing a run" "1 $made $((1 + made))"
rm whole/first-1/eval.json
steps_are "removing results" "0 0 1"
if [[ $name == classify ]]; then
  rm -rf whole/second-lambda=?-1
  # Its choice among the values is made with seed 0. All four models of seed 1 are attacked by the run of "second".
  steps_are "removing the run whose model is attacked" "1 1 4"
fi

# Results of an evaluation that was removed from the file are named.
[[ $(grep -c "no longer has" whole/study.html) == 0 ]] || fail "the page names an evaluation that was removed"
mkdir fewer
sed '/^\[evaluations.all\]/,/^\[quantizations/{/^\[quantizations/!d}' small.toml >fewer/small.toml
"$app" study fewer/small.toml --out whole --quiet >out 2>steps || fail "study without its evaluation: $(cat steps)"
for shown in steps whole/study.html; do
  grep -q "evaluations that fewer/small.toml no longer has: all;" $shown || fail "a removed evaluation: $(cat steps)"
done

# The app's own studies: every option is checked before data is looked for.
for file in "$(dirname "$script")"/../../apps/"$name"/studies/*.toml; do
  [[ -e $file ]] || continue
  "$app" study "$file" --data nowhere --out never >out 2>err && fail "$file trains without data"
  grep -q nowhere err || fail "$file: $(cat err)"
  rm -rf never
done
echo "$name: a study in parts is the whole study"
