#!/bin/sh
# Runs the tests of one build:  tests/run.sh build/release [NAME]
#                               tests/run.sh build/release rows SOURCE...
# Unit programs, the simulator's seeds, lint self-test, installation, fuzz corpora, command-line tests, integration programs. With NAME only the unit and
# integration programs test_NAME*; with `rows` those that walk the kernels' dispatch table, each row of which must run.
# JOBS=2 in the environment: two unit programs at once, and two themes of the command line. One line for each program that passes; everything it said for
# one that fails.
# The last line counts the tests: "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
B=${1:?build folder, such as build/release}
only=${2:-}
units=$(find tests/unit -name "test_$only*.c" | sort)
if [ "$only" = rows ]; then
    shift 2
    units=$*
fi

TMPDIR=$(mktemp -d) || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM
sim_id=${BATON_TEST_SEED:-$(git rev-parse HEAD 2> /dev/null || cat VERSION)}     # what the simulator's new seeds come from
# Options from the caller's environment must not steer the programs under test; the place of the model may.
for v in $(env | sed -n 's/^\(BATON_[A-Z0-9_]*\)=.*/\1/p'); do case $v in BATON_MODEL_DIR | BATON_RUNNER) ;; *) unset "$v" ;; esac; done
unset NOTIFY_SOCKET
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
BATON_TEST_MODEL=$(sh deploy/model.sh) && export BATON_TEST_MODEL || unset BATON_TEST_MODEL
BATON_CACHE_DIR=$TMPDIR/cache               # what one test compiles serves the next
export BATON_CACHE_DIR
rows=build/rows/$(echo "${B#build/}" | tr / .)      # what ran of the kernels' dispatch table; a whole run begins anew
mkdir -p build/rows
[ "$only" ] || rm -f "$rows"
if [ -d "$B/bin" ]; then
    BATON_BIN=$(cd "$B/bin" && pwd)
    export BATON_BIN
fi

# Sanitizers and emulators slow a program down, and its limit grows with that.
case $B in
    */asan*) slower=4 ;;
    */tsan*) slower=12 ;;
    *) slower=$([ "${BATON_RUNNER:-}" ] && echo 12 || echo 1) ;;
esac
passed=0 failed=0 skipped=0 jobs=${JOBS:-1}
now_ms() { echo $(($(date +%s%N) / 1000000)); }

# report NAME RC PASSED FAILED SKIPPED MS
report() {
    [ "$2" = 0 ] || [ "$4" -gt 0 ] || set -- "$1" "$2" "$3" 1 "$5" "$6"     # a crash counts as one failure
    passed=$((passed + $3)) failed=$((failed + $4)) skipped=$((skipped + $5))
    if [ "$2" = 0 ] && [ "$4" = 0 ]; then
        note=
        [ "$5" = 0 ] || note=", $5 skipped"
        printf '  %-40s %5d tests %8d ms%s\n' "$1" "$3" "$6" "$note"
    else
        printf '  %-40s FAILED (exit code %d%s)\n' "$1" "$2" "$([ "$2" -eq 124 ] && echo ': it took too long')"
        cat "$out"
    fi
}

# Programs of cmocka tests, JOBS at once, each counted when it ends: cmocka_programs SECONDS PROGRAM...
# A program leaves $TMPDIR/runs/NAME.out, what it said, and NAME.end: its path, exit code and milliseconds.
cmocka_programs() {
    limit=$1
    shift
    # shellcheck disable=SC2016
    one='kept=$TMPDIR/runs/$(echo "$2" | tr / .) begin=$(date +%s%N)
        if [ -x "$2" ]; then timeout -k 10 "$1" $BATON_RUNNER "$2" > "$kept.out" 2>&1; rc=$?
        else echo "$2 was not built" > "$kept.out"; rc=127; fi
        echo "$2 $rc $((($(date +%s%N) - begin) / 1000000))" > "$kept.end"; echo "$kept"'
    mkdir -p "$TMPDIR/runs"
    mkfifo "$TMPDIR/ended" || exit 1
    printf '%s\n' "$@" | xargs -P "$jobs" -I '{}' sh -c "$one" sh "$limit" '{}' > "$TMPDIR/ended" &
    while read -r kept; do count_program "$kept"; done < "$TMPDIR/ended"
    wait
    rm -r "$TMPDIR/ended" "$TMPDIR/runs"
}

