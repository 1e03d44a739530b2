#!/bin/sh
# Instructions of the simulator an event, at 10 to 1,000 nodes and at 100 to 10,000 requests in flight: flat.sh [BATON].
# A search through all nodes or requests would show as their number; orders and calendars grow by their depth, so the
# largest of a list may be at most MOST hundredths of the least. Counted by Valgrind, between a run and one of twice
# the requests, so that the start is in none. A gateway and nodes run the same brains.
set -eu
baton=${1:-bin/baton}
MOST=130
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
command -v valgrind > /dev/null || { echo "skipped: no valgrind, which counts instructions"; exit 0; }

# requests options...: "events instructions"
count() {
    requests=$1
    shift
    valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null "$baton" simulate "$@" --limit "$requests" \
        -m llama-3.1-8b --request-cpu 0 --token-cpu 0 --json -q > "$tmp/json" 2> "$tmp/err"
    echo "$(tr ',' '\n' < "$tmp/json" | sed -n 's/^ *"events": \([0-9]*\)$/\1/p') $(sed -n 's/.*I *refs: *//p' "$tmp/err" | tr -d ,)"
}

# what requests options...
row() {
    what=$1 requests=$2
    shift 2
    half=$(count $((requests / 2)) "$@")
    whole=$(count "$requests" "$@")
    echo "$half $whole" | awk -v what="$what" '{ printf "%s %d %.0f\n", what, $3, ($4 - $2) / ($3 - $1) }' >> "$tmp/rows"
}

check() {
    sort -k3,3n "$tmp/rows" | awk 'NR == 1 { least = $3 } { most = $3 } END { printf "%d\n", 100 * most / least }' > "$tmp/ratio"
    awk -v head="$1" 'BEGIN { printf "%-18s %10s %14s\n", head, "events", "instructions" } { printf "%-18s %10d %14d\n", $1, $2, $3 }' \
        "$tmp/rows"
    rm "$tmp/rows"
    [ "$(cat "$tmp/ratio")" -le "$MOST" ] || {
        echo "FAILED: the largest is $(cat "$tmp/ratio") hundredths of the least, and $MOST are allowed"
        fail=1
    }
}

fail=0
for nodes in 10 100 1000; do
    half=$((nodes / 2))
    row "$nodes" 6000 --synthetic "in:1000,out:200,rate:$nodes" --prefill "$half:h100" --decode "$half:h100"
done
check nodes
# Every step by itself: of few requests more is leapt. rate: requests a second that keep so many running.
for load in 100:220:1000 1000:2000:6000 10000:14000:24000; do
    flight=${load%%:*} rest=${load#*:}
    row "$flight" "${rest#*:}" --synthetic "in:50,out:100,rate:${rest%:*}" --prefill 100:h100 --decode 50:h100 --slots 512 \
        --batch-rows 512 --max-queue 65536 --full
done
check "requests in flight"
exit $fail
