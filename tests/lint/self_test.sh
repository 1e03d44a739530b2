#!/bin/sh
# Every rule is shown to fail on a small tree that breaks it, in each folder that it holds for, and to pass on one that does
# not. The folders are those of the table in layers.sh, so that a new one cannot be forgotten.
# shellcheck disable=SC2016
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
passed=0 failed=0 skipped=0
t=$work/t

sed -n "/^rules='/,/^'/s/^\([a-z].*[^ ]\) *: *\(.*\)/\1 \2/p" "$here/layers.sh" > "$work/rules"
cut -d ' ' -f 1 "$work/rules" > "$work/folders"
folders=$(cat "$work/folders")
[ "$(wc -l < "$work/folders")" -ge 20 ] || { echo "self_test: found no table in layers.sh"; exit 1; }

# A header and a source in every folder; each source includes all that its folder may.
sed 's|^common/||' "$work/folders" | sed 's|.*|#include "&/a.h"|' > "$work/all"
mkdir "$work/clean"
for f in $folders; do
    mkdir -p "$work/clean/$f"
    guard=BT_$(echo "${f#common/}" | tr 'a-z/-' 'A-Z__')_A_H
    printf '#ifndef %s\n#define %s\n#endif\n' "$guard" "$guard" > "$work/clean/$f/a.h"
done
while read -r f may; do
    printf '/* A. */\n' > "$work/clean/$f/a.c"
    for inc in ${f#common/} $may; do printf '#include "%s/a.h"\n' "$inc"; done >> "$work/clean/$f/a.c"
done < "$work/rules"
# Pure folders may see a few headers of common/base only.
sed 's/_A_H/_ERR_H/' "$work/clean/common/base/a.h" > "$work/clean/common/base/err.h"
for f in $(grep -E '/brain$|^common/xfer' "$work/folders"); do
    sed 's|base/a\.h|base/err.h|' "$work/clean/$f/a.c" > "$work/edited" && cp "$work/edited" "$work/clean/$f/a.c"
done
clean_tree() { rm -rf "$t"; cp -r "$work/clean" "$t"; }

ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "self_test: $1"; }
# run CHECK: its output is in $work/out
run() { sh "$here/$1.sh" "$t" > "$work/out" 2>&1; }
# expect 0|1 NAME CHECK: what the check should return on the tree as it is now
expect() {
    got=0
    run "$3" || got=1
    if [ $got = "$1" ] && { [ $got = 0 ] || [ -s "$work/out" ]; }; then ok
    else bad "$3 should have returned $1: $2"; cat "$work/out"; fi
}
# broken CHECK NAME FILE TEXT: the text added to the file of a clean tree must make the check fail and name the file
broken() {
    clean_tree
    mkdir -p "$(dirname "$t/$3")"
    printf '%b' "$4" >> "$t/$3"
    run "$1" && bad "$1 should have failed: $2"
    if grep -q "$3" "$work/out"; then ok; else bad "$1 does not name $3: $2"; cat "$work/out"; fi
}
# named CHECK NAME < files: the check must fail, and name each of the files at the beginning of a line
named() {
    run "$1" && bad "$1 should have failed: $2"
    sed 's/:.*//' "$work/out" | sort -u > "$work/seen"
    sort -u | comm -23 - "$work/seen" > "$work/missed"
    if [ -s "$work/missed" ]; then bad "$1 does not see: $2"; cat "$work/missed"; else ok; fi
}
# everywhere CHECK NAME FILE TEXT [FOLDERS]: the same in every folder at once (or in those), each of which must be named
everywhere() {
    clean_tree
    for f in ${5:-$folders}; do printf '%b' "$4" >> "$t/$f/$3"; echo "$f/$3"; done > "$work/files"
    named "$1" "$2" < "$work/files"
}
# without FOLDER REGEX: the folders whose path does not match
without() { echo "$folders" | grep -vE "$1"; }

clean_tree
for check in layers brains sizes text; do expect 0 'a clean tree' $check; done

# ---- words ----
clean_tree; expect 0 'a clean tree' words
everywhere words 'a sentence that begins with Of'  x.c '/* Reads it. Of two the first. */\n'
everywhere words 'one behind the end of a line'    x.h '/* Reads it.\n * Of two the first. */\n'
everywhere words 'an old word in a name'           x.c 'void bt_prefill_run_together(void);\n'
everywhere words 'an old word in a comment'        x.h '/* Rows of a Mixed call. */\n'
broken words 'a sentence of a document'            docs/x.md 'Of two the first.\n'
broken words 'an old word in a document'           docs/x.md 'It serves shared beginnings.\n'
broken words 'a function that is not there'        docs/x.md 'Then `bt_gone()` runs.\n'
clean_tree
mkdir "$t/docs"
printf 'int bt_a_run(void)\n{\n}\n' >> "$t/common/base/a.c"
echo 'First `bt_a_run()` (`common/base/a.c`).' > "$t/docs/x.md"
expect 0 'a function where a document says it is' words
echo 'First `bt_a_run()` (`common/rt/a.c`).' > "$t/docs/x.md"
expect 1 'a function in another file' words

