#!/bin/sh
# All that an engine is, can and needs stands in its table. Outside common/engine nobody sees a table, compares an
# engine with a name, or has a word BT_ENGINE_ but for defaults and what option tables share.
set -eu
. "$(dirname "$0")/lib/tree.sh"
cd "${1:-.}"
others() { programs | grep -v '^common/engine/'; }
words='DEFAULT_[A-Z]+|BATCH_ROWS(_TEXT)?|ARENAS|ISA_NAMES|CORE_NAMES|(SCHEDULE_)?OPT|PROMPTS_HELP'

names=$(tree -path './common/engine/*.c' | xargs -r sed -n 's/.*\.facts = {\.name = "\([a-z0-9-]*\)".*/\1/p' | sort -u | paste -sd '|')
[ -n "$names" ] || say "common/engine: no table with a name in facts"
say "$(others | xargs -r grep -noHE '\bBT_ENGINE_[A-Z_]+' | grep -vE ":BT_ENGINE_($words)\$" |
    sed 's/^\([^:]*:[0-9]*\):\(.*\)/\1: \2 is no default; ask the table (engine\/names.h)/')"
say "$(others | xargs -r grep -nHE '"engine/(prefill|decode)_backend\.h"' |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: tables of engines are seen in common\/engine only; ask engine\/names.h/')"
[ -z "$names" ] || say "$(others | xargs -r grep -nHE "((engine|prefill|decode)[^\"]*str(n|case)?cmp|str(n|case)?cmp *\([^\"]*(engine|prefill|decode)|\.(engine|prefill|decode) *= *)[^\"]*\"($names)\"" |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: an engine by its name; ask the table (engine\/names.h)/')"
exit $fail
