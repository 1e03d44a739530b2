#!/bin/sh
# One form of code: what clang-format 14 makes of it by .clang-format, with 110 columns in sources and 120 in headers,
# which are prototypes and tables.
#   format.sh FOLDER            say which files have another form
#   format.sh FOLDER --write    give it to them (make format)
# One thing is arranged around clang-format: where an initialiser begins with the name of a field, it would put each field on
# a line of its own. The first name is hidden from it, {$a = 1, .b = 2}, so that such a list fills its lines as others do.
set -eu
. "$(dirname "$0")/lib/tree.sh"
cd "${1:-.}"
format=
for f in clang-format-14 clang-format; do
    [ -n "$format" ] || ! "$f" --version 2> /dev/null | grep -q 'version 14\.' || format=$f
done
[ -n "$format" ] || { echo "format.sh: no clang-format of version 14 here; 'make deps' installs it (Debian's clang-format-14)"; exit 1; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

mkdir "$tmp/new"
cp .clang-format "$tmp/c"
sed 's/^ColumnLimit: 110$/ColumnLimit: 120/' .clang-format > "$tmp/h"
sources > "$tmp/all"
tar cf - -T "$tmp/all" | tar xf - -C "$tmp/new"
(
    cd "$tmp/new"
    xargs -r sed -i -e 's/{\( *\)\.\([a-z]\)/{\1$\2/g' -e '/{$/{$!N' -e 's/{\(\n *\)\.\([a-z]\)/{\1$\2/' -e 'P;D' -e '}' \
        < "$tmp/all"
    for kind in c h; do
        grep "\.$kind\$" "$tmp/all" | xargs -r -P "$(nproc)" -n 32 "$format" -i --style="file:$tmp/$kind"
    done
    xargs -r sed -i 's/{\( *\)\$\([a-z]\)/{\1.\2/g; s/^\( *\)\$\([a-z]\)/\1.\2/' < "$tmp/all"
    xargs -r cksum < "$tmp/all"
) > "$tmp/sums.new"
xargs -r cksum < "$tmp/all" > "$tmp/sums"
diff "$tmp/sums" "$tmp/sums.new" | sed -n 's/^< [0-9]* [0-9]* //p' > "$tmp/changed" || true

if [ "${2:-}" = --write ]; then
    while read -r f; do cat "$tmp/new/$f" > "$f"; done < "$tmp/changed"
    echo "formatted $(wc -l < "$tmp/changed") of $(wc -l < "$tmp/all") files"
else
    say "$(while read -r f; do
        line=$(cmp "$f" "$tmp/new/$f" | sed 's/.* //')
        echo "$f:$line: not as clang-format writes it; run 'make format'"
    done < "$tmp/changed")"
fi
exit $fail
