#!/bin/sh
# Plain text rules: no tabs, no spaces at line ends, a final newline, guarded headers, a first comment in each source, no
# paths of one machine.
set -eu
cd "${1:-.}"
fail=0
say() { [ -z "$1" ] || { echo "$1"; fail=1; }; }
files() { find . \( -path ./build -o -path ./bin -o -path ./.git -o -path ./tests/fuzz/corpus \) -prune -o -type f \( "$@" \) -print; }
all() { files -name '*.[ch]' -o -name '*.sh' -o -name '*.md' -o -name '*.proto' -o -name '*.py' -o -name Makefile -o -name '*.yaml' -o -path './.ci/*'; }
tab=$(printf '\t')

say "$(all | grep -v '/Makefile$' | xargs -r grep -n "$tab" /dev/null | sed 's|^\./\([^:]*:[0-9]*\):.*|\1: a tab|')"
say "$(all | xargs -r grep -nE '[ ]+$' /dev/null | sed 's|^\./\([^:]*:[0-9]*\):.*|\1: spaces at the end of the line|')"
say "$(all | while read -r f; do [ -z "$(tail -c 1 "$f")" ] || echo "${f#./}: no newline at the end"; done)"
say "$(all | xargs -r grep -nE '(^|[^A-Za-z0-9_.}])/(work|root|home|tmp/[A-Za-z0-9])(/|[^A-Za-z0-9_-]|$)' /dev/null |
    sed 's|^\./\([^:]*:[0-9]*\):.*|\1: a path of one machine|')"

# PREFIX_..._STEM_H, each once. Templates that are meant to be included several times are named *_body.h, *_table.h or
# variant.h; tables of test data need no guard.
guards=$(files -name '*.h' | grep -vE '(_body|_table|/variant)\.h$|^\./tests/' | sort | while read -r f; do
    stem=$(basename "$f" .h | tr 'a-z-' 'A-Z_')
    echo "${f#./} $stem $(sed -n 's/^#ifndef \([A-Z0-9_]*\)$/\1/p' "$f" | head -n 1)"
done)
say "$(echo "$guards" | grep . | while read -r f stem guard; do
    echo "$guard" | grep -E '^(BT|GW|PF|DC|TOOL|SIM)_' | grep -qE "^([A-Z0-9]+_)*${stem}_H\$" || echo "$f: its guard is not such as BT_DIR_${stem}_H"
done)"
say "$(echo "$guards" | awk 'NF > 2 && seen[$3]++ { print $1 ": the guard " $3 " is used twice" }')"

say "$(files -name '*.c' | grep -v '^\./tests/' | sort | while read -r f; do
    [ "$(head -c 2 "$f")" = '/*' ] || echo "${f#./}: does not begin with a comment on what it decides or guarantees"
done)"
exit $fail