# ---- layers: each folder includes each other one that its line does not name ----
clean_tree
while read -r f may; do
    own=${f#common/}
    for other in $folders; do
        other=${other#common/}
        case " $own $may " in *" $other "*) continue ;; esac
        x=$f/x_$(echo "$other" | tr / _).c
        printf '#include "%s/a.h"\n' "$other" > "$t/$x"
        echo "$x"
    done
done < "$work/rules" > "$work/files"
named layers 'an include that no line allows' < "$work/files"
# Includes that no edit of the table may ever allow.
ok
while read -r f never; do
    for other in $never; do
        ! grep -q "^$f \(.* \)*$other\( \|\$\)" "$work/rules" || bad "the line of $f allows $other"
    done
done << 'NEVER'
common/npu/pkg     npu/quant npu/lower npu/compile npu/run engine
common/npu/quant   device npu/lower npu/compile npu/run engine
common/npu/lower   npu/quant npu/price npu/compile npu/run engine
common/npu/price   npu/quant npu/compile npu/run engine
common/npu/compile npu/price npu/run engine
common/npu/run     npu/quant npu/lower npu/compile engine
common/engine      node wire xfer
common/xfer        node rt engine
gateway/brain      gateway/http gateway/api gateway/door gateway/shell node rt
prefill-node/brain prefill-node node rt engine
decode-node/brain  decode-node node rt engine
common/node        engine npu/pkg npu/compile npu/run
gateway/http       gateway/api engine npu/pkg
gateway/api        gateway/brain gateway/door gateway/shell node rt
prefill-node       decode-node gateway/http
decode-node        prefill-node gateway/http
NEVER
everywhere layers 'an include without its folder' x.c '#include "a.h"\n'
everywhere layers 'ours in angle brackets'        x.c '#include <base/a.h>\n'
everywhere layers 'ours in brackets, from the root' x.c '#include <common/base/a.h>\n'
everywhere layers 'a source that is no header'    x.inc 'int x;\n'
everywhere layers 'protobuf types outside wire'   x.c '#include "control.pb-c.h"\n' "$(without '^common/wire$')"
everywhere layers 'the engine room by a back door' x.c '#include "engine/prefill_backend.h"\n' "$(without '^common/engine$')"
everywhere layers 'a second reader of the clock'  x.c 'int f(void) { return clock_gettime(CLOCK_MONOTONIC, &t); }\n'
everywhere layers 'the time of day'               x.c 'long f(void) { return time(NULL); }\n'
while read -r header home; do
    everywhere layers "<$header> outside its home" x.c "#include <$header>\\n" "$(without "^($home)")"
done << 'HOMES'
zmq.h        common/(rt|crypto)$
sodium.h     common/crypto$
microhttpd.h gateway/http$
curl/curl.h  (tools/(cluster|pull)|lab/replay)$
histedit.h   tools/chat$
pcre2.h      common/text(/(jinja|calls))?$
utf8proc.h   common/text(/(jinja|calls))?$
xxhash.h     common/base$
HOMES
clean_tree
for f in $folders; do mkdir "$t/$f/deep"; echo 'int x;' > "$t/$f/deep/x.c"; echo "$f/deep/x.c"; done > "$work/files"
named layers 'a folder that nobody declared' < "$work/files"
broken layers 'a folder of common/ that nobody declared' common/extra/x.c 'int x;\n'
broken layers 'a file in common/ itself'           common/x.c 'int x;\n'
broken layers 'a file between the folders of npu'  common/npu/x.h 'int x;\n'
broken layers 'a file in the root'                 x.c 'int x;\n'
broken layers 'a new top-level folder'             server/x.c 'int x;\n'
broken layers 'a new top-level folder of headers'  include/deep/x.h 'int x;\n'
broken layers 'a test of a folder that is gone'    tests/unit/npu/old/test_x.c 'int x;\n'
clean_tree; rm -r "$t/common/ref"
expect 1 'a line for a folder that is gone' layers

# The table itself: a copy of the check with a line changed.
cp -r "$here" "$work/lint"
for change in 's/^common\/base  *:.*/& rt/' 's/^common\/rt .*/& nothing/' '/^common\/base  *:/d'; do
    sed "$change" "$here/layers.sh" > "$work/lint/layers.sh"
    clean_tree
    sh "$work/lint/layers.sh" "$t" > "$work/out" 2>&1 && bad "layers should have failed: a table changed by $change"
    if grep -q 'has no line above it' "$work/out"; then ok; else bad "layers does not see the table changed by $change"; fi
done

# ---- brains: what every pure folder must not reach, in itself and through a header ----
brains=$(echo "$folders" | grep -E '/brain$|^common/xfer')
for what in '"rt/a.h"' '"node/a.h"' '"base/clock.h"' '"base/pool.h"' '"base/ring.h"' '"base/file.h"' '"base/cache.h"' '"base/rng.h"' '<netdb.h>' '<semaphore.h>' '<pthread.h>' '<zmq.h>' '<time.h>' \
    '<sys/epoll.h>' '<unistd.h>'; do
    everywhere brains "a brain that includes $what" x.c "#include $what\\n" "$brains"
done
everywhere brains 'a brain that opens a file' x.c 'void f(void) { fopen("a", "r"); }\n' "$brains"
clean_tree
printf '#include "base/clock.h"\n' > "$t/common/wire/deep.h"
printf '#include "wire/deep.h"\n' > "$t/common/wire/deeper.h"
for f in $brains; do printf '#include "wire/deeper.h"\n' > "$t/$f/x.c"; echo "$f/x.c"; done > "$work/files"
named brains 'a clock through two headers' < "$work/files"
for f in $brains; do
    room=${f%/brain}
    for other in $(echo "$folders" | grep "^$room" | grep -v '/brain$' | grep -v '^common'); do
        broken brains 'a brain that includes its shell' "$f/x.c" "#include \"$other/a.h\"\\n"
    done
done
for f in $brains; do
    clean_tree; rm -r "$t/$f"
    expect 1 "a room whose brain is gone: $f" brains
done

# ---- sizes, text ----
everywhere sizes 'a file of 801 lines'            x.c "$(yes ';' | head -n 801 | sed 's/$/\\n/' | tr -d '\n')"
everywhere sizes 'a function of 81 lines'         x.c "void f(void)\\n{\\n$(yes ';' | head -n 79 | sed 's/$/\\n/' | tr -d '\n')}\\n"
broken     sizes 'a long test'                    tests/unit/base/test_x.c "$(yes ';' | head -n 801 | sed 's/$/\\n/' | tr -d '\n')"
clean_tree
{ echo '/* Long because it is a table. */'; echo 'void f(void)'; echo '{'; yes ';' | head -n 79; echo '}'; } > "$t/common/base/x.c"
expect 0 'a long function with its reason' sizes
everywhere text  'a tab'                          x.c '/* X. */ int\tx;\n'
everywhere text  'spaces at the end of a line'    x.c '/* X. */ int x; \n'
everywhere text  'no final newline'               x.c '/* X. */ int x;'
everywhere text  'a path of one machine'          x.c '/* X. */ open("/ho''me/me/x");\n'
everywhere text  'a temporary file by name'       x.c '/* X. */ open("/tm''p/x");\n'
everywhere text  'no first comment'               x.c 'int x;\n'
everywhere text  'a header without a guard'       x.h 'int x;\n'
everywhere text  'a guard of another name'        x.h '#ifndef BT_BASE_Y_H\n#endif\n'
broken     text  'a tab in a document'            docs/x.md 'a\tb\n'
clean_tree
printf '#ifndef BT_BASE_A_H\n#endif\n' > "$t/common/kv/a.h"
expect 1 'one guard in two headers' text

# Rooms: 26 sources in every folder; those with a reason may have them.
clean_tree
expect 0 'folders of two sources' rooms
for f in $folders; do
    i=0; while [ $i -lt 23 ]; do i=$((i + 1)); echo 'int x;' > "$t/$f/x$i.c"; done
done
expect 0 'folders of 25 sources' rooms
for f in $folders; do echo 'int x;' > "$t/$f/y.c"; done
for f in $folders; do grep -q "^$f  *:" "$here/rooms.sh" || echo "$f"; done > "$work/files"
named rooms 'a folder of 26 sources' < "$work/files"
clean_tree; rm -r "$t/common/engine"
expect 1 'a reason for a folder that is gone' rooms

# Columns: words of a line, so that it could be broken.
words() { yes 'word' | head -n "$1" | tr '\n' ' ' | sed 's/ $//'; }
everywhere text  'a source of 112 columns'        x.c "/* $(words 21) x */\n"
everywhere text  'a header of 122 columns'        x.h "/* $(words 23) x */\n"
broken     text  'a document of 121 columns'      docs/x.md "$(words 24) x\n"
broken     text  'a table of 122 columns'         common/base/x.c "/* X. */\n// clang-format off\n/* $(words 23) x */\n"
broken     text  '112 columns after a table'      common/base/x.c "/* X. */\n// clang-format off\n// clang-format on\n/* $(words 21) x */\n"
clean_tree
mkdir "$t/docs"
{ printf '/* X. */\n// clang-format off\n'; echo "int x; /* $(words 20) */"; } > "$t/common/base/x.c"
printf '#ifndef BT_BASE_X_H\n/* %s */\n#endif\n' "$(words 22)" > "$t/common/base/x.h"
{ words 24; echo; yes é | head -n 120 | tr -d '\n'; echo; yes x | head -n 130 | tr -d '\n'; echo; } > "$t/docs/x.md"
expect 0 'lines that are just short enough, or one word' text

# ---- format ----
formatted_tree() { clean_tree; cp "$here/../../.clang-format" "$t/"; }
if clang-format-14 --version > /dev/null 2>&1 || clang-format --version 2> /dev/null | grep -q 'version 14\.'; then
    formatted_tree
    fields='.name = "a point of some length", .x = 123456789, .y = 123456789, .z = 123456789, .what = "what there is to say", .next = NULL'
    printf '/* F. */\nstatic const point p = {%s};\n' "$fields" > "$t/common/base/f.c"
    sh "$here/format.sh" "$t" --write > /dev/null
    if [ "$(wc -l < "$t/common/base/f.c")" -le 4 ]; then ok; else bad 'format does not fill a list'; cat "$t/common/base/f.c"; fi
    printf '#ifndef BT_BASE_F_H\n#define BT_BASE_F_H\nint a_function_of_a_long_name(int the_first_argument, %s);\n#endif\n' \
        'int the_second_argument, int the_third_argument, int the_last' > "$t/common/base/f.h"
    expect 0 'formatted files, and a header of 116 columns' format
    for f in $folders; do
        printf 'int  x;\n' > "$t/$f/x.c"; printf 'int x ;\n' > "$t/$f/x.h"
        echo "$f/x.c"; echo "$f/x.h"
    done > "$work/files"
    named format 'blanks too many' < "$work/files"
    printf '/* F. */\nstatic const point p = {%s};\n' "$fields" | sed 's/, /,\n                        /g' > "$t/common/base/f.c"
    grep a_function "$t/common/base/f.h" > "$t/common/base/g.c"
    mkdir -p "$t/tests/new"; printf 'int  x;\n' > "$t/tests/new/x.c"
    printf 'common/base/f.c\ncommon/base/g.c\ntests/new/x.c\n' > "$work/files"
    named format 'a list not filled; a source as wide as a header; a test' < "$work/files"
    sh "$here/format.sh" "$t" --write > /dev/null
    expect 0 'files that format.sh has written' format
else
    echo "skipped: the format of code: no clang-format-14 here ('make deps' installs it)"
    skipped=$((skipped + 1))
fi
formatted_tree
mkdir "$work/tools"
for tool in dirname mktemp rm find sed sort grep; do ln -s "$(command -v $tool)" "$work/tools/$tool"; done
PATH=$work/tools /bin/sh "$here/format.sh" "$t" > "$work/out" 2>&1 && bad 'format should have failed: no clang-format'
if grep -q "no clang-format of version 14 here; 'make deps'" "$work/out"; then ok; else bad 'format does not say what to install'; fi

# ---- circles: objects are made by the assembler, with symbols of each folder's own; one pair by the compiler ----
mkdir -p "$work/build/bin"
touch "$work/build/bin/baton"
export BATON_BIN="$work/build/bin"
# object FILE HERE THERE: an object that defines HERE and needs THERE
object() { printf '.globl %s\n%s: .quad %s\n' "$2" "$2" "$3" | as -o "$work/build/$1.o" -; }
symbol() { echo "$1" | tr '/-' '__'; }
clean_tree
for f in $folders; do
    mkdir -p "$work/build/$f"
    touch "$t/$f/x.c" "$t/$f/y.c"
    s=$(symbol "$f")
    object "$f/a" "${s}_a" 0; object "$f/x" "${s}_x" "${s}_y"; object "$f/y" "${s}_y" "${s}_a"
done
expect 0 'calls in one direction' circles
for f in $folders; do s=$(symbol "$f"); object "$f/y" "${s}_y" "${s}_x"; done
printf 'void x(void);\nvoid y(void);\nvoid x(void) { y(); }\n' > "$work/x.c"
cc -c -Dx=common_rt_x -Dy=common_rt_y -o "$work/build/common/rt/x.o" "$work/x.c"
cc -c -Dx=common_rt_y -Dy=common_rt_x -o "$work/build/common/rt/y.o" "$work/x.c"
run circles && bad 'circles should have failed: two files that call each other'
sed -n 's/.*: a circle of calls: \([^ ]*\) -> \([^ ]*\) (\([^ ]*\)) -> \([^ ]*\) (\([^ ]*\))$/\1 \2 \3 \4 \5/p' "$work/out" > "$work/seen"
ok
for f in $folders; do
    s=$(symbol "$f")
    grep -qx "$f/x.c $f/y.c ${s}_y $f/x.c ${s}_x\|$f/y.c $f/x.c ${s}_x $f/y.c ${s}_y" "$work/seen" ||
        bad "circles does not see two files of $f that call each other"
done
echo 'int x;' > "$t/common/base/new.c"
expect 1 'a source without an object' circles
if grep -q 'no object' "$work/out"; then ok; else bad 'circles does not say that an object is missing'; fi
clean_tree
for f in $folders; do
    printf '#include "%s/y.h"\n' "${f#common/}" >> "$t/$f/x.h"
    printf '#include "%s/x.h"\n' "${f#common/}" >> "$t/$f/y.h"
done
run circles && bad 'circles should have failed: two headers that include each other'
ok
for f in $folders; do
    grep -q "includes: $f/[xy].h -> $f/[xy].h" "$work/out" || bad "circles does not see the two headers of $f"
done
clean_tree
BATON_BIN=$work/nowhere expect 1 'no build' circles
export BATON_BIN="$work/bin"

# ---- the protocol page, on a copy of it and of the headers: each table is changed in one place ----
proto_tree() {
    rm -rf "$t"
    mkdir -p "$t/proto" "$t/common/wire" "$t/common/kv"
    cp "$here/../../proto/README.md" "$t/proto/"
    cp "$here"/../../common/wire/msg* "$t/common/wire/"
    cp "$here/../../common/kv/kv_header.h" "$t/common/kv/"
}
# broken_proto NAME FILE SED: the edit of one file must make the check fail
broken_proto() {
    proto_tree
    sed "$3" "$t/$2" > "$work/edited"
    ! cmp -s "$work/edited" "$t/$2" || bad "proto: '$1' changed nothing"
    cp "$work/edited" "$t/$2"
    expect 1 "$1" proto
}
proto_tree; expect 0 'the page and headers as they are' proto
broken_proto 'a message that the page lacks'      proto/README.md '/^| 31 | TOKENS_ACK/d'
broken_proto 'a message of another number'        proto/README.md 's/^| 41 | COMMITTED/| 45 | COMMITTED/'
broken_proto 'a message that the header lacks'    common/wire/msg.h '/BT_MSG_RENEW = /d'
broken_proto 'a limit of another value'           proto/README.md 's/^| BT_KV_UNIT_TOKENS | 16/| BT_KV_UNIT_TOKENS | 32/'
broken_proto 'a limit that the page lacks'        proto/README.md '/^| BT_MSG_MAX_RANGES/d'
broken_proto 'a message that nothing encodes'     common/wire/msg_link.c 's/"BYE"/"BY"/'

# ---- documents, on a tree with toy programs and one page of each kind ----
docs_tree() {
    rm -rf "$t" "$work/bin"
    mkdir -p "$work/bin" "$t/docs" "$t/common/base" "$t/common/npu/pkg" "$t/common/device" "$t/common/kernels" "$t/gateway/door" \
        "$t/tests/unit/base" "$t/tests/unit/kernels" "$t/deploy"
    for p in baton baton-gateway baton-prefill baton-decode; do
        printf '#!/bin/sh\nprintf "%s\\tNodes\\t\\tkeys\\tDIR\\tstring\\tall\\t\\t\\t\\tBATON_KEYS\\tkeys\\n"\n' \
            "$p$([ $p != baton ] || echo ' run')" > "$work/bin/$p"
    done
    chmod +x "$work/bin"/*
    printf 'mkdir -p "$1/docs"; echo page > "$1/docs/page.md"\n' > "$t/docs/generate.sh"
    echo page > "$t/docs/page.md"
    printf 'all: x\ntest: x\n' > "$t/Makefile"
    printf '/* A; see device/profile.c, `metrics_table.h` and *_table.h. */\n' > "$t/common/base/a.h"
    printf '/* T. */\n' > "$t/tests/unit/base/test_a.c"
    printf '/* P. */\n' > "$t/common/npu/pkg/p.c"
    printf 'X(QUEUE, GAUGE, "baton_queue", NULL, "waiting")\n' > "$t/gateway/door/metrics_table.h"
    printf '# Reads base/a.h.\n' > "$t/deploy/x.sh"
    {
        echo 'Run `make test`, then `baton run --keys keys`, as `baton-gateway` and baton-run; [more](docs/operations.md).'
        echo 'In docs/operations.md, base/a.h, a.h, `test_a`, `common/npu`, <zmq.h>, tests/unit/LAYER/test_STEM.c, `test_*`, https://x.io/y.c'
    } > "$t/README.md"
    printf '| `baton_queue` | what waits |\n' > "$t/docs/operations.md"
    printf '/* P. */\n    {"tile_rows", offsetof(p, tile_rows)},\n' > "$t/common/device/profile.c"
    printf '#define BT_KERNELS(KERNEL, with) \\\n    KERNEL(matmul, bt_matmul, WIDTH, with) \\\n' > "$t/common/kernels/kernels.h"
    printf '/* T. */\nk->matmul(y);\n' > "$t/tests/unit/kernels/test_matmul.c"
    printf '## `matmul`\n' > "$t/docs/performance.md"
    printf '## Fields\n\n| `name`, `title`, `operators`, `sources` | x |\n| `tile_rows` | x |\n\n## Operators\n' > "$t/docs/profiles.md"
    {
        printf '| layer of `common/` | what |\n|---|---|\n| `base` | x |\n| `device` | x |\n| `kernels` | x |\n| `npu` | `pkg` |\n\n'
    } > "$t/docs/architecture.md"
}
# broken_docs NAME FILE TEXT: the text added to a file of a right tree must make the check fail
broken_docs() {
    docs_tree
    printf '%b' "$3" >> "$t/$2"
    expect 1 "$1" docs
}
docs_tree; expect 0 'documents that are right' docs
broken_docs 'pages that cannot be made'           docs/generate.sh 'exit 1\n'
docs_tree; mkdir -p "$t/common/kv"; echo '/* K. */' > "$t/common/kv/k.c"
expect 1 'a folder that the table of layers lacks' docs
docs_tree; mkdir -p "$t/common/npu/run"; echo '/* R. */' > "$t/common/npu/run/r.c"
expect 1 'a folder that the row of its layer lacks' docs
docs_tree; rm -r "$t/common/npu"
expect 1 'a row of a layer that is gone' docs
docs_tree; mv "$t/gateway/door/metrics_table.h" "$t/gateway/door/metrics_list.h"
expect 1 'metrics that nobody can find' docs
# All others at once: file, what is wrong in it, the text that is added.
docs_tree
while IFS='|' read -r file says text; do
    printf '%b' "$text" >> "$t/$file"
    echo "$file|$says" >> "$work/wanted"
done << 'DOCS'
docs/page.md|not what the programs print|more\n
README.md|gateway/no_such.c|See gateway/no_such.c for it.\n
README.md|gateway/shed|See `gateway/shed` for it.\n
README.md|docs/none.md|[here](docs/none.md)\n
README.md|make tests|```sh\ncd x && make tests   # all of them\n```\n
docs/operations.md|base/none.h|See `base/none.h`.\n
docs/operations.md|config.c|Named in `config.c`.\n
docs/operations.md|kv_page.h|As kv_page.h says.\n
docs/operations.md|pkg_\*.c|See `pkg_*.c`.\n
docs/operations.md|deploy/none.sh|See deploy/none.sh.\n
docs/operations.md|none.json|See none.json.\n
docs/operations.md|none.proto|See proto/none.proto.\n
docs/operations.md|bench_prefill|Run bench_prefill.\n
docs/operations.md|test_b,|Run `test_b`.\n
docs/operations.md|test_b\*|Run test_b*.\n
docs/operations.md|fuzz_pkg|Run fuzz_pkg.\n
docs/operations.md|baton-node|Start baton-node.\n
docs/operations.md|baton decode|Run `baton decode -m x`.\n
docs/operations.md|baton fly|```sh\nbin/baton fly\n```\n
docs/operations.md|--kyes|Give `baton run --kyes DIR`.\n
docs/new.md|kv_book.h|As kv_book.h says.\n
common/base/README.md|kv_pages.h|As kv_pages.h says.\n
common/base/a.h|kv_page.h|/* As\n * kv_page.h says. */\n
common/npu/pkg/p.c|design.md|int x = "a/*"; // design.md\n
deploy/x.sh|none.c|# see none.c\n
docs/profiles.md|tile_cols|
docs/performance.md|rope|
common/kernels/kernels.h|no test.*rope|
docs/operations.md|baton_run|
DOCS
echo '    { "tile_cols", offsetof(p, tile_cols) },' >> "$t/common/device/profile.c"
echo '    KERNEL(rope, bt_rope, WIDTH, with)' >> "$t/common/kernels/kernels.h"
echo 'X(RUN, GAUGE, "baton_run", NULL, "running")' >> "$t/gateway/door/metrics_table.h"
run docs && bad 'docs should have failed: many errors at once'
while IFS='|' read -r file says; do
    if grep "^$file:" "$work/out" | grep -q -e "$says"; then ok; else bad "docs does not see in $file: $says"; fi
done < "$work/wanted"

# ---- bounds, on a page with as many rows as the check asks for ----
bounds_tree() {
    docs_tree
    mkdir -p "$t/common/rt"
    {
        printf '## What is bounded\n\n| what | bound | where | when full |\n|---|---|---|---|\n'
        for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do printf '| w%s | %s | `BOUND_%s` in `common/rt/x.c` | x |\n' $i $i $i; done
        printf '| big | 8 MiB | `BIG` in `common/rt/x.c` | x |\n| one | 1 a request | `busy` in `common/rt/x.c` | x |\n'
        printf '| keys | all | `--keys` of `baton-gateway` | x |\n| nothing | 1 | | x |\n\n## When\n'
    } > "$t/docs/operations.md"
    { for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do echo "enum { BOUND_$i = $i };"; done
        echo 'enum { BIG = 8 << 20 };'; echo 'bool busy;'; } > "$t/common/rt/x.c"
}
# broken_bounds NAME SED
broken_bounds() {
    bounds_tree
    sed "$2" "$t/docs/operations.md" > "$work/edited"
    ! cmp -s "$work/edited" "$t/docs/operations.md" || bad "bounds: '$1' changed nothing"
    cp "$work/edited" "$t/docs/operations.md"
    expect 1 "$1" bounds
}
bounds_tree; expect 0 'bounds that are right' bounds
broken_bounds 'another value'                     's/| 17 | `BOUND_17`/| 18 | `BOUND_17`/'
broken_bounds 'another size'                      's/| 8 MiB |/| 9 MiB |/'
broken_bounds 'another default'                   's/| all |/| some |/'
broken_bounds 'a constant that is not there'      's/BOUND_3`/BOUND_X`/'
broken_bounds 'a file that is not there'          '/BIG/s/x\.c/y.c/'
broken_bounds 'a program that is not there'       's/baton-gateway/baton-door/'
broken_bounds 'an option that is not there'       's/--keys/--kyes/'
broken_bounds 'a row without its place'           's/| `BIG` in `common.rt.x.c` |/| `BIG` |/'
broken_bounds 'no table'                          '/^| w/d'

# ---- engines ----
engines_tree() {
    rm -rf "$t"; mkdir -p "$t/common/engine" "$t/tools"
    printf '#include "engine/decode_backend.h"\nx = {\n    .facts = {.name = "fast", .has_chunks = true},\n};\n' > "$t/common/engine/decode_fast.c"
    printf '#include "engine/names.h"\nconst char *e = BT_ENGINE_DEFAULT_DECODE;\nint n = BT_ENGINE_BATCH_ROWS;\n' > "$t/tools/a.c"
    printf 'bool b = strcmp(profile, "fast") == 0;\n' >> "$t/tools/a.c"
}
# broken_engines NAME LINE: the line in a program outside common/engine
broken_engines() { engines_tree; printf '%s\n' "$2" > "$t/tools/b.c"; expect 1 "$1" engines; }
engines_tree; expect 0 'engines that are asked' engines
broken_engines 'an engine of an enum'           'if (e == BT_ENGINE_FAST) return;'
broken_engines 'an engine by its name'          'if (!strcmp(s->engine, "fast")) return;'
broken_engines 'an engine that is set by name'  'config c = {.decode = "fast"};'
broken_engines 'a table seen from outside'      '#include "engine/prefill_backend.h"'
rm -f "$t/common/engine/decode_fast.c"; expect 1 'no table' engines

# ---- options, by programs that print a table ----
# options_tree "NAMES OF A REAL PROGRAM" "NAMES OF simulate" "LEFT OUT"
options_tree() {
    rm -rf "$t"; mkdir -p "$t/docs" "$t/bin"
    table() { for n in $1; do printf "printf 'p\\tg\\t\\t%s\\n'\n" "$n"; done; }
    for p in baton-gateway baton-prefill baton-decode; do { echo '#!/bin/sh'; table "$1"; } > "$t/bin/$p"; done
    { echo '#!/bin/sh'; echo 'if [ "$1" = simulate ]; then'; echo :; table "$2"; echo 'else'; echo :; table "$1"; echo 'fi'; } > "$t/bin/baton"
    chmod +x "$t"/bin/*
    sed -n "/^twice='/,/^'/s/^\([a-z-]*\)  *: .*/\1/p" "$here/options.sh" > "$work/twice"
    mkdir -p "$t/tools"
    while read -r n; do
        printf '/* A. */\nstatic const bt_opt a[] = {\n    {.name = "%s", .type = BT_OPT_FLAG},\n    {.group = "A", .name = "%s",\n     .type = BT_OPT_INT},\n};\n' "$n" "$n"
    done < "$work/twice" > "$t/tools/a.c"
    { printf '## What it leaves out\n\n'; for n in $3; do printf -- '- `%s`: not `-x`.\n' "$n"; done; printf '\n`--timeout` is.\n'; } > "$t/docs/simulate.md"
}
unset_bin=${BATON_BIN:-}; unset BATON_BIN
options_tree 'one two help' 'one' 'two'; expect 0 'options that are there, or left out with a reason' options
options_tree 'one two three' 'one' 'two'; expect 1 'an option that was forgotten' options
options_tree 'one two' 'one two' 'two'; expect 1 'one that is left out and there' options
options_tree 'one two' 'one' 'two zwei'; expect 1 'one that no program has' options
options_tree 'one two' 'one' 'two two'; expect 1 'one that is left out twice' options
options_tree 'one' 'one' ''; expect 1 'no list' options
one_list() { options_tree 'one two' 'one' 'two'; mkdir -p "$t/lab"; printf '/* B. */\n%b' "$1" > "$t/lab/b.c"; }
one_list '    {.group = "A", .name = "slots",\n     .type = BT_OPT_INT},\n    {.of = \&g, .name = "slots", .type = BT_OPT_STRINGS},\n'
expect 0 'a row, and a use of it' options
one_list '    {.group = "A", .name = "slots",\n     .type = BT_OPT_INT},\n    {.name = "slots", .value = "N", .type = BT_OPT_INT},\n'
expect 1 'an option typed twice' options
if grep -q '^lab/b.c: --slots' "$work/out"; then ok; else bad 'options does not name the file that types an option twice'; cat "$work/out"; fi
one_list '#define ROW(config) \\\n    { \\\n        .name = "slots", .type = BT_OPT_INT \\\n    }\nx = {{.name = "slots", .type = BT_OPT_INT}};\n'
expect 1 'an option typed twice, once in a macro' options
options_tree 'one two' 'one' 'two'; sed -i '/"batch", .type/d' "$t/tools/a.c"
expect 1 'an excuse for what is typed once' options
[ -z "$unset_bin" ] || export BATON_BIN="$unset_bin"

# tests/rows.sh, which is no rule but a check of what tests left behind: rows of two machines, of which one may be excused.
m=$(uname -m); [ "$m" = aarch64 ] || m=x86_64
rows_said() { mkdir -p "$work/rows"; rm -f "$work/rows"/*; printf '%b' "$1" > "$work/rows/release"; printf '%b' "$2" > "$work/rows/release.emulated"; }
rows() { # 0|1 NAME
    got=0
    sh "$here/../rows.sh" "$work/table.c" "$work/rows" > "$work/out" 2>&1 || got=1
    if [ $got = "$1" ]; then ok; else bad "rows.sh should have returned $1: $2"; cat "$work/out"; fi
}
printf '#if defined(__%s__)\n    ROW(fast, has, a),\n    ROW(ref, always, a),\n#else\nx = {ROW(ref, always, a)};\n#endif\n' "$m" > "$work/table.c"
rows_said 'ran ref test_a\nskipped fast test_a\n' 'ran fast test_a\nran ref test_a\n'; rows 0 'each row ran in one of two builds'
rows_said 'ran ref test_a\nskipped fast test_a\n' 'ran faster test_a\n'; rows 1 'a row that each program skipped'
echo 'no such machine' > "$work/rows/$m.excused"; rows 0 'a row that is excused with a reason'
: > "$work/rows/$m.excused"; rows 1 'an excuse without a reason'
rows_said 'ran fast test_a\n' 'missed ref test_a\n'; rows 1 'a row that a walk left out'
: > "$work/table.c"; rows 1 'a table without rows'

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
