#!/bin/sh
# Documents and comments match what they describe: generated sections are what the programs print now; files,
# links, programs, commands, make targets and options that they name exist; the table of layers has the folders of
# common/; each kernel has its ladder and its test; the fields of a device profile and each metric are explained.
# Programs are taken from $BATON_BIN or bin/.
set -eu
. "$(dirname "$0")/lib/tree.sh"
cd "${1:-.}"
bin=${BATON_BIN:-bin}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tree -name '*' > "$tmp/files"
: > "$tmp/not_one"
pages=$(grep '\.md$' "$tmp/files" || true)
# the NAME: the one file of that name
the() {
    grep -E "(^|/)$1\$" "$tmp/files" > "$tmp/the" || true
    if [ "$(wc -l < "$tmp/the")" = 1 ]; then cat "$tmp/the"
    else
        echo "docs.sh: $(wc -l < "$tmp/the") files are called $1, not one" >> "$tmp/not_one"
        echo /dev/null
    fi
}

# ---- generated ----
if BATON_BIN=$bin sh docs/generate.sh "$tmp/new"; then
    (cd "$tmp/new" && find . -type f) | sed 's|^\./||' > "$tmp/made"
    say "$(while read -r f; do
        cmp -s "$f" "$tmp/new/$f" || echo "$f: not what the programs print now; run 'make docs'"
    done < "$tmp/made")"
else
    say 'docs/generate.sh: failed'
fi

