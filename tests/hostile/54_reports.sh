#!/usr/bin/env bash
# Reports: a page that compares runs for every app, runs of another app are refused, and what the pages say.
. "$(dirname "$0")/lib.sh"
says() { check "no '$1' in $2" grep -qF -- "$1" "$2"; }
says_not() { check "'$1' in $2" bash -c '! grep -qF -- "$1" "$2"' - "$1" "$2"; }
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
