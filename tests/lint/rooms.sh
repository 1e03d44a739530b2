#!/bin/sh
# A folder of product code has at most 25 sources, or a line below says why it is one room all the same.
#   rooms.sh [TREE]             check
#   rooms.sh --figures [TREE]   say how the tree is cut: lines, files, folders, headers with one reader, circles
# The readers of a header are the product files that include it, but for the source of its own name.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/tree.sh"
figures=
[ "${1:-}" != --figures ] || { figures=1; shift; }
cd "${1:-.}"

# folder : why it is one room
reasons='
common/base            : small things that every room may use; they know nothing of each other
common/device          : a profile, and the times and prices that follow from it
common/engine          : three engines for prompts and three for decoding behind one door each, and what they share
common/kernels/integer : a file for each operation and instruction set
common/model           : a file of a model, and the forms that its weights take
common/npu/lower       : one way from a graph to programs, a file for each step
common/npu/pkg         : one file format: what writes, names, reads and checks it
common/npu/quant       : the ways to choose integers, a file for each
common/text/jinja      : one language: text with origins, values, what they can do, the parser, the evaluator
common/trace           : a reader for each format of traces, the writer, and what is made of their rows
gateway/api            : what requests and answers are: a file for each dialect, and for each part that they share
gateway/http           : the HTTP door and what stands at it: places, framing, keys, certificates
lab/replay             : one command: its plan, its server, its load, its figures, its report
lab/simulate           : one command: its load, its faults, its prices, its sweeps, its report
'

# "COUNT FOLDER" of those with more than 25 sources
wide() { programs | grep / | sed 's|/[^/]*$||' | sort | uniq -c | awk '$1 > 25 { print $1, $2 }'; }
reason() { printf '%s\n' "$reasons" | sed -n "s|^$1 *: *||p"; }

if [ ! "$figures" ]; then
    say "$(wide | while read -r n folder; do
        [ "$(reason "$folder")" ] || echo "$folder: $n sources (25 is the limit); cut it, or say in tests/lint/rooms.sh why it is one room"
    done)"
    say "$(printf '%s\n' "$reasons" | sed -n 's|^\([^ ]*\) *:.*|\1|p' | while read -r folder; do
        [ -d "$folder" ] || echo "tests/lint/rooms.sh: a reason for $folder, which is gone"
    done)"
    exit $fail
fi

programs | xargs -r wc -l | awk '$2 != "total" { print $1 }' | sort -n | awk '
    { at[NR] = $1; lines += $1; small += $1 < 30 }
    END { printf "product   %d lines in %d files, median %d; %d files under 30 lines\n", lines, NR, at[int((NR + 1) / 2)], small }'
sources | grep '^tests/' | xargs -r wc -l | awk '$2 != "total" { lines += $1; n++ } END { printf "tests     %d lines in %d files\n", lines, n }'
echo "folders   $(programs | sed 's|/[^/]*$||' | sort -u | wc -l), with more than 25 sources: $(wide | wc -l)"
wide | sort -rn | while read -r n folder; do echo "          $folder: $n ($(reason "$folder"))"; done
{ programs | xargs -r wc -l | awk '$2 != "total" { print "lines", $2, $1 }'
  programs | xargs -r grep -H '^ *# *include *"' | sed 's/^\([^:]*\): *# *include *"\([^"]*\)".*/include \1 \2/'; } | awk '
    function folder(path) { return substr(path, 1, match(path, /\/[^\/]*$/) - 1) }
    $1 == "lines" { lines[$2] = $3 }
    $1 == "include" {
        at = ("common/" $3) in lines ? "common/" $3 : $3
        own = $2; sub(/\.c$/, ".h", own)
        if (!(at in lines) || own == at || ($2, at) in seen) next
        seen[$2, at] = 1; readers[at]++; reader[at] = $2
    }
    END {
        for (f in lines) if (f ~ /\.h$/) {
            headers++
            if (readers[f] != 1) continue
            one++
            if (folder(f) == folder(reader[f])) room++
            if (lines[f] < 60 && folder(f) == folder(reader[f]) && lines[f] + lines[reader[f]] <= 600) small++
        }
        printf "headers   %d; with one reader %d, in its own room %d, of those short enough to stand in it %d\n", headers, one, room, small
    }'
# As circles.sh does, of the build that $BATON_BIN (or bin/) belongs to.
B=$(cd "$(dirname "$(readlink -f "${BATON_BIN:-bin}/baton")")/.." && pwd)
programs | sed -n "s|\(.*\)\.c$|$B/\1.o|p" | xargs -r nm -A | sed "s|^$B/||; s|\.o:[0-9a-f]* *| |" | awk '
    { objects[$1] = 1 }
    $2 ~ /^[A-TV-Z]$/ { home[$3] = $1 }
    $2 == "U" { needs[++n] = $1; what[n] = $3 }
    END {
        for (i = 1; i <= n; i++) {
            at = home[what[i]]
            if (at != "" && at != needs[i] && !((needs[i], at) in seen)) { seen[needs[i], at] = 1; users[at]++ }
        }
        for (o in objects) { all++; one += users[o] == 1 }
        printf "objects   %d; used by one other %d\n", all, one
    }'
echo "circles   $(sh "$here/circles.sh" . | grep -c ': a circle of ' || true)"
