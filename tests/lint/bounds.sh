#!/bin/sh
# The table of bounds in docs/operations.md against the code: a row that names a constant and its file, or an option and its program, must give
# the value that stands there.
set -eu
cd "${1:-.}"
page=docs/operations.md
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# "value|name|file or program" for each row whose third cell names where the bound is set.
sed -n '/^## What is bounded/,/^## When/p' "$page" |
    sed -n 's/^| [^|]* | \([^|]*\) | `\([^`]*\)` \(in\|of\) `\([^`]*\)` |.*/\1|\2|\4/p' > "$tmp/rows"
[ "$(wc -l < "$tmp/rows")" -ge 20 ] || { echo "$page: the table of bounds was not found"; exit 1; }

# The number in "4", "8 a slot", "65536 bytes", "64 MiB" or "max_tokens of it, at most 1073741824 bytes".
number() {
    n=$(echo "$1" | grep -oE '[0-9]+' | head -1)
    case $1 in *MiB*) n=$((n << 20)) ;; esac
    echo "$n"
}

fail=0
while IFS='|' read -r value name where; do
    case $name in
    --*)
        room=$(echo "$where" | sed 's/^baton-//; s/$/-node/; s/^gateway-node$/gateway/')
        options=$(find "$room" -name options.c)
        [ -f "$options" ] || { echo "$page: $where has no options.c below $room/"; fail=1; continue; }
        found=$(tr '\n' ' ' < "$options" | grep -oE "\.name = \"${name#--}\"[^{}]*\.def = \"[^\"]*\"" | sed 's/.*\.def = "\(.*\)"/\1/')
        [ "$found" = "$value" ] || { echo "$page: $name of $where is '$value', the code says '$found'"; fail=1; }
        continue ;;
    esac
    [ -f "$where" ] || { echo "$page: there is no $where"; fail=1; continue; }
    grep -qE "\b$name\b" "$where" || { echo "$page: $where has no $name"; fail=1; continue; }
    found=$(grep -oE "\b$name = [0-9]+( << [0-9]+)?" "$where" | head -1 | sed 's/.* = //')
    [ -z "$found" ] || [ "$(eval "echo \$(($found))")" = "$(number "$value")" ] || { echo "$page: $name in $where is '$value', the code says $found"; fail=1; }
done < "$tmp/rows"
exit $fail
