#!/bin/sh
# Files of at most 800 lines, functions of at most 80. A function that needs more says why in a comment that starts
# "Long because" right above it.
set -eu
. "$(dirname "$0")/lib/tree.sh"
cd "${1:-.}"
say "$(sources | xargs -r awk '
    function length_of_file() { if (lines > 800) printf "%s: %d lines (800 is the limit)\n", file, lines }
    FNR == 1 { length_of_file(); file = FILENAME; excused = start = 0 }
    { lines = FNR }
    /Long because/ { excused = FNR }
    /^{/ { start = FNR }
    /^}/ { if (start && FNR - start + 1 > 80 && (!excused || start - excused > 4))
               printf "%s:%d: a function of %d lines (80 is the limit)\n", file, start, FNR - start + 1
           start = 0 }
    END { length_of_file() }')"
exit $fail
