#!/bin/sh
# Every rule is shown to fail on a small tree that breaks it, and to pass on one that does not.
# shellcheck disable=SC2016
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
passed=0 failed=0

clean_tree() {
    rm -rf "$work/t"
    mkdir -p "$work/t/common/base" "$work/t/common/rt" "$work/t/common/xfer" "$work/t/gateway/brain" "$work/t/gateway/door" "$work/t/gateway/shell" "$work/t/decode-node/engine" "$work/t/decode-node/brain"
    printf '#ifndef BT_BASE_A_H\n#define BT_BASE_A_H\n#endif\n' > "$work/t/common/base/a.h"
    printf '#ifndef BT_RT_R_H\n#define BT_RT_R_H\n#endif\n' > "$work/t/common/rt/r.h"
    printf '/* R. */\n#include "rt/r.h"\n#include "base/a.h"\n\n#include <zmq.h>\n' > "$work/t/common/rt/r.c"
    printf '/* Door. */\n#include "rt/r.h"\n' > "$work/t/gateway/door/door.c"
    printf '/* Brain. */\n#include "base/a.h"\n' > "$work/t/gateway/brain/brain.c"
}

# expect 0|1 NAME CHECK: what the check should return on the tree as it is now
expect() {
    got=0
    out=$(sh "$here/$3.sh" "$work/t" 2>&1) || got=1
    if [ $got = "$1" ] && { [ $got = 0 ] || [ -n "$out" ]; }; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "self_test: $3 should have returned $1: $2"; echo "$out"; fi
}

# broken CHECK NAME FILE TEXT: the text added to the file of a clean tree must make the check fail
broken() {
    clean_tree
    mkdir -p "$(dirname "$work/t/$3")"
    printf '%b' "$4" >> "$work/t/$3"
    expect 1 "$2" "$1"
}

for check in layers brains sizes text; do clean_tree; expect 0 'a clean tree' $check; done

broken layers 'base includes rt'                  common/base/x.c '#include "rt/r.h"\n'
broken layers 'a program includes another'        gateway/door/x.c '#include "decode-node/node.h"\n'
broken layers 'an engine includes its node'       decode-node/engine/x.c '#include "decode-node/node.h"\n'
broken layers 'a folder nobody declared'          common/extra/x.c 'int x;\n'
broken layers 'an include without its folder'     common/base/x.c '#include "a.h"\n'
broken layers 'protobuf types outside wire'       gateway/door/x.c '#include "control.pb-c.h"\n'
broken layers 'sodium outside crypto'             common/rt/x.c '#include <sodium.h>\n'
broken layers 'zmq in a program'                  gateway/door/x.c '#include <zmq.h>\n'
broken layers 'a second reader of the clock'      common/rt/x.c 'int f(void) { return clock_gettime(CLOCK_MONOTONIC, &t); }\n'
broken layers 'the time of day'                   gateway/door/x.c 'long f(void) { return time(NULL); }\n'
broken brains 'a brain that includes a socket'    gateway/brain/brain.c '#include "rt/r.h"\n'
broken brains 'a brain that includes a clock'     decode-node/brain/brain.c '#include "base/clock.h"\n'
broken brains 'a brain that includes threads'     gateway/brain/brain.c '#include <pthread.h>\n'
clean_tree
printf '#include "common/xfer/deep.h"\n#include "xfer/deep.h"\n' >> "$work/t/gateway/brain/brain.c"
printf '#include "rt/r.h"\n' > "$work/t/common/xfer/deep.h"
expect 1 'a brain that reaches a socket through a header' brains
broken sizes  'a file of 801 lines'               common/base/x.c "$(yes ';' | head -n 801 | sed 's/$/\\n/' | tr -d '\n')"
broken sizes  'a function of 81 lines'            common/base/x.c "void f(void)\\n{\\n$(yes ';' | head -n 79 | sed 's/$/\\n/' | tr -d '\n')}\\n"
clean_tree
{ echo '/* Long because it is a table. */'; echo 'void f(void)'; echo '{'; yes ';' | head -n 79; echo '}'; } > "$work/t/common/base/x.c"
expect 0 'a long function with its reason' sizes
broken text   'a tab'                             common/base/x.c '/* X. */ int\tx;\n'
broken text   'spaces at the end of a line'       common/base/x.c '/* X. */ int x; \n'
broken text   'no final newline'                  common/base/x.c '/* X. */ int x;'
broken text   'a path of one machine'             common/base/x.c '/* X. */ open("/ho''me/me/x");\n'
broken text   'a temporary file by name'          common/base/x.c '/* X. */ open("/tm''p/x");\n'
broken text   'no first comment'                   common/base/x.c 'int x;\n'
broken text   'a header without a guard'          common/base/x.h 'int x;\n'
broken text   'a guard of another name'           common/base/x.h '#ifndef BT_BASE_Y_H\n#endif\n'
clean_tree
mkdir -p "$work/t/common/kv"
printf '#ifndef BT_BASE_A_H\n#endif\n' > "$work/t/common/kv/a.h"
expect 1 'one guard in two headers' text

