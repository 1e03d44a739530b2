#!/bin/sh
# Runs the tests of one build:  tests/run.sh build/release [NAME]
#                               tests/run.sh build/release rows SOURCE...
# Unit programs, the simulator's seeds, lint self-test, installation, fuzz corpora, command-line tests, integration programs. With NAME only the unit and
# integration programs test_NAME*; with `rows` those that walk the kernels' dispatch table, each row of which must run.
# JOBS=2 in the environment: two of them at once, and two themes of the command line; what measures time
# (tests/integration/lab) runs alone.
# One line for each program that passes; everything it said for one that fails.
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

# in_lanes SECONDS: runs the lines of $TMPDIR/lines, JOBS at once, and counts each when it ends. A line is COUNT NAME COMMAND...
# COUNT is `cmocka`, or the number of tests that the command counts as where it doesn't end with a line
# "N passed, N failed[, N skipped]" of its own.
# A command leaves $TMPDIR/runs/NAME.out, what it said, and NAME.end: its COUNT, NAME, exit code and milliseconds.
in_lanes() {
    # shellcheck disable=SC2016
    one='limit=$1 count=$2 name=$3 kept=$TMPDIR/runs/$(echo "$3" | tr / .) begin=$(date +%s%N)
        shift 3
        timeout -k 10 "$limit" "$@" > "$kept.out" 2>&1; rc=$?
        echo "$count $name $rc $((($(date +%s%N) - begin) / 1000000))" > "$kept.end"; echo "$kept"'
    mkdir -p "$TMPDIR/runs"
    mkfifo "$TMPDIR/ended" || exit 1
    xargs -P "$jobs" -L 1 sh -c "$one" sh "$1" < "$TMPDIR/lines" > "$TMPDIR/ended" &
    while read -r kept; do count_one "$kept"; done < "$TMPDIR/ended"
    wait
    rm -r "$TMPDIR/ended" "$TMPDIR/runs" "$TMPDIR/lines"
}

# The lines of these sources' programs.
cmocka_lines() {
    for src in "$@"; do echo "cmocka ${src%.c} ${BATON_RUNNER:-} $B/${src%.c}"; done
}

# Counts the command that left $1.out and $1.end.
count_one() {
    out=$1.out
    read -r count name rc ms < "$1.end"
    grep '^skipped: ' "$out" | sort -u >> "$TMPDIR/said"
    # shellcheck disable=SC2046
    if [ "$count" = cmocka ]; then
        set -- $(awk '
            { sub(/\r$/, "") }
            /^\[       OK \]/                     { ok++ }
            /^\[  FAILED  \] [0-9]+ test\(s\)/    { bad += $4 }
            /^\[  FAILED  \] GROUP TEARDOWN/      { bad++ }     # of which the exit code says nothing
            /^\[  SKIPPED \] [0-9]+ test\(s\)/    { skip += $4 }
            END { print ok + 0, bad + 0, skip + 0 }' "$out")
        walked "$name" || set -- "$1" $(($2 + 1)) "$3"
    else
        set -- $(sed -n '$!d; s/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped.*/\1 \2 \3/p; t
            s/^\([0-9]*\) passed, \([0-9]*\) failed.*/\1 \2 0/p' "$out")
        [ $# = 3 ] || set -- $([ "$rc" = 0 ] && echo "$count" 0 0 || echo 0 "$count" 0)
    fi
    report "${name#tests/}" "$rc" "$1" "$2" "$3" "$ms"
}

# The lines that the program $1 printed on rows of the kernels' dispatch table (tests/helpers/rows.h), for
# tests/rows.sh; false where it walked past one.
walked() {
    sed -n -e 's/^\(ran\|missed\): \([a-z0-9]*\)$/\1 \2/p' -e 's/^\(skipped\): \([a-z0-9]*\): not of this machine$/\1 \2/p' "$out" |
        sort -u | sed "s|.*|& ${1#tests/}|" > "$TMPDIR/walked"
    cat "$TMPDIR/walked" >> "$rows"
    ! grep -q '^missed ' "$TMPDIR/walked" || { echo 'a walk of the dispatch table left out what is called missed'; false; } >> "$out"
}

# shellcheck disable=SC2086
units=
# The same seeds always, some new ones with every commit (BATON_TEST_SEED=text chooses others), and every broken brain.
if false; then
    sim_start=$(($(printf %s "$sim_id" | cksum | cut -d ' ' -f 1) + 1000000))
    echo "  simtest: 200 new seeds from START=$sim_start"
    {
        echo "1 lint/self_test sh tests/lint/self_test.sh"
        echo "1 world/kept_seeds $B/tests/world/simtest kept"
        echo "1 world/seeds $B/tests/world/simtest seeds=2000"
        echo "1 world/new_seeds $B/tests/world/simtest seeds=200 start=$sim_start"
        echo "1 world/broken_brains $B/break/simtest break=all"
        echo "1 install sh tests/install.sh"
        for src in tests/fuzz/fuzz_*.c; do
            target=$(basename "$src" .c)
            target=${target#fuzz_}
            echo "1 fuzz/$target $B/tests/fuzz/$target tests/fuzz/corpus/$target"
        done
        echo "1 cli/self_test sh tests/cli/self_test.sh"
    } > "$TMPDIR/lines"
    in_lanes $((900 * slower))
    echo "1 cli sh tests/cli/run.sh $B" > "$TMPDIR/lines"      # its themes take the lanes
    in_lanes $((900 * slower))
fi
# Each starts many processes of its own; those of lab measure time, and run alone.
# shellcheck disable=SC2046
for lab in !; do # do
    # shellcheck disable=SC2086
    set -- $(find tests/integration -name "test_$only*.c" $lab -path '*/lab/*' | sort)
    [ "$lab" ] || jobs=1
    [ $# = 0 ] || { cmocka_lines "$@" > "$TMPDIR/lines"; in_lanes $((900 * slower)); }
done

# The things that tests said they left out, such as rows of the dispatch table that this machine cannot run.
[ ! -s "$TMPDIR/said" ] || sort "$TMPDIR/said" | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/  \2 (programs: \1)/'
if [ "$only" = rows ] && grep -q '^skipped: [a-z0-9]*: not of this machine$' "$TMPDIR/said" 2> /dev/null; then
    echo "rows of the dispatch table ran nowhere" >&2
    failed=$((failed + 1))
fi
[ $((passed + failed + skipped)) -gt 0 ] || { echo "no test program is called test_$only*" >&2; failed=1; }
echo "$passed passed, $failed failed$([ $skipped = 0 ] || echo ", $skipped skipped")"
[ $failed = 0 ]
