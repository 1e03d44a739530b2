#!/bin/sh
# The table of bounds in docs/operations.md against the code: each row names a constant and its file, or an option and
# its program, and gives the value that stands there. Programs are taken from $BATON_BIN or bin/.
set -eu
. "$(dirname "$0")/lib/tree.sh"
cd "${1:-.}"
bin=${BATON_BIN:-bin}
page=docs/operations.md
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# "what|value|name|file or program" for each row; one whose third cell is empty is not set anywhere.
sed -n '/^## What is bounded/,/^## When/p' "$page" | grep '^|' | sed 1,2d > "$tmp/table"
sed -n 's/^| \([^|]*\) | \([^|]*\) | `\([^`]*\)` \(in\|of\) `\([^`]*\)` |.*/\1|\2|\3|\5/p' "$tmp/table" > "$tmp/rows"
[ "$(wc -l < "$tmp/rows")" -ge 20 ] || say "$page: the table of bounds was not found"
say "$(grep -vE '^\| [^|]* \| [^|]* \| +\||^\| [^|]* \| [^|]* \| `[^`]*` (in|of) `[^`]*` \|' "$tmp/table" |
    sed "s#^| \([^|]*\) |.*#$page: '\1' does not say what sets it: \`NAME\` in \`FILE\`, or \`--OPTION\` of \`PROGRAM\`#")"

# The number in "4", "8 a slot", "65536 bytes", "64 MiB" or "max_tokens of it, at most 1073741824 bytes".
number() {
    n=$(echo "$1" | grep -oE '[0-9]+' | head -1)
    case $1 in *MiB*) n=$((n << 20)) ;; esac
    echo "$n"
}

while IFS='|' read -r _ value name where; do
    case $name in
    --*)
        [ -x "$bin/$where" ] || { say "$page: there is no program $where in $bin"; continue; }
        found=$("$bin/$where" --print-options | awk -F '\t' -v name="${name#--}" '$4 == name { print $7 }')
        [ "$found" = "$value" ] || say "$page: $name of $where is '$value', the program says '$found'"
        continue ;;
    esac
    [ -f "$where" ] || { say "$page: there is no $where"; continue; }
    # NAME = NUMBER, or NUMBER << NUMBER; a bool holds one.
    found=$(grep -oE "\b$name = [0-9]+( << [0-9]+)?|\bbool $name;" "$where" | head -1 | sed 's/.* = //; s/^bool .*/1/')
    [ -n "$found" ] || { say "$page: $where does not set $name"; continue; }
    [ "$(eval "echo \$(($found))")" = "$(number "$value")" ] ||
        say "$page: $name in $where is '$value', the code says $found"
done < "$tmp/rows"
exit $fail
