#!/bin/sh
# Includes point down only. One line for each folder: what it may include besides itself; anything else fails, a folder
# without a line too. Libraries with one home are checked below the table. The tests may include everything.
set -eu
cd "${1:-.}"
fail=0
say() { echo "$1"; fail=1; }

rules='
common/base        :
common/crypto      : base
common/rt          : base crypto
common/kernels     :
common/text        : base
common/model       : base kernels text
common/graph       : base kernels model
common/device      : base graph
common/npu/pkg     : base kernels model
common/npu/compile : base kernels text model graph device npu/pkg
common/npu/run     : base kernels model graph npu/pkg
common/ref         : base kernels model
common/sample      : base kernels
common/kv          : base kernels
common/wire        : base sample kv
common/engine      : base kernels model graph device npu/pkg npu/compile npu/run ref kv
common/xfer        : base kernels kv wire
common/node        : base crypto rt kernels model device kv wire xfer
gateway/brain      : base wire xfer
gateway/http       : base crypto rt node
gateway/door       : base rt text model sample wire node gateway/brain gateway/http
gateway/shell      : base rt model gateway/brain gateway/http gateway/door
prefill-node/brain : base kv wire xfer
prefill-node       : base kernels npu/compile sample kv wire engine node prefill-node/brain
decode-node/brain  : base kv wire xfer
decode-node        : base kernels model npu/compile sample kv wire engine node decode-node/brain
programs           : base rt gateway/http gateway/shell prefill-node decode-node tools
sim                : base kv wire gateway/brain prefill-node/brain decode-node/brain
tools              : base text model npu/pkg npu/compile kv
tools/bench        : base kernels model graph kv engine tools
tools/cluster      : base rt model kv npu/compile engine tools
tools/commands     : base crypto model graph device npu/pkg npu/compile sample kv engine tools tools/bench tools/cluster gateway/http
'

# "file:folder of the included header" for every quoted include below the folders given
includes() {
    find "$@" -name '*.[ch]' -exec grep -H '^ *# *include "' {} + 2> /dev/null |
        sed -n 's|^\([^:]*\):[^"]*"\([^"]*\)".*|\1 \2|p'
}

for top in $(find common gateway prefill-node decode-node programs sim tools -name '*.[ch]' 2> /dev/null | sed 's|/[^/]*$||' | sort -u); do
    line=$(echo "$rules" | sed -n "s|^$top *:||p")
    if ! echo "$rules" | grep -q "^$top *:"; then say "$top: no line in tests/lint/layers.sh says what it may include"; continue; fi
    own=${top#common/}
    bad=$(includes "$top"/*.[ch] | while read -r file inc; do
        case $inc in
        *.pb-c.h) [ "$top" = common/wire ] || echo "$file: only common/wire sees protobuf types ($inc)"; continue ;;
        */*) dir=${inc%/*} ;;
        *) echo "$file: write the folder too: \"$inc\""; continue ;;
        esac
        case " $own $line " in *" $dir "*) ;; *) echo "$file: $top must not include $inc" ;; esac
    done)
    [ -z "$bad" ] || say "$bad"
done

# header, then where it may be included, as an extended regular expression over paths
while read -r header where; do
    bad=$(grep -rlE --include='*.[ch]' "^ *# *include <$header>" common gateway prefill-node decode-node programs sim tools 2> /dev/null |
        grep -vE "^($where)" | sed "s|\$|: must not include <$header>|" || true)
    [ -z "$bad" ] || say "$bad"
done << 'HOMES'
zmq\.h          common/rt/|common/crypto/keys\.c$
sodium.*\.h     common/crypto/
microhttpd\.h   gateway/http/
curl/curl\.h    tools/
pcre2\.h        common/text/
utf8proc\.h     common/text/
xxhash\.h       common/base/
HOMES

bad=$(grep -rnE --include='*.[ch]' '(^|[^a-z_])(clock_gettime|gettimeofday|clock|time) *\(' common gateway prefill-node decode-node programs sim tools 2> /dev/null |
    grep -vE '^common/base/clock\.c:|^[^:]*:[0-9]+: *(/\*|\*|//)' | grep -E '[^a-z_](clock_gettime|gettimeofday|clock|time) *\((NULL|&|CLOCK|0|\))' |
    sed 's|^\([^:]*:[0-9]*\):.*|\1: only common/base/clock.c reads a clock|' || true)
[ -z "$bad" ] || say "$bad"
exit $fail
