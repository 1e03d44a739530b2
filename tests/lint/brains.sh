#!/bin/sh
# What decides is pure: the folders named brain and the conversation of the hand-off reach, even through other headers,
# no socket, clock, thread or file, and a brain reaches nothing else of its room.
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
                if (inc ~ /^<(zmq|time|pthread|unistd|poll|fcntl|signal|threads|sys\/[a-z]+)\.h/)
                    complain(first, inc, from)
                continue
            }
            if ((first, inc) in seen) continue
            seen[first, inc] = 1
            if (inc ~ /^(rt\/|node\/|base\/(clock|pool|ring|file)\.h)/ || (index(at, room) == 1 && at !~ pure))
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
exit $fail