# The protocol page, on a copy of it and of the headers: each table is changed in one place.
proto_tree() {
    rm -rf "$work/t"
    mkdir -p "$work/t/proto" "$work/t/common/wire" "$work/t/common/kv"
    cp "$here/../../proto/README.md" "$work/t/proto/"
    cp "$here"/../../common/wire/msg* "$work/t/common/wire/"
    cp "$here/../../common/kv/kv_header.h" "$work/t/common/kv/"
}
# broken_proto NAME FILE SED: the edit of one file must make the check fail
broken_proto() {
    proto_tree
    sed "$3" "$work/t/$2" > "$work/edited"
    ! cmp -s "$work/edited" "$work/t/$2" || echo "self_test: proto: '$1' changed nothing"
    cp "$work/edited" "$work/t/$2"
    expect 1 "$1" proto
}
proto_tree; expect 0 'the page and headers as they are' proto
broken_proto 'a message that the page lacks'      proto/README.md '/^| 31 | TOKENS_ACK/d'
broken_proto 'a message of another number'        proto/README.md 's/^| 41 | COMMITTED/| 45 | COMMITTED/'
broken_proto 'a message that the header lacks'    common/wire/msg.h '/BT_MSG_RENEW = /d'
broken_proto 'a limit of another value'           proto/README.md 's/^| BT_KV_UNIT_TOKENS | 16/| BT_KV_UNIT_TOKENS | 32/'
broken_proto 'a limit that the page lacks'        proto/README.md '/^| BT_MSG_MAX_RANGES/d'
broken_proto 'a message that nothing encodes'     common/wire/msg_link.c 's/"BYE"/"BY"/'

# Documents, on a tree with toy programs and one page of each kind.
docs_tree() {
    clean_tree
    rm -rf "$work/t/common/xfer"
    mkdir -p "$work/bin" "$work/t/docs/man"
    for p in baton baton-gateway baton-prefill baton-decode; do
        printf '#!/bin/sh\nprintf "%s\\tNodes\\t\\tkeys\\tDIR\\tstring\\t\\t\\t\\t\\tBATON_KEYS\\tkeys\\n"\n' $p > "$work/bin/$p"
    done
    chmod +x "$work/bin"/*
    printf 'mkdir -p "$1/docs/man"; echo page > "$1/docs/man/baton.1"\n' > "$work/t/docs/generate.sh"
    echo page > "$work/t/docs/man/baton.1"
    printf 'all: x\ntest: x\n' > "$work/t/Makefile"
    printf 'X(QUEUE, GAUGE, "baton_queue", NULL, "waiting")\n' > "$work/t/gateway/door/metrics_table.h"
    printf 'Run `make test`, then `baton --keys keys`; [more](docs/operations.md) in docs/operations.md and base/a.h.\n' > "$work/t/README.md"
    printf '| `baton_queue` | what waits |\n' > "$work/t/docs/operations.md"
    mkdir -p "$work/t/common/device"
    printf '/* P. */\n    { "tile_rows", offsetof(p, tile_rows) },\n' > "$work/t/common/device/profile.c"
    printf '## Fields\n\n| `name`, `title`, `operators`, `sources` | x |\n| `tile_rows` | x |\n\n## Operators\n' > "$work/t/docs/profiles.md"
    printf '| layer of `common/` | what |\n|---|---|\n| `base` | x |\n| `device` | x |\n| `rt` | x |\n\n' > "$work/t/docs/architecture.md"
}
# broken_docs NAME FILE TEXT: the text added to a file of a right tree must make the check fail
broken_docs() {
    docs_tree
    printf '%b' "$3" >> "$work/t/$2"
    expect 1 "$1" docs
}
export BATON_BIN="$work/bin"
docs_tree; expect 0 'documents that are right' docs
broken_docs 'a generated page that was edited'    docs/man/baton.1 'more\n'
broken_docs 'a page of a program that is gone'    docs/man/baton-gone.1 'page\n'
broken_docs 'pages that cannot be made'           docs/generate.sh 'exit 1\n'
broken_docs 'a file that is not there'            README.md 'See gateway/no_such.c for it.\n'
broken_docs 'a header that is not there'          docs/operations.md 'See `base/none.h`.\n'
broken_docs 'a link to nowhere'                   README.md '[here](docs/none.md)\n'
broken_docs 'a make target that is not there'     README.md '```sh\ncd x && make tests   # all of them\n```\n'
broken_docs 'an option that is not there'         docs/operations.md 'Give `baton --kyes DIR`.\n'
docs_tree; mkdir -p "$work/t/common/kv"
expect 1 'a folder that the table of layers lacks' docs
broken_docs 'a field that no page explains'    common/device/profile.c '    { "tile_cols", offsetof(p, tile_cols) },\n'
broken_docs 'a metric that nobody explains'       gateway/door/metrics_table.h 'X(RUN, GAUGE, "baton_run", NULL, "running")\n'

echo "$passed passed, $failed failed"
[ $failed = 0 ]
