#!/bin/sh
# Options of the programs of a cluster against those of `baton simulate`: each is there under its name too, or docs/simulate.md
# says under "What it leaves out" why not. Nothing stands there that is in both, or in none. Programs are taken from
# $BATON_BIN or bin/.
# One list: an option is typed in one row, which others use by name (base/opt.h). A name that stands in more rows has to be
# in the table below, which says why its rows mean different things.
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

twice='
api-key-file : the keys that a gateway accepts; the key that a client shows
batch        : a list of a bench; the most requests at a time of baton calibrate
colocated    : all nodes of a simulation; one more choice of baton plan
decode       : nodes to start; devices of a cluster; a device
gateways     : keys to make; gateways of a simulation
output       : a file; the form of what baton bench prints
prefill      : nodes to start; devices of a cluster; a device
requests     : how many to draw; whose they are
special      : a flag of baton tokenize, which takes none without it; on or off of baton run
timeout      : the life of a request in a gateway; the patience of a client
'
# name TAB file of each row that states its type and is no use of another: a file in one line, then a row a line.
programs | while read -r f; do
    grep -v '^ \*' "$f" | tr '\n' ' ' | sed 's/{[ \\]*\./\n{./g' | grep -v '\.of = ' |
        sed -n "s#^{.*\.name = \"\([a-z0-9-]*\)\".*\.type = BT_OPT_.*#\1\t$f#p"
done | sort > "$tmp/typed"
printf '%s\n' "$twice" | sed -n 's/^\([a-z-]*\)  *: .*/\1/p' | sort > "$tmp/twice"
cut -f 1 "$tmp/typed" | uniq -d > "$tmp/repeated"
say "$(comm -23 "$tmp/repeated" "$tmp/twice" | while read -r n; do
    echo "$(awk -F '\t' -v n="$n" '$1 == n { print $2 }' "$tmp/typed" | uniq | paste -sd ' '): --$n is typed more than once: use one row by name"
done)"
say "$(comm -13 "$tmp/repeated" "$tmp/twice" | sed 's#.*#tests/lint/options.sh: --& is said to have rows of different meanings, and has one or none#')"
exit $fail
