#!/bin/sh
# Documents match what they describe: generated pages and sections are what the programs print now; files, links, make targets and
# options that a page names exist; the table of layers has the folders of common/; each kernel has its ladder; the fields of a device
# profile and each metric are explained.
# Programs are taken from $BATON_BIN or bin/.
set -eu
cd "${1:-.}"
bin=${BATON_BIN:-bin}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail=0
say() { [ -z "$1" ] || { echo "$1"; fail=1; }; }
pages=$(ls README.md CONTRIBUTING.md CHANGELOG.md docs/*.md proto/README.md common/*/README.md 2> /dev/null || true)

# ---- generated ----
if BATON_BIN=$bin sh docs/generate.sh "$tmp/new"; then
    (cd "$tmp/new" && find . -type f) | sed 's|^\./||' > "$tmp/made"
    say "$(while read -r f; do
        cmp -s "$f" "$tmp/new/$f" || echo "$f: not what the programs print now; run 'make docs'"
    done < "$tmp/made")"
    say "$(for f in docs/man/*; do
        [ ! -f "$f" ] || [ -f "$tmp/new/$f" ] || echo "$f: no program prints this page; remove it"
    done)"
else
    say 'docs/generate.sh: failed'
fi

# ---- files and links ----
# "page word" for each word with a slash that begins like a path of this tree; placeholders in capitals are left out.
words() {
    for page in $pages; do
        sed 's|[a-z]*://[^ )`]*||g' "$page" | tr -c 'A-Za-z0-9_./*<>{}\n-' '\n' | grep '/' |
            sed "s|[./]*\$||; s|^\./||; s|^|$page |"
    done | grep -vE '[<>{}]|/\.\.?(/|$)| \.\./|(NAME|STEM|LAYER|PROGRAM)' | sort -u
}
say "$(words | while read -r page word; do
    case $word in
    common/* | gateway/* | prefill-node/* | decode-node/* | programs/* | sim/* | tools/* | proto/* | deploy/* | tests/* | docs/* | .ci/*) ;;
    *.c | *.h) [ -d "common/${word%%/*}" ] || continue; word=common/$word ;;
    *) continue ;;
    esac
    found=0
    for f in $word; do [ ! -e "$f" ] || found=1; done
    [ $found = 1 ] || echo "$page: names $word, which does not exist"
done)"
say "$(for page in $pages; do
    grep -oE '\]\([^)#]+' "$page" | cut -c 3- | grep -vE '^[a-z]+:' | sort -u | while read -r link; do
        [ -e "$(dirname "$page")/$link" ] || echo "$page: a link to $link, which does not exist"
    done
done)"

# ---- make targets and options ----
# "page text" for each piece of code: lines of fenced blocks without their comments, and what stands between backquotes.
code() {
    for page in $pages; do
        awk -v page="$page" '
            /^```/ { fenced = !fenced; next }
            fenced { line = $0; sub(/(^| )#.*/, "", line); n = split(line, part, / *(&&|;|\|) */)
                     for (i = 1; i <= n; i++) if (part[i] != "") print page, part[i]; next }
            { n = split($0, part, "`"); for (i = 2; i <= n; i += 2) print page, part[i] }' "$page"
    done
}
code > "$tmp/code"
sed -n 's/^\([^ ]*\) *\(sudo \)\{0,1\}make /\1 /p' "$tmp/code" | while read -r page rest; do
    for word in $rest; do
        case $word in *[!a-z-]* | -*) continue ;; esac
        echo "$page $word"
    done
done | sort -u > "$tmp/targets"
say "$(while read -r page target; do
    grep -q "^$target:" Makefile || echo "$page: names 'make $target', which the Makefile does not have"
done < "$tmp/targets")"

for p in baton baton-gateway baton-prefill baton-decode; do "$bin/$p" --print-options; done | cut -f 4 | sort -u > "$tmp/options"
say "$(grep -vE '^[^ ]* *(sudo |systemctl|git|apt-get|pip|sh |-)' "$tmp/code" | grep -oE '^[^ ]*| --[a-z-]*[a-z]($|[ =])' |
    awk '/^[^ ]*\.md$/ { page = $0; next } { sub(/^ *--/, ""); sub(/[ =]$/, ""); print page, $0 }' | sort -u | while read -r page option; do
    grep -qx -e "$option" "$tmp/options" || echo "$page: names --$option, which no program has"
done)"

# ---- layers ----
# shellcheck disable=SC2016
sed -n '/^| layer of/,/^$/s/^| `\([a-z]*\)` |.*/\1/p' docs/architecture.md | sort > "$tmp/page.layers"
for d in common/*/; do basename "$d"; done | sort > "$tmp/tree.layers"
say "$(diff "$tmp/page.layers" "$tmp/tree.layers" | sed -n 's|^< \(.*\)|docs/architecture.md: a layer \1 that common/ does not have|p
    s|^> \(.*\)|docs/architecture.md: the table of layers lacks \1|p')"

# ---- fields of a device profile ----
{ printf 'name\ntitle\noperators\nsources\n'; sed -n 's/^    { "\([a-z0-9_]*\)", offsetof.*/\1/p' common/device/profile.c; } | sort > "$tmp/code.fields"
sed -n '/^## Fields/,/^## Operators/s/^| \(`[^|]*\) |.*/\1/p' docs/profiles.md | grep -o '[a-z0-9_]*' | sort > "$tmp/page.fields"
say "$(diff "$tmp/page.fields" "$tmp/code.fields" | sed -n 's|^< \(.*\)|docs/profiles.md: a field \1 that common/device/profile.c does not read|p
    s|^> \(.*\)|docs/profiles.md: the table of fields lacks \1|p')"

# ---- the ladder of every kernel ----
grep '^##* ' docs/performance.md | grep -o '`[a-z0-9_]*`' | tr -d '`' | sort > "$tmp/page.kernels"
sed -n '/^typedef struct bt_kernels {/,/^}/s/^ *bt_[a-z0-9_]*_fn *\*\([a-z0-9_]*\);.*/\1/p' common/kernels/kernels.h | sort > "$tmp/table.kernels"
say "$(comm -13 "$tmp/page.kernels" "$tmp/table.kernels" | sed 's|.*|docs/performance.md: no heading for the kernel &|')"
say "$(comm -23 "$tmp/page.kernels" "$tmp/table.kernels" | sed 's|.*|docs/performance.md: a heading for &, which is no kernel of the dispatch table|')"

# ---- metrics ----
sed '/^<!-- generated:/,/^<!-- end -->/d' docs/operations.md > "$tmp/operations"
say "$(sed -n 's/^X([A-Z_0-9]*, [A-Z]*, "\([a-z_0-9]*\)".*/\1/p' gateway/door/metrics_table.h | while read -r metric; do
    grep -q "\`$metric\`" "$tmp/operations" || echo "docs/operations.md: does not say what $metric means"
done)"
exit $fail
