#!/bin/sh
# run.sh on a small tree of its own: what passes, what fails and is named, what UPDATE=1 writes down, what a pattern chooses.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
passed=0 failed=0
mkdir -p "$t/tests/cli/one" "$t/tests/cli/two" "$t/build/bin"
cp "$here/run.sh" "$t/tests/cli/"
run() { (cd "$t" && JOBS=${3:-} BATON_TEST_MODEL=none UPDATE=${2:-} sh tests/cli/run.sh build "${1:-}") > "$t/said" 2>&1; }
# says WHAT LINE...: the run said each line, and the last of them at the end
says() {
    what=$1
    shift
    for line in "$@"; do
        grep -qxF -e "$line" "$t/said" && continue
        failed=$((failed + 1))
        echo "self_test: $what: not said: $line"
        cat "$t/said"
        return
    done
    if [ "$(tail -n 1 "$t/said")" = "$line" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "self_test: $what: says more"; fi
}

cat > "$t/tests/cli/one/transcript.txt" << 'T'
# Cases that are right: both streams, an exit code, blank lines, two commands, '*', and what is waited for.
$ echo out; echo; echo err >&2; exit 3
> out
>
! err
= 3

$ x=$(pwd)
$ echo "in $x"; ls
> in /*

$ echo 'waiting for it ...'

$ true
T
cp "$t/tests/cli/one/transcript.txt" "$t/right"
echo 'echo "$0" | sed "s|.*/||"; cat > /dev/null; exit 1' > "$t/tests/cli/two/longer.sh"
echo longer.sh > "$t/tests/cli/two/longer.stdout"
echo 1 > "$t/tests/cli/two/longer.exit"
run; says 'a tree that is right' '5 passed, 0 failed'
run '' '' 2; says 'two themes at once' '5 passed, 0 failed'
run one; says 'a theme' '4 passed, 0 failed'
run 'two/l*'; says 'a script' '1 passed, 0 failed'
run one/transcript.txt:8; says 'a case' '1 passed, 0 failed'
run three; says 'a pattern of nothing' 'no case is called *three*' '0 passed, 1 failed'
run '' 1; says 'an update of what is right' '5 passed, 0 failed'
cmp -s "$t/right" "$t/tests/cli/one/transcript.txt" && passed=$((passed + 1)) || { failed=$((failed + 1)); echo 'self_test: an update changed what was right'; }

sed -i 's/^> out/> another/; s/^= 3/= 4/; s/^! err/&or/' "$t/tests/cli/one/transcript.txt"
rm "$t/tests/cli/two/longer.exit"
run
says 'cases that fail' 'FAILED tests/cli/one/transcript.txt:2: exit code 3, expected 4; stdout differs; stderr differs' \
    '    $ echo out; echo; echo err >&2; exit 3' '    -another' '    +out' \
    'FAILED tests/cli/two/longer.sh: exit code 1, expected 0' '3 passed, 2 failed'
run '' '' 2; says 'one that fails in each of two themes' 'FAILED tests/cli/two/longer.sh: exit code 1, expected 0' '3 passed, 2 failed'
run '' 1; says 'an update' '5 passed, 0 failed'
cmp -s "$t/right" "$t/tests/cli/one/transcript.txt" && passed=$((passed + 1)) || { failed=$((failed + 1)); echo 'self_test: an update did not mend'; }
echo 'no sign' >> "$t/tests/cli/one/transcript.txt"
run one; says 'a line without a sign' 'one/transcript.txt:15: begins with none of $ > ! = #' '0 passed, 1 failed'
echo "$passed passed, $failed failed"
[ $failed = 0 ]
