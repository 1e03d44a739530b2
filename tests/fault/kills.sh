#!/bin/sh
# kill -9 at N moments spread over a compilation, then over a conversion of weights: nothing is left in the folders but
# locks that no process holds, and the next start makes the same bytes.
#   kills.sh BUILD_DIR N [MODEL]
set -eu
cd "$(dirname "$0")/../.."
bin=$(cd "$1/bin" && pwd) n=$2 model=${3:-${BATON_TEST_MODEL:-$(sh deploy/model.sh)}}
d=$(mktemp -d)
trap 'rm -rf "$d"' EXIT
export BATON_CACHE_DIR="$d/cache"
mkdir "$d/out"

now_ms() { echo $(($(date +%s%N) / 1000000)); }
fail() { echo "kills.sh: $*" >&2; exit 1; }

compile() { exec "$bin/baton" compile -q -m "$model" -o "$d/out/p.bpk"; }
# The conversion is nearly all that decoding with these weights does.
convert() { exec "$bin/baton" perplexity -q -m "$model" --engine decode --weights fp4 -c 64 --chunks 1 -f "$d/text"; }
made_by() {
    case $1 in
    compile) echo "$d/out" ;;
    convert) echo "$d/cache/weights" ;;
    esac
}
# The files there, locks apart.
left() { find "$(made_by "$1")" -type f ! -name '*.lock' 2> /dev/null | sort; }
sum() { left "$1" | xargs -r cat | sha256sum; }

i=0
while [ $i -lt 400 ]; do i=$((i + 1)); echo "The quick brown fox number $i jumps over the lazy dog."; done > "$d/text"

for what in compile convert; do
    rm -rf "$d/cache"
    begin=$(now_ms)
    ($what) > "$d/log" 2>&1 || fail "$what: $(tail -n 1 "$d/log")"
    took=$(($(now_ms) - begin))
    want=$(sum $what)
    [ "$(left $what | wc -l)" = 1 ] || fail "$what made $(left $what | wc -l) files"
    killed=0 whole=0 i=0
    while [ $i -lt "$n" ]; do
        i=$((i + 1))
        left $what | xargs -r rm
        ($what) > /dev/null 2>&1 &
        pid=$!
        sleep "$(awk "BEGIN { print $took * $i / ($n + 1) / 1000 }")"
        kill -9 $pid 2> /dev/null && killed=$((killed + 1)) || true
        wait $pid 2> /dev/null || true
        if [ -n "$(left $what)" ]; then
            [ "$(sum $what)" = "$want" ] || fail "$what: kill $i left $(left $what)"
            whole=$((whole + 1))
        fi
    done
    left $what | xargs -r rm
    ($what) > "$d/log" 2>&1 || fail "$what after $n kills: $(tail -n 1 "$d/log")"
    [ "$(sum $what)" = "$want" ] || fail "$what after $n kills made other bytes"
    echo "$what: $took ms; $killed of $n killed while it ran, $whole had ended; nothing half made; the next one the same bytes"
done
