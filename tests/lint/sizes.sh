#!/bin/sh
# Files of at most 800 lines, functions of at most 80. A function that needs more says why in a comment that starts
# "Long because" right above it.
set -eu
cd "${1:-.}"
find common gateway prefill-node decode-node programs sim tools tests -name '*.[ch]' 2> /dev/null | sort | {
    fail=0
    while read -r f; do
        awk -v f="$f" '
            /Long because/ { excused = NR }
            /^{/  { start = NR }
            /^}/  { if (start && NR - start + 1 > 80 && (!excused || start - excused > 4)) {
                        printf "%s:%d: a function of %d lines (80 is the limit)\n", f, start, NR - start + 1; bad = 1 }
                    start = 0 }
            END   { if (NR > 800) { printf "%s: %d lines (800 is the limit)\n", f, NR; bad = 1 }
                    exit bad }' "$f" || fail=1
    done
    exit $fail
}
