#!/bin/sh
# Command-line tests: each NAME.sh runs in an empty folder of its own with the programs on its PATH; what it prints and
# its exit code must equal NAME.stdout, NAME.stderr and NAME.exit (a missing file means: empty, or 0). '*' in the expected files stands
# for anything within a line. Lines that end in " ..." say what a slow machine waited for (base/wait.h): they are not looked at.
# With UPDATE they are rewritten where they differ, for you to read the difference.
# Packages go to BATON_CACHE_DIR, or to a folder of this run. BATON_TEST_MODEL is the default model's path; it is fetched when the caller has not set it.
#   run.sh BUILD_DIR [UPDATE]
set -u
cd "$(dirname "$0")" || exit 1
bin=$(cd "../../$1/bin" && pwd) || exit 1
update=${2:-}
model=${BATON_TEST_MODEL:-$(sh ../../deploy/model.sh)} || exit 1
cache=${BATON_CACHE_DIR:-}                   # compiled packages: the caller's, so that all tests compile one model once
# What the caller's environment says must not steer the programs.
for v in $(env | sed -n 's/^\(BATON_[A-Z0-9_]*\)=.*/\1/p'); do unset "$v"; done
export BATON_TEST_MODEL="$model"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BATON_CACHE_DIR="${cache:-$work/.cache}"
passed=0 failed=0

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

for t in *.sh; do
    name=${t%.sh}
    [ "$name" = run ] && continue
    mkdir "$work/$name"
    (cd "$work/$name" && PATH="$bin:$PATH" HOME="$work/$name" sh "$OLDPWD/$t" > ../"$name.out" 2> ../"$name.err" < /dev/null)
    code=$?
    sed -i '/^[^ ].* \.\.\.$/d' "$work/$name.out" "$work/$name.err"
    if [ -n "$update" ]; then
        for s in stdout:out stderr:err; do
            expected=$name.${s%%:*} got=$work/$name.${s##*:}
            [ -f "$expected" ] || expected=/dev/null
            if matches "$expected" "$got"; then continue; fi
            if [ -s "$got" ]; then cp "$got" "$name.${s%%:*}"; else rm -f "$name.${s%%:*}"; fi
        done
        if [ $code = 0 ]; then rm -f "$name.exit"; else echo $code > "$name.exit"; fi
    fi
    want=0; [ ! -f "$name.exit" ] || want=$(cat "$name.exit")
    why=
    [ "$code" = "$want" ] || why="exit code $code, expected $want"
    for s in stdout:out stderr:err; do
        expected=$name.${s%%:*}
        [ -f "$expected" ] || expected=/dev/null
        matches "$expected" "$work/$name.${s##*:}" || why="$why ${s%%:*} differs"
    done
    if [ -z "$why" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED tests/cli/$t: $why"
        for s in stdout:out stderr:err; do
            expected=$name.${s%%:*}
            [ -f "$expected" ] || expected=/dev/null
            diff -u "$expected" "$work/$name.${s##*:}" | sed 's/^/    /'
        done
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
