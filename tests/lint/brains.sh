#!/bin/sh
# Code that decides is pure: the folders named brain and the conversation of the hand-off reach, even through other
# headers, no socket, clock, thread or file: of the system's headers and of common/base only those listed here. A brain
# reaches nothing else of its room.
set -eu
. "$(dirname "$0")/lib/tree.sh"
cd "${1:-.}"
pure='(^|/)brain/|^common/xfer/'

for room in gateway prefill-node decode-node common/xfer; do
    sources | grep "^$room/" | grep -qE "$pure" || say "$room: has no brain that could be checked"
done
say "$(sources | xargs -r grep -H '^ *# *include *["<]' | sed 's/^\([^:]*\): *# *include *\(["<][^">]*\).*/\1 \2/' |
    awk -v pure="$pure" '
    # Everything that `from` reaches is looked at once; `first` is the file that the walk began with.
    function walk(first, from,    i, inc, at) {
        for (i = 1; i <= count[from]; i++) {
            inc = includes[from, i]
            at = ("common/" inc) in count ? "common/" inc : inc
            if (inc ~ /^</) {
                if (inc !~ /^<(assert|float|inttypes|limits|math|std(arg|bool|def|int|io|lib)|string)\.h/)
                    complain(first, inc, from)
                continue
            }
            if ((first, inc) in seen) continue
            seen[first, inc] = 1
            if (inc ~ /^(rt|node)\// || (inc ~ /^base\// && inc !~ /^base\/(breakage|err|hash|log|num|order|prompt|wide)\.h/) ||
                (index(at, room) == 1 && at !~ pure))
                complain(first, inc, from)
            walk(first, at)
        }
    }
    function complain(first, inc, from) {
        print first ": a brain must not reach " inc (from == first ? "" : " (through " from ")")
    }
    { inc = $2; sub(/^"/, "", inc); includes[$1, ++count[$1]] = inc }
    END { for (f in count) if (f ~ pure && f !~ /^tests\//) {
              room = f; sub(/brain\/.*/, "", room); if (room == f) room = "\n"
              walk(f, f)
          } }' | sort)"
# stdio and stdlib are there for snprintf and memory.
say "$(sources | grep -E "$pure" | grep -v '^tests/' |
    xargs -r grep -nHwE '(fopen|fputs|fwrite|f?printf|getenv|system|random|rand|getrandom) *\(' |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: a brain reads and writes nothing/')"
exit $fail
