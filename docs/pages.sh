#!/bin/sh
# Writes what the programs say about themselves: manual pages (man/*.1), the completion for bash (baton.bash), the
# description of the gateway's API (openapi.json). The same programs give the same bytes: no date, no host, no path.
#   pages.sh FOLDER     a new folder, or one that pages.sh made
set -eu
out=$(mkdir -p "${1:?a folder}/man" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
. docs/programs.sh
commands=$(cut -f 1 "$work/options" | sed -n 's/^baton //p' | awk '!seen[$0]++' | tr '\n' ' ')

# ---- manual pages, description of the API ----
rm -f "$out"/man/*.1
for p in $programs; do "$bin/$p" --print-man > "$out/man/$p.1"; done
for c in $commands; do "$bin/baton" "$c" --print-man > "$out/man/baton-$c.1"; done
"$bin/baton-gateway" --print-openapi > "$out/openapi.json"

# ---- completion ----
# One case for each program and command: its options; then the values of each option that has a known set, or models, files or
# folders. Models are the names of the built-in table, and files *.gguf; some commands take one as their first argument too.
known_models=$(BATON_MODEL_DIR=/none "$bin/baton" list --json | tr ',' '\n' | sed -n 's/.*"name": "\([^"]*\)".*/\1/p' | tr '\n' ' ')
known_models=${known_models% }
with_model=$(for c in $commands; do
    ! "$bin/baton" "$c" --help | head -n 1 | grep -q '| MODEL\]' || printf ' | "baton %s"' "$c"
done)
# shellcheck disable=SC2016
completion() {
    echo "# Completion of Baton's commands for bash. Written by docs/pages.sh from the option tables."
    echo '_baton_models()'
    echo '{'
    echo "    compgen -W '$known_models' -- \"\$1\""
    echo "    compgen -f -X '!*.gguf' -- \"\$1\""
    echo '    compgen -d -- "$1"'
    echo '}'
    echo '_baton()'
    echo '{'
    echo '    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} program=${1##*/} words='
    echo '    COMPREPLY=()'
    echo '    if [ "$cur" = = ]; then cur='
    echo '    elif [ "$prev" = = ]; then prev=${COMP_WORDS[COMP_CWORD - 2]}'
    echo '    fi'
    echo '    if [ "$program" = baton ]; then'
    echo '        if [ "$COMP_CWORD" = 1 ]; then'
    echo "            mapfile -t COMPREPLY < <(compgen -W '${commands}help --help --version' -- \"\$cur\")"
    echo '            return'
    echo '        fi'
    echo '        program="baton ${COMP_WORDS[1]}"'
    echo '    fi'
    echo '    case "$program $prev" in'
    awk -F '\t' '{
        names = "\"" $1 " --" $4 "\"" ($3 == "" ? "" : " | \"" $1 " -" $3 "\"")
        how = ""
        if ($10 != "") { gsub(",", " ", $10); how = "-W \"" $10 "\"" }
        else if ($5 == "FILE") how = "-f"
        else if ($5 == "DIR") how = "-d"
        else if ($5 == "MODEL") how = "models"
        else if ($6 != "flag") how = "none"
        if (how != "") { if (!(how in of)) order[++n] = how; of[how] = of[how] (of[how] == "" ? "" : " | \\\n    ") names }
    } END { for (i = 1; i <= n; i++) {
            printf "    %s)\n", of[order[i]]
            if (order[i] == "models") print "        mapfile -t COMPREPLY < <(_baton_models \"$cur\" | sort -u)"
            else if (order[i] != "none") printf "        mapfile -t COMPREPLY < <(compgen %s -- \"$cur\")\n", order[i]
            print "        return ;;"
        }
    }' "$work/options"
    echo '    esac'
    echo '    case $program in'
    awk -F '\t' '{
        if (!($1 in of)) order[++n] = $1
        of[$1] = of[$1] " --" $4 ($3 == "" ? "" : " -" $3)
    } END { for (i = 1; i <= n; i++) printf "    \"%s\") words=\"%s\" ;;\n", order[i], substr(of[order[i]], 2) }' "$work/options"
    echo '    esac'
    echo '    case $cur in'
    echo '    -*) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur"); return ;;'
    echo '    esac'
    echo '    case $program in'
    echo "    ${with_model# | }) mapfile -t COMPREPLY < <(_baton_models \"\$cur\" | sort -u) ;;"
    echo "    \"baton pull\" | \"baton rm\") mapfile -t COMPREPLY < <(compgen -W '$known_models' -- \"\$cur\") ;;"
    echo "    \"baton cache\") mapfile -t COMPREPLY < <(compgen -W 'list clear packages weights ids' -- \"\$cur\") ;;"
    echo '    *) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;'
    echo '    esac'
    echo '}'
    echo "complete -o filenames -F _baton $programs"
}
completion > "$out/baton.bash"
