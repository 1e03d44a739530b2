#!/bin/sh
# The tables of proto/README.md against the headers: every message with its number, every limit with its value, both ways.
set -eu
. "$(dirname "$0")/lib/tree.sh"
cd "${1:-.}"
page=proto/README.md
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
headers() { programs | grep '\.h$' | xargs -r cat; }

# The rows of the table in the section that begins with "## $1".
section() { sed -n "/^## $1/,/^## /p" "$page" | grep '^| [A-Z0-9]'; }

section Messages | sed -n 's/^| \([0-9]*\) | \([A-Z_]*\) |.*/\1 \2/p' | sort > "$tmp/page.messages"
headers | sed -n 's/^ *BT_MSG_\([A-Z_]*\) = \([0-9]*\),.*/\2 \1/p' | grep -vE ' (MAX|TOP)_' | sort > "$tmp/code.messages"

section Limits | sed -n 's/^| \(BT_[A-Z_]*\) | \([0-9]*\) |.*/\1 \2/p' | sort > "$tmp/page.limits"
{
    headers | sed -n 's/^#define \(BT_PROTOCOL_VERSION\) *\([0-9]*\)u$/\1 \2/p'
    # Enumerators that are limits: NAME = NUMBER or NAME = NUMBER << NUMBER, one or more on a line.
    headers | grep -oE 'BT_(MSG_((MAX|TOP)_[A-Z_]+|[A-Z]+_BODY_BYTES|HEADER_BYTES)|KV_(HEADER|UNIT|MAX)_[A-Z_]+) = [0-9]+( << [0-9]+)?' |
        while read -r name _ value; do eval "echo $name \$(($value))"; done
} | sort > "$tmp/code.limits"

for what in messages limits; do
    [ -s "$tmp/code.$what" ] || say "proto.sh: found no $what in the headers"
    diff "$tmp/page.$what" "$tmp/code.$what" > "$tmp/diff" ||
        say "$page and the headers disagree on $what (< page, > headers):
$(grep '^[<>]' "$tmp/diff")"
done

# Each type has a kind that encodes it, under its own name.
programs | grep '^common/wire/.*\.c$' | xargs -r cat | tr -d ' \n' > "$tmp/kinds"
while read -r _ name; do
    grep -q "{BT_MSG_$name,\"$name\"," "$tmp/kinds" || say "common/wire has no kind BT_MSG_$name, \"$name\""
done < "$tmp/code.messages"
exit $fail
