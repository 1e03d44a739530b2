#!/bin/sh
# Command-line tests, a folder for each theme. Each case runs in an empty folder of its own with the programs on its PATH;
# what it prints and its exit code must be as written down:
# - THEME/transcript.txt has many. Lines "$ COMMAND" are a case, which a blank line or what follows them ends: "> " and
#   what stdout should say, "! " for stderr, "= N" for an exit code that is not 0. "#" begins a comment.
# - THEME/NAME.sh is a longer one, with NAME.stdout, NAME.stderr, NAME.exit (a missing file means: empty, or 0).
# '*' in what is expected stands for anything within a line. Lines that end in " ..." say what a slow machine waited for
# (base/wait.h): they are not looked at. With UPDATE=1 in the environment what differs is written down anew, for you to read
# the difference. Packages go to BATON_CACHE_DIR, or to a folder of this run. BATON_TEST_MODEL is the default model's path;
# it is fetched when the caller has not set it.
#   run.sh BUILD_DIR [PATTERN]      PATTERN: only cases whose THEME/NAME it is part of, as in plan, run/transcript or run/time*
# JOBS=2 in the environment: two themes at once.
set -u
cd "$(dirname "$0")" || exit 1
here=$PWD jobs=${JOBS:-1}
unset JOBS
bin=$(cd "../../$1/bin" && pwd) || exit 1
only=${2:-}
update=${UPDATE:-}
model=${BATON_TEST_MODEL:-$(sh ../../deploy/model.sh)} || exit 1
cache=${BATON_CACHE_DIR:-}                   # compiled packages: the caller's, so that all tests compile one model once
# The caller's environment must steer neither the programs nor sort.
export LC_ALL=C
for v in $(env | sed -n 's/^\(BATON_[A-Z0-9_]*\)=.*/\1/p'); do unset "$v"; done
export BATON_TEST_MODEL="$model"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BATON_CACHE_DIR="${cache:-$work/.cache}"
passed=0 failed=0

# Each theme by a run of its own, so many at once; what they print comes theme by theme.
if [ "$jobs" -gt 1 ] && [ -z "$only" ]; then
    mkdir "$work/said"
    # shellcheck disable=SC2016
    printf '%s\n' */ | UPDATE=$update xargs -P "$jobs" -I '{}' sh -c 'sh run.sh "$1" "{}" > "$2/$(basename "{}")" 2>&1' sh "$1" "$work/said"
    awk '/^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3; next } { print }
        END { print passed + 0 " passed, " failed + 0 " failed"; exit failed > 0 || passed == 0 }' "$work"/said/*
    exit
fi

# Does the text of file $2 match the pattern file $1, line by line?
matches() {
    awk -v pattern="$1" '
        function to_regex(s,   i, c, r) {
            for (i = 1; i <= length(s); i++) {
                c = substr(s, i, 1)
                if (c == "*") r = r ".*"
                else if (index("\\^$.[]|()?+{}", c)) r = r "\\" c
                else r = r c
            }
            return "^" r "$"
        }
        { if ((getline want < pattern) <= 0 || $0 !~ to_regex(want)) { bad = 1; exit } }
        END { if (!bad && (getline want < pattern) > 0) bad = 1; exit bad }' "$2"
}

# The file $1, or an empty one where it is not.
or_empty() { if [ -f "$1" ]; then echo "$1"; else echo /dev/null; fi; }

# run_case NAME STEM: runs STEM.sh against STEM.stdout, STEM.stderr, STEM.exit
run_case() {
    at=$work/$((passed + failed))
    mkdir "$at"
    (cd "$at" && PATH="$bin:$PATH" HOME="$at" sh "$2.sh" > "$work/out.stdout" 2> "$work/out.stderr" < /dev/null)
    code=$? why=
    rm -rf "$at"
    sed -i '/^[^ ].* \.\.\.$/d' "$work/out.stdout" "$work/out.stderr"
    if [ -n "$update" ]; then
        for s in stdout stderr; do
            matches "$(or_empty "$2.$s")" "$work/out.$s" && continue
            if [ -s "$work/out.$s" ]; then cp "$work/out.$s" "$2.$s"; else rm -f "$2.$s"; fi
        done
        if [ $code = 0 ]; then rm -f "$2.exit"; else echo $code > "$2.exit"; fi
    fi
    want=0; [ ! -f "$2.exit" ] || want=$(cat "$2.exit")
    [ "$code" = "$want" ] || why=" exit code $code, expected $want;"
    for s in stdout stderr; do matches "$(or_empty "$2.$s")" "$work/out.$s" || why="$why $s differs;"; done
    if [ -z "$why" ]; then
        passed=$((passed + 1))
        return
    fi
    failed=$((failed + 1))
    echo "FAILED tests/cli/$1:${why%;}"
    [ "$2" = "$here/${1%.sh}" ] || sed 's/^/    $ /' "$2.sh"
    for s in stdout stderr; do diff -u --label "expected $s" --label "printed $s" "$(or_empty "$2.$s")" "$work/out.$s" | sed 's/^/    /'; done
}

# split_transcript FILE: each case as a script and what is expected, named by its line, in $work/cases
split_transcript() {
    rm -rf "$work/cases"
    mkdir "$work/cases"
    awk -v to="$work/cases/" '
        function rest() { return $0 ~ /^. / ? substr($0, 3) : substr($0, 2) }
        /^\$/ && !inside { stem = to sprintf("%04d", FNR); inside = 1; printf "%s", head > (stem ".head"); head = "" }
        /^\$/ { print rest() > (stem ".sh"); next }
        { inside = 0 }
        /^(#|$)/ { head = head $0 "\n"; next }
        /^(>|!)/ && stem { print rest() > (stem (/^>/ ? ".stdout" : ".stderr")); next }
        /^= [0-9]+$/ && stem { print $2 > (stem ".exit"); next }
        { print FILENAME ":" FNR ": begins with none of $ > ! = #" > "/dev/stderr"; bad = 1 }
        END { printf "%s", head > (to "tail"); exit bad }' "$1"
}

# The transcript that split_transcript took apart.
join_transcript() {
    for c in "$work"/cases/*.head; do
        cat "$c"
        sed 's/^/$ /; s/^\$ $/$/' "${c%.head}.sh"
        sed 's/^/> /; s/^> $/>/' "$(or_empty "${c%.head}.stdout")"
        sed 's/^/! /; s/^! $/!/' "$(or_empty "${c%.head}.stderr")"
        sed 's/^/= /' "$(or_empty "${c%.head}.exit")"
    done
    cat "$work/cases/tail"
}

for f in */transcript.txt */*.sh; do
    case $f in
    *.sh) # shellcheck disable=SC2254
        case $f in *$only*) run_case "$f" "$here/${f%.sh}" ;; esac
        continue ;;
    esac
    split_transcript "$f" || { failed=$((failed + 1)); continue; }
    for c in "$work"/cases/*.sh; do
        line=${c##*/} line=${line%.sh} line=$((1$line - 10000))
        # shellcheck disable=SC2254
        case $f:$line in *$only*) run_case "$f:$line" "${c%.sh}" ;; esac
    done
    [ -z "$update" ] || { join_transcript > "$work/joined" && { cmp -s "$work/joined" "$f" || cp "$work/joined" "$f"; }; }
done
[ $((passed + failed)) -gt 0 ] || { echo "no case is called *$only*" >&2; failed=1; }
echo "$passed passed, $failed failed"
[ $failed = 0 ]
