#!/usr/bin/env bash
# Reports: comparison pages of every app, refusal of another app's runs, and the content of the pages.
. "$(dirname "$0")/lib.sh"
for app in classify segment lm; do
  read -ra toy <<<"$(toy $app)"
  ok $app train "${toy[@]}" --out $app
  ok $app train "${toy[@]}" --attention rpc --seed 1 --out $app-rpc
  ok $app compare $app $app-rpc --report $app.html
  says "<h2>Overview</h2>" $app.html
  says "$app-rpc" $app.html
  says "$app train --recipe nano" $app/report.html
done
for app in classify segment lm; do
  for other in classify segment lm; do
    [[ $app == "$other" ]] && continue
    refuses 1 "$other is a run of \`$other\`, need one of \`$app\`" $app compare $app $other
    refuses 1 "$other is a run of \`$other\`" $app report $other
    # Runs of before config.json said so.
    cp -r $other old-$other
    { sed '/"made-by"/,$d' $other/config.json | sed '$s/,$//' && echo '}'; } >old-$other/config.json
    refuses 1 "old-$other is a run of \`$other\`" $app compare $app old-$other
    rm -r old-$other
  done
done
says_not "&lt;unk&gt; " lm/report.html
says 'class="swatches"' segment/report.html
says "Pictures of the val split" segment/report.html # the test split was not looked at
for heading in picture label prediction; do says "<div class=\"column\">$heading</div>" segment/report.html; done

# The commands of "Reproduce" measure what was measured.
entries() { grep -o '"fingerprint":' "$1/eval.json" | wc -l; }
reproduces() { # APP: every eval command of its report adds no entry
  local before command
  before=$(entries "$1")
  grep -o "^$1 eval --checkpoint .*" "$1/report.html" >commands || fail "$1: no command in the report"
  while read -r command; do
    read -ra words <<<"$command"
    ok "${words[@]}" --quiet
  done <commands
  check "$1: $(cat commands) add $(($(entries "$1") - before)) entries" test "$(entries "$1")" == "$before"
}
ok classify eval --checkpoint classify --limit 4 --quiet --attack spsa,fgsm --budgets 2 --spsa-steps 2 --spsa-samples 3
ok classify eval --checkpoint classify --limit 4 --quiet --attack spsa --spsa-steps 1 --spsa-samples 3
for app in classify segment lm; do reproduces $app; done
check "spsa with other settings" test "$(grep -o '"attack":"spsa"' classify/eval.json | wc -l)" == 2
# Texts, weights and steps are told apart.
for limit in 100 50; do ok lm eval --checkpoint lm --quiet --window blocks --limit $limit; done
check "a card for every evaluation" test "$(grep -o 'Test perplexity' lm/report.html | wc -l)" == 1
says "blocks; the built-in grammar, 100 tokens, raw weights, step 4, f32" lm/report.html
says "All evaluations" lm/report.html
for column in weights step dtype by; do check "no column $column" grep -qE "<th[^>]*>$column</th>" lm/report.html; done

# A folder without a run gets no report; what of a run cannot be read is said beside a comparison.
mkdir empty
for app in classify segment lm; do
  refuses 1 "empty holds no config.json" $app report empty
  cp -r $app damaged
  echo '{"evaluations": [{}]}' >damaged/eval.json
  printf 'x\n{}\n' >damaged/metrics.jsonl
  ok $app compare damaged $app-rpc
  says "eval.json' is damaged" err
  says "metrics.jsonl' line 1 is damaged" err
  rm -r damaged
done
check "a report without a run" test ! -e empty/report.html

# predict writes beside the run, not where it is called.
base64 -d >picture.png <<END
iVBORw0KGgoAAAANSUhEUgAAAAYAAAAGCAAAAADFp7CUAAAAM0lEQVR42mNg0AioWHCCgV0/vH75eQY+s7i2ddcYRG1Te7feZZBx
yZmy5wmDsnfx7MOvATa2EIc3vpZGAAAAAElFTkSuQmCC
END
before=$(ls)
for app in classify segment; do
  ok $app predict --checkpoint $app picture.png
  check "$app wrote nothing beside the run" bash -c "compgen -G '$app/predictions/*.png' >out"
  ok $app predict --checkpoint $app/checkpoint.safetensors picture.png
  ok $app predict --checkpoint $app picture.png --out $app/else
  check "$app ignores --out" bash -c "compgen -G '$app/else/*.png' >out"
done
check "files in the current folder" test "$before" == "$(ls)"

# Words for classes that are numbers.
for class in n01440764 n02102040; do
  for split in train val; do
    mkdir -p data/$split/$class
    for i in 1 2; do cp picture.png data/$split/$class/$i.png; done
  done
done
printf 'n01440764 tench, Tinca tinca\nn02102040 English springer, English springer spaniel\n' >data/LOC_synset_mapping.txt
ok classify train --data data --out words --epochs 1 --batch-size 4 --patch 3 --dim 24 --depth 1 --heads 2 --quiet
says "English springer" words/report.html
says "Val accuracy" words/report.html
says_not "Test accuracy" words/report.html
ok classify predict --checkpoint words picture.png
says "tench" out
done_testing
