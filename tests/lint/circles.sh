#!/bin/sh
# Files form an order in which they can be read: none calls or includes another that leads back to it. Calls are what
# the objects of the build define and need; the build is the one that $BATON_BIN (or bin/) belongs to.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/tree.sh"
for tool in nm tsort; do
    command -v $tool > /dev/null || { echo "circles.sh: no $tool here; 'make deps' installs it"; exit 1; }
done
bin=${BATON_BIN:-bin}
case $bin in /*) ;; *) bin=$PWD/$bin ;; esac
cd "${1:-.}"
export LC_ALL=C
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# circles WORD < "FROM TO WHY" lines: each circle that tsort finds, as one line of arrows, with why of each.
circles() {
    sort -u > "$tmp/arrows"
    awk '{ print $1, $2 }' "$tmp/arrows" | sort -u | tsort 2>&1 > /dev/null | sed -n 's/^tsort: //p' |
        awk -v word="$1" '
        function flush(    i, next_one, said) {
            for (i = 1; i <= n; i++) {
                next_one = member[i % n + 1]
                said = said " -> " next_one " (" why[member[i], next_one] ")"
            }
            if (n) print member[1] ": a circle of " word ": " member[1] said
            n = 0
        }
        NR == FNR { if (!(($1, $2) in why)) why[$1, $2] = $3; next }
        / contains a loop:$/ { flush(); next }
        { member[++n] = $0 }
        END { flush() }' "$tmp/arrows" -
}

# ---- calls ----
B=$(cd "$(dirname "$(readlink -f "$bin/baton")")/.." 2> /dev/null && pwd) || B=$bin/..
programs | sed -n 's/\.c$//p' > "$tmp/stems"
sed "s|.*|$B/&.o|" "$tmp/stems" > "$tmp/objects"
missing=$(xargs -r ls -d < "$tmp/objects" 2>&1 > /dev/null | wc -l)
if [ "$missing" -gt 0 ]; then
    say "circles.sh: $missing of $(wc -l < "$tmp/objects") sources have no object in $B; 'make lint' builds them"
else
    xargs -r nm -A < "$tmp/objects" > "$tmp/symbols" || say "circles.sh: nm cannot read the objects in $B"
    [ ! -s "$tmp/stems" ] || grep -q ' T ' "$tmp/symbols" || say "circles.sh: nm finds no function in the objects in $B"
    say "$(sed "s|^$B/||; s|\.o:[0-9a-f]* *| |" "$tmp/symbols" | awk '
        # FILE LETTER SYMBOL; capitals other than U are what the file gives to others
        $2 ~ /^[A-TV-Z]$/ { home[$3] = $1 }
        $2 == "U" { needs[++n] = $1; what[n] = $3 }
        END {
            for (i = 1; i <= n; i++)
                if (what[i] in home && home[what[i]] != needs[i]) print needs[i] ".c", home[what[i]] ".c", what[i]
        }' | circles calls)"
fi

# ---- includes ----
say "$(sources > "$tmp/sources"
    xargs -r grep -H '^ *# *include "' < "$tmp/sources" | sed 's/^\([^:]*\): *# *include "\([^"]*\)".*/\1 \2/' |
    awk 'NR == FNR { there[$1] = 1; next }
        { at = ("common/" $2) in there ? "common/" $2 : $2
          if (at in there) print $1, at, "#include" }' "$tmp/sources" - | circles includes)"
exit $fail
