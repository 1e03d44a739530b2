#!/bin/sh
# Words of comments and documents: no sentence begins with "Of", one idea has one word (the table of
# docs/conventions.md says which words are out), and each function that a document names as `f()` exists, in the file
# that stands behind it in brackets.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/tree.sh"
cd "${1:-.}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

sources > "$tmp/sources"
tree -name '*.md' | grep -v '^CHANGELOG' > "$tmp/pages" || true
cat "$tmp/sources" "$tmp/pages" > "$tmp/all"

say "$(xargs -r grep -HnE '(^|[^A-Za-z0-9_])Of( |$)' < "$tmp/all" | cut -d : -f 1,2 | sed 's/$/: a sentence begins with "Of"; put its subject first/')"

# "`old word`" of the table's last column, one a line
sed -n '/^## One word for one idea/,/^## [^O]/p' "$here/../../docs/conventions.md" | sed -n 's/^|.*| \(`.*\) |$/\1/p' |
    tr '`' '\n' | grep '[a-z]' > "$tmp/out"
[ "$(wc -l < "$tmp/out")" -ge 8 ] || { echo 'words.sh: found no table in docs/conventions.md'; exit 1; }
say "$(grep -v '^docs/conventions.md$' "$tmp/all" | xargs -r grep -HniF -f "$tmp/out" | cut -d : -f 1,2 |
    sed 's/$/: a word that the table of docs\/conventions.md has another for/')"

xargs -r grep -hoE '^[a-z][a-z].*' < "$tmp/sources" | grep -oE '[a-z][a-z0-9_]*\(' | tr -d '(' | sort -u > "$tmp/functions"
while read -r page; do
    tr '\n' ' ' < "$page" | grep -oE '`[a-z][a-z0-9_]*\(\)`( \(`[^ `]+\.[ch]`\))?' | tr -d '`()' | sort -u |
        while read -r name file; do
            grep -qx "$name" "$tmp/functions" || echo "$page: there is no function $name()"
            [ -z "$file" ] || grep -qE "^[a-z].*[ *]$name\(" "$file" || echo "$page: $name() is not in $file"
        done
done < "$tmp/pages" > "$tmp/gone"
say "$(cat "$tmp/gone")"
exit $fail
