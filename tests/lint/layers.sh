#!/bin/sh
# Includes point down only. One line for each folder: what it may include besides itself, all of it from lines above;
# anything else fails, and so does a source file in a folder without a line. Libraries have one home each: the second table. The tests may include
# everything; unit tests lie in folders named as what they test.
set -eu
. "$(dirname "$0")/lib/tree.sh"
cd "${1:-.}"

rules='
common/base        :
common/crypto      : base
common/rt          : base crypto
common/kernels     : base
common/kernels/float     : base kernels
common/kernels/attention : base kernels
common/kernels/integer   : base kernels
common/text/jinja  : base
common/grammar     : base
common/text        : base text/jinja
common/text/calls  : base text
common/model       : base kernels text
common/graph       : base kernels model
common/device      : base kernels graph
common/npu/pkg     : base kernels model graph
common/npu/quant   : base kernels model graph npu/pkg
common/npu/lower   : base kernels model graph device npu/pkg
common/npu/price   : base device npu/pkg npu/lower
common/npu/compile : base kernels text model graph device npu/pkg npu/quant npu/lower
common/npu/run     : base kernels model graph device npu/pkg
common/ref         : base kernels model
common/sample      : base kernels text grammar
common/kv          : base kernels
common/wire        : base sample kv
common/trace       : base crypto
common/engine      : base kernels model graph device npu/pkg npu/lower npu/price npu/compile npu/run ref kv
common/xfer        : base kernels kv wire
common/node        : base crypto rt kernels text model device sample kv wire xfer
gateway/brain      : base wire xfer
gateway/http       : base crypto rt model node
gateway            : base crypto model node gateway/http
gateway/api        : base grammar text text/calls model device sample wire gateway gateway/http
gateway/door       : base crypto rt text model wire trace node gateway gateway/brain gateway/http gateway/api
gateway/shell      : base crypto rt model trace gateway gateway/brain gateway/http gateway/api gateway/door
prefill-node/brain : base kv wire xfer
prefill-node       : base rt kernels model device npu/price npu/compile sample kv wire engine node prefill-node/brain
decode-node/brain  : base kv wire xfer
decode-node        : base rt kernels model device npu/compile sample kv wire engine node decode-node/brain
simulate           : base kernels device npu/pkg kv wire xfer gateway/brain prefill-node/brain decode-node/brain
lab/page           :
lab/plan           : base model device npu/pkg npu/lower npu/price npu/compile lab/page
lab/timeline       : base device npu/price lab/page
tools              : base kernels text model device npu/pkg npu/lower kv
tools/bench        : base kernels model graph kv engine tools
tools/search       : base text model sample npu/pkg npu/price npu/compile engine tools lab/plan
tools/pull         : base crypto model tools
tools/cluster      : base crypto rt model kv device npu/compile engine tools tools/search tools/pull
tools/chat         : base text tools tools/cluster
tools/commands     : base crypto model graph device npu/pkg npu/lower npu/compile sample kv engine tools tools/search tools/bench tools/cluster tools/chat tools/pull lab/timeline gateway gateway/http
lab/trace          : base crypto text model trace tools
lab/replay         : base text device trace tools tools/cluster lab/page
lab/calibrate      : base device trace lab/replay
lab/simulate       : base device npu/pkg npu/price trace lab/page lab/trace lab/plan lab/replay simulate
lab/commands       : base device npu/pkg npu/price npu/compile model kv engine trace tools tools/cluster lab/trace lab/plan lab/replay lab/calibrate lab/simulate lab/timeline gateway
programs           : base rt kernels wire engine node gateway gateway/api gateway/shell prefill-node decode-node tools
'

# header, then where it may be included, as extended regular expressions. The last lines: a room with doors is entered by them alone.
homes='
zmq\.h          common/rt/|common/crypto/keys\.c$
sodium.*\.h     common/crypto/
microhttpd\.h   gateway/http/
gnutls/.*\.h    gateway/http/
curl/curl\.h    tools/(cluster|pull)/|lab/replay/
histedit\.h     tools/chat/
pcre2\.h        common/text/
utf8proc\.h     common/text/
xxhash\.h       common/base/
engine/(chunks|limits|[a-z]+_backend)\.h common/engine/
engine/host_shapes\.h common/engine/|tools/commands/cmd_inspect\.c$
'

say "$(strangers | sed 's|$|: neither *.c nor *.h, so no check would read it|')"
# The tables, every source file, every include: one awk over all.
say "$({
    printf '%s\n' "$rules" | sed -n 's/^\([a-z].*[^ ]\) *:/rule \1/p'
    printf '%s\n' "$homes" | sed -n 's/^[a-z]/only &/p'
    sources | sed 's/^/file /'
    programs | xargs -r grep -H '^ *# *include *["<]' | sed 's/^\([^:]*\): *# *include *\(["<][^">]*\).*/include \1 \2/'
} | awk '
    function folder(path) { return path ~ /\// ? substr(path, 1, match(path, /\/[^\/]*$/) - 1) : "." }
    function named(dir) { sub(/^common\//, "", dir); return dir }
    $1 == "rule" {
        place[++rules] = $2
        line[$2] = " " named($2) " "
        known[named($2)] = 1
        for (i = 3; i <= NF; i++) {
            line[$2] = line[$2] $i " "
            if (!($i in known)) print "tests/lint/layers.sh: the line of " $2 " names " $i ", which has no line above it"
        }
    }
    $1 == "only" { header[++homes] = "^" $2 "$"; where[homes] = "^(" $3 ")" }
    $1 == "file" {
        dir = folder($2)
        there[dir] = 1
        if (dir ~ /^tests\/unit/) units[dir] = $2
        else if (!(dir in line) && dir !~ /^tests\//)
            print $2 ": no line of tests/lint/layers.sh says what " (dir == "." ? "this folder" : dir "/") " may include"
    }
    $1 == "include" {
        dir = folder($2)
        inc = substr($3, 2)
        if ($3 ~ /^</) {
            sub(/^common\//, "", inc)
            if (inc ~ /\// && folder(inc) in known) print $2 ": write \"" inc "\", it is ours"
            for (i = 1; i <= homes; i++)
                if (inc ~ header[i] && $2 !~ where[i]) print $2 ": must not include <" inc ">"
            next
        }
        for (i = 1; i <= homes; i++)
            if (inc ~ header[i] && $2 !~ where[i]) print $2 ": must not include " inc
        if (inc !~ /\.h$/) print $2 ": includes " inc "; what is included is a header, *.h"
        if (inc ~ /\.pb-c\.h$/) {
            if (dir != "common/wire") print $2 ": only common/wire sees protobuf types (" inc ")"
        } else if (inc !~ /\//) print $2 ": write the folder too: \"" inc "\""
        else if (dir in line && !index(line[dir], " " folder(inc) " ")) print $2 ": " dir " must not include " inc
    }
    END {
        for (i = 1; i <= rules; i++)
            if (!(place[i] in there)) print "tests/lint/layers.sh: a line for " place[i] ", which has no source file"
        for (dir in units) {
            room = substr(dir, 12)
            if (!(room in known) && !("tests/" room in there))
                print units[dir] ": there is no folder " room " that it could test"
        }
    }' | sort)"

say "$(programs | xargs -r grep -nHE '(^|[^a-z_])(clock_gettime|gettimeofday|clock|time) *\((NULL|&|CLOCK|0|\))' |
    grep -vE '^common/base/clock\.c:|^[^:]*:[0-9]+: *(/\*|\*|//)' |
    sed 's|^\([^:]*:[0-9]*\):.*|\1: only common/base/clock.c reads a clock|')"
exit $fail