# ---- files and programs ----
# "page:line word" for each word of documents, and "file:line word" for each of a comment in a source or script. Words
# keep the signs that paths have; what stands in <> is the system's, what has :// another's, what has {} or <> or $ is a
# pattern.
words() {
    # shellcheck disable=SC2086
    [ -z "$pages" ] || awk '{ print FILENAME ":" FNR, $0 }' $pages
    sources | xargs -r awk '
        FNR == 1 { inside = 0 }
        !inside && !/\/[*\/]/ { next }
        {
            rest = $0; text = ""
            if (!inside) gsub(/"([^"\\]|\\.)*"/, "", rest)
            while (rest != "") {
                if (inside) {
                    at = index(rest, "*/")
                    text = text " " (at ? substr(rest, 1, at - 1) : rest)
                    rest = at ? substr(rest, at + 2) : ""
                    if (at) inside = 0
                } else if (match(rest, /\/[*\/]/)) {
                    if (substr(rest, RSTART, 2) == "//") { text = text " " substr(rest, RSTART + 2); rest = "" }
                    else { rest = substr(rest, RSTART + 2); inside = 1 }
                } else rest = ""
            }
            if (text != "") print FILENAME ":" FNR, text
        }'
    grep -E '\.(sh|mk)$|(^|/)Makefile$' "$tmp/files" |
        xargs -r awk '/(^|[ \t])#/ { sub(/^[^#]*#/, ""); print FILENAME ":" FNR, $0 }'
}
words | sed 's|[A-Za-z]*://[^ )`]*||g; s|<[a-z0-9_/.-]*\.h>||g' | awk '{
    place = $1; $1 = ""
    gsub(/[^A-Za-z0-9_.\/*{}<>$-]/, " ")
    n = split($0, word, " ")
    for (i = 1; i <= n; i++) {
        sub(/^\.\//, "", word[i]); sub(/[.\/-]*$/, "", word[i])
        if (word[i] ~ /[.\/_-]/ && word[i] !~ /[{}<>$]/) print place, word[i]
    }
}' > "$tmp/words"
for p in baton baton-gateway baton-prefill baton-decode; do "$bin/$p" --print-options; done > "$tmp/table"
cut -f 1 "$tmp/table" | sort -u > "$tmp/programs"

# A name matches a file that ends with it; * stands for anything but a slash. Left out: files of other projects
# (`others`), what the build makes, and names with a PLACEHOLDER in capitals.
say "$(awk '
    function folder(path) { return path ~ /\// ? substr(path, 1, match(path, /\/[^\/]*$/) - 1) : "" }
    FILENAME ~ /files$/ {
        there[$1] = 1; all = all "\n" $1 "\n"
        for (path = $1; path ~ /\//; ) { sub(/^[^\/]*\//, "", path); there[path] = 1 }
        for (path = folder($1); path != ""; path = folder(path)) {
            bare = path; sub(/^common\//, "", bare)
            there[path] = there[bare] = 1
        }
        stem = $1; sub(/.*\//, "", stem); sub(/\..*/, "", stem); stems[stem] = 1
        top = $1; sub(/^common\//, "", top); if (top ~ /\//) { sub(/\/.*/, "", top); tops[top] = 1 } tops["common"] = 1
        next
    }
    BEGIN {
        split("ggml-common.h ggml-quants.c docs/gguf.md gptq.py config.json tokenizer.json zmq.h", others, " ")
        for (i in others) there[others[i]] = 1
    }
    FILENAME ~ /programs$/ { program[$1] = 1; if ($2 != "") program[$1 "-" $2] = 1; next }
    function is_there(word,    pattern) {
        if (word in there) return 1
        if (word !~ /\*/) return 0
        pattern = word; gsub(/\./, "\\.", pattern); gsub(/\*/, "[^/\n]*", pattern)
        return all ~ ("[\n/]" pattern "[\n/]")
    }
    $2 ~ /[A-Z][A-Z]/ && $2 !~ /^(README|CHANGELOG|CONTRIBUTING|LICENSE)/ { next }
    {
        page = $1; sub(/:.*/, "", page)
        word = $2; sub(/^.*\.\.\//, "", word); sub(/^_/, "*_", word)
        is_page = page ~ /\.md$/
        top = word; sub(/\/.*/, "", top)
        if (word ~ /[A-Za-z0-9_*-]\.(c|h|sh|proto|json|py|md)$/ || (is_page && word ~ /\// && top in tops)) {
            if (word !~ /\.pb-c\.[ch]$|\.(html|txt|json)\.h$|^device\/profiles\.h$|(^|\/)openapi\.json$/ && !is_there(word))
                print $1 ": names " word ", which does not exist"
        } else if (is_page && word ~ /^(bench|test|fuzz)_[a-z0-9_*]+$/) {
            if (!(word in stems) && !is_there(word ".c")) print $1 ": names " word ", which is no program or test"
        } else if (is_page && word ~ /^baton-[a-z]+$/ && !(word in program))
            print $1 ": names " word ", which is no program"
    }' "$tmp/files" "$tmp/programs" "$tmp/words" | sort -u)"
say "$(for page in $pages; do
    grep -oE '\]\([^)#]+' "$page" | cut -c 3- | grep -vE '^[a-z]+:' | sort -u | while read -r link; do
        [ -e "$(dirname "$page")/$link" ] || echo "$page: a link to $link, which does not exist"
    done
done)"

# ---- commands, make targets and options ----
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
say "$(sed -n 's|^\([^ ]*\) *\(bin/\)\{0,1\}baton \([a-z][a-z-]*\).*|\1 \3|p' "$tmp/code" | sort -u |
    while read -r page command; do
        grep -qx "baton $command" "$tmp/programs" || [ "$command" = help ] ||
            echo "$page: names 'baton $command', which is no command"
    done)"
say "$(sed -n 's/^\([^ ]*\) *\(sudo \)\{0,1\}make /\1 /p' "$tmp/code" | while read -r page rest; do
    for word in $rest; do
        case $word in *[!a-z-]* | -*) continue ;; esac
        grep -qs "^$word:" Makefile tests/*.mk || echo "$page: names 'make $word', which the Makefile does not have"
    done
done | sort -u)"

cut -f 4 "$tmp/table" | sort -u > "$tmp/options"
say "$(grep -vE '^[^ ]* *(sudo |systemctl|git|apt-get|pip|sh |-)' "$tmp/code" | grep -oE '^[^ ]*| --[a-z-]*[a-z]($|[ =])' |
    awk '/^[^ ]*\.md$/ { page = $0; next } { sub(/^ *--/, ""); sub(/[ =]$/, ""); print page, $0 }' | sort -u |
    while read -r page option; do
        grep -qx -e "$option" "$tmp/options" || echo "$page: names --$option, which no program has"
    done)"

# ---- layers ----
# A row for each folder of common/; where that has folders of its own, its row names them.
page=docs/architecture.md
# shellcheck disable=SC2016
sed -n '/^| layer of/,/^$/s/^| `\([a-z]*\)` |\(.*\)/\1 \2/p' "$page" > "$tmp/rows"
say "$(programs | sed -n 's|^common/\(.*\)/[^/]*$|\1|p' | sort -u | awk '
    NR == FNR { row[$1] = $0; next }
    { top = $1; sub(/\/.*/, "", top); there[top] = 1; sub(/.*\//, "") }
    !(top in row) { print "docs/architecture.md: the table of layers lacks " top; next }
    $1 != top && !index(row[top], "`" $1 "`") { print "docs/architecture.md: the row of " top " does not name `" $1 "`" }
    END { for (top in row) if (!(top in there)) print "docs/architecture.md: a layer " top " that common/ does not have" }
    ' "$tmp/rows" - | sort -u)"

# ---- fields of a device profile ----
{ printf 'name\ntitle\noperators\nsources\n'; sed -n 's/^ *{ *"\([a-z0-9_]*\)", offsetof.*/\1/p' "$(the profile.c)"
    # the object `time` has a table of its own
    grep -E '(^|/)profile_time\.c$' "$tmp/files" | while read -r f; do
        printf 'time\nstacks\n'
        sed -n 's/^ *{ *"\([a-z0-9_]*\)", offsetof.*/\1/p' "$f"
    done
    # and `calibration` in it
    grep -E '(^|/)device/calibration\.c$' "$tmp/files" | while read -r f; do
        sed -n '/member_names\[MEMBERS\] = {/,/};/p' "$f" | grep -o '"[a-z]*"' | tr -d '"'
    done; } | sort > "$tmp/code.fields"
sed -n '/^## Fields/,/^## Operators/s/^| \(`[^|]*\) |.*/\1/p' docs/profiles.md | grep -o '[a-z0-9_]*' | sort > "$tmp/page.fields"
say "$(comm -23 "$tmp/page.fields" "$tmp/code.fields" | sed 's|.*|docs/profiles.md: a field & that no profile has|')"
say "$(comm -13 "$tmp/page.fields" "$tmp/code.fields" | sed 's|.*|docs/profiles.md: the table of fields lacks &|')"

# ---- the ladder and the test of every kernel ----
grep '^##* ' docs/performance.md | grep -o '`[a-z0-9_]*`' | tr -d '`' | sort > "$tmp/page.kernels"
sed -n 's/^ *KERNEL(\([a-z0-9_]*\), .*/\1/p' "$(the kernels.h)" | sort > "$tmp/table.kernels"
say "$(comm -13 "$tmp/page.kernels" "$tmp/table.kernels" | sed 's|.*|docs/performance.md: no heading for the kernel &|')"
say "$(comm -23 "$tmp/page.kernels" "$tmp/table.kernels" |
    sed 's|.*|docs/performance.md: a heading for &, which is no kernel of the list|')"
say "$(while read -r kernel; do
    grep -rqE "(->|\.)$kernel\(" tests/unit/kernels ||
        echo "common/kernels/kernels.h: no test of tests/unit/kernels calls the kernel $kernel"
done < "$tmp/table.kernels")"

# ---- metrics ----
sed '/^<!-- generated:/,/^<!-- end -->/d' docs/operations.md > "$tmp/operations"
sed -n 's/^X([A-Z_0-9]*, [A-Z]*, "\([a-z_0-9]*\)".*/\1/p' "$(the metrics_table.h)" > "$tmp/metrics"
[ -s "$tmp/metrics" ] || say 'docs.sh: the table of metrics was not found'
say "$(while read -r metric; do
    grep -q "\`$metric\`" "$tmp/operations" || echo "docs/operations.md: does not say what $metric means"
done < "$tmp/metrics")"
say "$(cat "$tmp/not_one")"
exit $fail