# Counts the program that left $1.out and $1.end.
count_program() {
    out=$1.out
    read -r program rc ms < "$1.end"
    # shellcheck disable=SC2046
    set -- "$program" "$rc" $(awk '
        { sub(/\r$/, "") }
        /^\[       OK \]/                     { ok++ }
        /^\[  FAILED  \] [0-9]+ test\(s\)/    { bad += $4 }
        /^\[  FAILED  \] GROUP TEARDOWN/      { bad++ }     # of which the exit code says nothing
        /^\[  SKIPPED \] [0-9]+ test\(s\)/    { skip += $4 }
        END { print ok + 0, bad + 0, skip + 0 }' "$out")
    grep '^skipped: ' "$out" | sort -u >> "$TMPDIR/said"
    walked "${1#"$B"/}" || set -- "$1" 1 "$3" $(($4 + 1)) "$5"
    report "${1#"$B"/tests/}" "$2" "$3" "$4" "$5" "$ms"
}

# The lines that the program $1 printed on rows of the kernels' dispatch table (tests/helpers/rows.h), for
# tests/rows.sh; false where it walked past one.
walked() {
    sed -n -e 's/^\(ran\|missed\): \([a-z0-9]*\)$/\1 \2/p' -e 's/^\(skipped\): \([a-z0-9]*\): not of this machine$/\1 \2/p' "$out" |
        sort -u | sed "s|.*|& ${1#tests/}|" > "$TMPDIR/walked"
    cat "$TMPDIR/walked" >> "$rows"
    ! grep -q '^missed ' "$TMPDIR/walked" || { echo 'a walk of the dispatch table left out what is called missed'; false; } >> "$out"
}

# A script or program that counts as $2 tests, or ends with a line "N passed, N failed[, N skipped]" of its own.
other() {
    name=$1 count=$2 out=$TMPDIR/out
    shift 2
    begin=$(now_ms)
    timeout -k 10 $((900 * slower)) "$@" > "$out" 2>&1
    rc=$?
    # shellcheck disable=SC2046
    set -- $(sed -n '$!d; s/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped.*/\1 \2 \3/p; t
        s/^\([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2 0/p' "$out")
    grep '^skipped: ' "$out" >> "$TMPDIR/said"
    if [ $# -ne 3 ]; then
        if [ $rc = 0 ]; then set -- "$count" 0 0; else set -- 0 "$count" 0; fi
    fi
    report "$name" $rc "$1" "$2" "$3" $(($(now_ms) - begin))
}

# shellcheck disable=SC2046
[ -z "$units" ] || cmocka_programs $((300 * slower)) $(echo $units | sed "s|[^ ]*|$B/&|g; s|\.c||g")
# The same seeds always, some new ones with every commit (BATON_TEST_SEED=text chooses others), and every broken brain.
if [ -z "$only" ]; then
    sim_start=$(($(printf %s "$sim_id" | cksum | cut -d ' ' -f 1) + 1000000))
    echo "  simtest: 200 new seeds from START=$sim_start"
    other 'world/kept_seeds' 1 "$B/tests/world/simtest" kept
    other 'world/seeds' 1 "$B/tests/world/simtest" seeds=2000
    other 'world/new_seeds' 1 "$B/tests/world/simtest" seeds=200 start=$sim_start
    other 'world/broken_brains' 1 "$B/break/simtest" break=all
    other 'lint/self_test' 1 sh tests/lint/self_test.sh
    other 'install' 1 sh tests/install.sh
    for src in tests/fuzz/fuzz_*.c; do
        [ -f "$src" ] || continue
        target=$(basename "$src" .c)
        target=${target#fuzz_}
        other "fuzz/$target" 1 "$B/tests/fuzz/$target" "tests/fuzz/corpus/$target"
    done
    other 'cli/self_test' 1 sh tests/cli/self_test.sh
    other 'cli' 1 sh tests/cli/run.sh "$B"
fi
# One at a time: each starts many processes of its own.
jobs=1
integration=$(find tests/integration -name "test_$only*.c" | sort)
# shellcheck disable=SC2046
[ -z "$integration" ] || cmocka_programs $((900 * slower)) $(echo $integration | sed "s|[^ ]*|$B/&|g; s|\.c||g")

# The things that tests said they left out, such as rows of the dispatch table that this machine cannot run.
[ ! -s "$TMPDIR/said" ] || sort "$TMPDIR/said" | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/  \2 (programs: \1)/'
if [ "$only" = rows ] && grep -q '^skipped: [a-z0-9]*: not of this machine$' "$TMPDIR/said" 2> /dev/null; then
    echo "rows of the dispatch table ran nowhere" >&2
    failed=$((failed + 1))
fi
[ $((passed + failed + skipped)) -gt 0 ] || { echo "no test program is called test_$only*" >&2; failed=1; }
echo "$passed passed, $failed failed$([ $skipped = 0 ] || echo ", $skipped skipped")"
[ $failed = 0 ]
