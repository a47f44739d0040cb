#!/usr/bin/env bash
# The numbering of a drawn text is timed; nothing of it stays behind. What has no effect on a subcommand is refused.
source "$(dirname "$0")/lib.sh"

mkdir temporary
export TMPDIR=$PWD/temporary
ok bench text --megabytes 1 --words 50 --rounds 2 --json
python3 - out <<'END' || fail "wrong numbers"
import json, sys
found = json.load(open(sys.argv[1]))
# 57 words and an end to a line; the last of 50 words is hardly ever drawn, <unk> and the end of a line are words too.
assert 1 <= found["megabytes"] < 1.01 and 48 <= found["vocabulary"] <= 52, found
assert 150_000 < found["tokens"] < 300_000 and found["tokens"] % 58 == 0, found
assert 0 < found["mb_per_s_min"] <= found["mb_per_s"] <= found["mb_per_s_max"], found
assert found["mb_per_processor_second"] > 0 and found["rounds"] == 2 and "page cache" in found["timed"], found
END
[[ -z $(ls temporary) ]] || fail "left behind: $(ls temporary)"
refuses 2 "--megabytes" bench text --megabytes 0
refuses 2 "--words" bench text --words 1
refuses 2 "--rounds" bench text --rounds 0
TMPDIR=$PWD/nowhere refuses 1 "TMPDIR" bench text --megabytes 1

refuses 2 "'mlp' before text has no effect" bench mlp text --megabytes 1
refuses 2 "'2' before text has no effect" bench --threads 2 text --megabytes 1
refuses 2 "'mlp' was not expected" bench text mlp
refuses 2 "--device: has no effect without --measure" bench ddp --device cpu
refuses 2 "--node-latency: has no effect without --nodes" bench ddp --node-latency 3
refuses 2 "--ranks excludes --measure" bench ddp --measure times.json --ranks 2
[[ ! -e times.json ]] || fail "a refused measurement wrote a file"
done_testing
