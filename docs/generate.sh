#!/bin/sh
# Writes the sections of documents between <!-- generated:NAME --> and <!-- end --> from what the programs say about
# themselves. The same sources give the same bytes: no date, no host, no path.
#   generate.sh [FOLDER]     into the tree, or into FOLDER (for tests/lint/docs.sh, which compares)
set -eu
cd "$(dirname "$0")/.."
out=${1:-.}
. docs/programs.sh

# Each line of stdin as an item of a list, at most 120 columns wide. Words behind a backquote stay on its line.
items() {
    awk '{
        n = split($0, part, "`"); text = ""
        for (i = 1; i <= n; i++) { if (i % 2 == 0) gsub(/ /, "\001", part[i]); text = text (i > 1 ? "`" : "") part[i] }
        n = split(text, word, / +/); line = "- " word[1]
        for (i = 2; i <= n; i++) {
            if (length(line) + 1 + length(word[i]) > 120) { print line; line = " " }
            line = line " " word[i]
        }
        print line
    }' | tr '\001' ' '
}

# Options of one program or command: name and value, default and range, what it does.
options_of() {
    awk -F '\t' -v program="$1" '
        function shown(n, type) {
            if (n >= 9e18) return ""
            if (type == "duration") return n >= 1000 ? n / 1000 "s" : n
            if (type != "size" || n < 1024) return n
            return n >= 1073741824 ? n / 1073741824 "G" : n >= 1048576 ? n / 1048576 "M" : n / 1024 "K"
        }
        $1 == program && $2 != "General" {
            range = $10
            gsub(",", ", ", range)
            if ($8 != "" || $9 != "") {
                lo = shown($8 + 0, $6)
                hi = shown($9 + 0, $6)
                range = hi == "" ? "from " lo : lo " to " hi
            }
            limits = $7 == "" ? range : "default `" $7 "`" (range == "" ? "" : "; " range)
            printf "`%s--%s%s`%s: %s\n", $3 == "" ? "" : "-" $3 ", ", $4, $5 == "" ? "" : " " $5,
                   limits == "" ? "" : " (" limits ")", $12
        }' "$work/options" | items
}

# The gateway's metrics, with the values of their labels. A row or an array of the code may take several lines.
metrics() {
    find gateway -name metrics.c -exec cat {} + | tr -s '\n ' ' ' | grep -oE 'const [a-z]+\[\] = \{[^}]*NULL *\};' |
        sed 's/^const \([a-z]*\)\[\] = { *\(.*\), *NULL *};$/\1 \2/' > "$work/labels"
    find gateway -name metrics_table.h -exec cat {} + | awk '/^X\(/ && NR > 1 { print "" } !/^#/ { printf "%s ", $0 }' |
        sed -n 's/  */ /g; s/" "//g; s/^X( *\(.*\)) *$/\1/p' | awk -v labels="$work/labels" '
        BEGIN {
            while ((getline line < labels) > 0) {
                name = line; sub(/ .*/, "", name); sub(/^[a-z]* /, "", line); gsub(/"/, "", line)
                if (line !~ /[A-Z]/) value[name] = line
            }
        }
        function label(name, values) {
            gsub(/"/, "", name)
            return name == "NULL" ? "" : "; `" name "`" (values in value ? ": " value[values] : "")
        }
        {
            help = $0; sub(/"$/, "", help); sub(/.*, "/, "", help)
            split($0, f, ", *")
            gsub(/"/, "", f[3])
            printf "`%s` (%s%s%s): %s\n", f[3], tolower(f[2]), label(f[4], f[5]), label(f[6], f[7]), help
        }' | items
}

# Every environment name, once, with the commands and the daemons that read it.
environment() {
    echo '| name | commands of `baton` | daemons |'
    echo '|---|---|---|'
    awk -F '\t' '$11 != "" {
            who = $1; list = sub(/^baton /, "", who) ? "command" : "daemon"
            sub(/^baton-/, "", who); names[$11] = 1
            if (list == "command" && !(who in known)) { known[who] = 1; all[++count] = who }
            has[$11, who] = 1
            of[list, $11] = of[list, $11] (of[list, $11] == "" ? "" : ", ") who
        }
        # what nearly every command reads is said by those that do not, where they are fewer
        function commands(n,   i, but) {
            for (i = 1; i <= count; i++) if (!((n, all[i]) in has)) but = but (but == "" ? "" : ", ") all[i]
            but = "all" (but == "" ? "" : " but " but)
            return length(but) < length(of["command", n]) ? but : of["command", n]
        }
        function daemons(n,   who) { who = of["daemon", n]; sub(/prefill, decode/, "nodes", who); return who }
        # a row that is too wide becomes two
        function row(n,   list, more) {
            list = commands(n)
            if (length("| `" n "` | " list " | " daemons(n) " |") > 120) {
                while (length(more) < length(list)) {
                    match(list, /[^ ]*$/)
                    more = substr(list, RSTART) (more == "" ? "" : " ") more
                    list = substr(list, 1, RSTART - 2)
                }
                return "| `" n "` | " list " | " daemons(n) " |@|  | " more " |  |"
            }
            return "| `" n "` | " list " | " daemons(n) " |"
        }
        END { for (n in names) print row(n) }' "$work/options" | sort | tr '@' '\n'
}

section() {
    case $1 in
    options:*) options_of "$(echo "${1#options:}" | tr : ' ')" ;;
    metrics) metrics ;;
    environment) environment ;;
    *) echo "docs/generate.sh: no section is called '$1'" >&2; exit 1 ;;
    esac
}

for page in README.md docs/*.md; do
    grep -q '^<!-- generated:' "$page" || continue
    # shellcheck disable=SC2013
    for name in $(sed -n 's/^<!-- generated:\([a-z:-]*\) -->$/\1/p' "$page"); do
        section "$name" > "$work/section.$name"
    done
    awk -v work="$work" '
        /^<!-- generated:[a-z:-]* -->$/ {
            print; name = $2; sub(/^generated:/, "", name)
            while ((getline line < (work "/section." name)) > 0) print line
            inside = 1
        }
        /^<!-- end -->$/ { inside = 0 }
        !inside { if ($0 !~ /^<!-- generated:/) print }
        END { exit inside }' "$page" > "$work/page" || { echo "$page: a generated section without <!-- end -->" >&2; exit 1; }
    mkdir -p "$(dirname "$out/$page")"
    cmp -s "$work/page" "$out/$page" || cp "$work/page" "$out/$page"
done
