#!/bin/sh
# Plain text rules: no tabs, no spaces at line ends, a final newline, guarded headers, a first comment in each source, no
# paths of one machine; at most 110 columns in sources, 120 in headers, in documents, and in tables that stand between
# clang-format off and on.
set -eu
. "$(dirname "$0")/lib/tree.sh"
cd "${1:-.}"
texts() {
    tree -name '*.[ch]' -o -name '*.sh' -o -name '*.md' -o -name '*.proto' -o -name '*.py' -o -name Makefile -o -name '*.mk' -o -name '*.yaml' \
        -o -path './.ci/*'
}

say "$(texts | LC_ALL=C xargs -r awk '
    function found(what) { print FILENAME ":" FNR ": " what }
    /\t/ && FILENAME !~ /(^|\/)Makefile$|\.mk$/ { found("a tab") }
    / $/ { found("spaces at the end of the line") }
    FNR == 1 { limit = code = FILENAME ~ /\.c$/ ? 110 : FILENAME ~ /\.(h|md)$/ ? 120 : 10000 }
    code == 110 && /\/\/ clang-format off/ { limit = 120 }
    code == 110 && /\/\/ clang-format on/ { limit = 110 }
    # Bytes that go on with a character are not counted; a line of one word cannot be broken.
    length($0) > limit && NF > 1 {
        line = $0; gsub(/[\200-\277]/, "", line)
        if (length(line) > limit) found(length(line) " columns (" limit " is the limit)")
    }
    /(^|[^A-Za-z0-9_.}])\/(work|root|home|tmp\/[A-Za-z0-9])(\/|[^A-Za-z0-9_-]|$)/ { found("a path of one machine") }')"
# The last byte of every file, together; they are looked at one by one only where one is no newline.
if [ -n "$(texts | xargs -r tail -q -c 1 | tr -d '\n')" ]; then
    say "$(texts | while read -r f; do [ -z "$(tail -c 1 "$f")" ] || echo "$f: no newline at the end"; done)"
fi
say "$(sources | grep '\.c$' | grep -v '^tests/' | xargs -r awk '
    FNR == 1 && !/^\/\*/ { print FILENAME ": does not begin with a comment on what it decides or guarantees" }')"

# PREFIX_..._STEM_H, each once. Templates that are meant to be included several times are named *_body.h, *_table.h;
# tables of test data need no guard.
sources | grep '\.h$' | grep -vE '(_body|_table)\.h$|^tests/' | {
    guards=$(xargs -r awk '
        FNR == 1 { if (file) print file, guard; file = FILENAME; guard = "" }
        guard == "" && /^#ifndef [A-Z0-9_]*$/ { guard = $2 }
        END { if (file) print file, guard }')
    say "$(printf '%s\n' "$guards" | awk 'NF {
        stem = $1; sub(/.*\//, "", stem); sub(/\.h$/, "", stem); gsub(/-/, "_", stem); stem = toupper(stem)
        if ($2 !~ /^(BT|GW|PF|DC|TOOL|SIM)_/ || $2 !~ "^([A-Z0-9]+_)*" stem "_H$") print $1 ": its guard is not such as BT_DIR_" stem "_H"
        if ($2 != "" && seen[$2]++) print $1 ": the guard " $2 " is used twice" }')"
    exit $fail
} || fail=1
exit $fail
