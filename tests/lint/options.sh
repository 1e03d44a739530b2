#!/bin/sh
# Options of the programs of a cluster against those of `baton simulate`: each is there under its name too, or docs/simulate.md
# says under "What it leaves out" why not. Nothing stands there that is in both, or in none. Programs are taken from
# $BATON_BIN or bin/.
set -eu
. "$(dirname "$0")/lib/tree.sh"
cd "${1:-.}"
bin=${BATON_BIN:-bin}
page=docs/simulate.md
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

names() { "$@" --print-options | cut -f 4 | grep -vxE 'help|version|print-.*'; }
for p in baton-gateway baton-prefill baton-decode; do names "$bin/$p"; done > "$tmp/real"
for c in up replay; do names "$bin/baton" $c; done >> "$tmp/real"
sort -u "$tmp/real" -o "$tmp/real"
names "$bin/baton" simulate | sort -u > "$tmp/simulated"
comm -23 "$tmp/real" "$tmp/simulated" > "$tmp/missing"

# "- `one`, `two`: why" of that section, up to its first line that is no part of the list.
sed -n '/^## What it leaves out/,/^`--timeout`/p' "$page" | awk '/^- / { head = $0; sub(/:.*/, "", head); print head }' |
    grep -o '`[^`]*`' | tr -d '`' | sort > "$tmp/excused"
[ -s "$tmp/excused" ] || say "$page: the list of options that are left out was not found"
say "$(uniq -d "$tmp/excused" | sed "s#^#$page: twice among what is left out: #")"
say "$(comm -23 "$tmp/missing" "$tmp/excused" | sed "s#.*#$page: --& is an option of a real program, not of baton simulate, and nothing says why#")"
say "$(sort -u "$tmp/excused" | comm -13 "$tmp/missing" - | sed "s#.*#$page: --& is said to be left out, and is in baton simulate or in no program#")"
exit $fail
