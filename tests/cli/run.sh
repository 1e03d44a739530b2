#!/bin/sh
# Command-line tests: each NAME.sh runs in an empty folder of its own with the programs on its PATH; what it prints and
# its exit code must equal NAME.stdout, NAME.stderr and NAME.exit (a missing file means: empty, or 0). Lines of the expected files may hold
# '*' for anything. UPDATE=1 rewrites them, for you to read the difference.
#   run.sh BUILD_DIR [UPDATE]
set -u
cd "$(dirname "$0")"
bin=$(cd "../../$1/bin" && pwd) || exit 1
update=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
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
    if [ -n "$update" ]; then
        cp "$work/$name.out" "$name.stdout"; cp "$work/$name.err" "$name.stderr"; echo $code > "$name.exit"
        [ -s "$name.stdout" ] || rm -f "$name.stdout"
        [ -s "$name.stderr" ] || rm -f "$name.stderr"
        [ $code != 0 ] || rm -f "$name.exit"
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
