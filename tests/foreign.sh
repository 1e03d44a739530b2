#!/bin/sh
# A build for another machine against the build for this one: the same bits from the same model.
#   tests/foreign.sh MACHINE build/MACHINE build/release MODEL RECIPES PROMPTS [ENGINE...]
# MODEL: a GGUF file. RECIPES: words; a package of each is compiled by both builds. '': the cache has them from here.
# Each ENGINE reads PROMPTS prompts (1 to 5) and writes eight tokens each, through three processes of the build for
# MACHINE under BATON_RUNNER (the Makefile sets it) and of this one's: text, ids, KV and logits are compared.
# GOLDEN in the environment, a JSON file: its `greedy_ids` are what an independent engine makes of MODEL and an empty
# prompt, and each ENGINE of the build for MACHINE must give them.
# A build that has nothing but plain kernels must say so at its start, one line; another must not. An AArch64 core
# without i8mm, or without dotprod, must take the next best kernels. Compilers for big-endian machines must refuse the
# first file; those that are not installed are named.
# The last line counts: "N passed, N failed".
set -u
machine=${1:?machine} there=${2:?its build} here=${3:?the build for this machine} model=${4:?model}
recipes=${5?recipes} prompts=${6:?prompts}
shift 6
[ "${BATON_RUNNER:-}" ] || { echo "foreign.sh: BATON_RUNNER is not set: run it by make test-foreign" >&2; exit 2; }
runner=$BATON_RUNNER
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export BATON_CACHE_DIR="$work/cache"
passed=0 failed=0
is() {
    if [ "$2" = 0 ]; then passed=$((passed + 1)); echo "  $machine: $1"
    else failed=$((failed + 1)); echo "  $machine: $1: FAILED"; return 1; fi
}
# Here: without the runner in the environment of what is started.
local_baton() { env -u BATON_RUNNER "$here/bin/baton" "$@"; }
# shellcheck disable=SC2086
foreign_baton() { $runner "$there/bin/baton" "$@"; }
shown='import json, sys; a = json.load(open(sys.argv[1])); print(*("%s %s" % (k, json.dumps(a[k])) for k in
    ("text", "token_ids", "prompt_ids", "first_logits", "kv_bytes", "kv_digest", "npu_mac_ratio") if k in a), sep="\n")'

refuses() { # a compiler and its options
    ! echo '#include "base/num.h"' | "$@" -std=c17 -Icommon -fsyntax-only -xc - 2> "$work/said" && grep -q 'this one is big-endian' "$work/said"
}
for cc in 'cc -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__' 'powerpc64le-linux-gnu-gcc -mbig' s390x-linux-gnu-gcc; do
    command -v "${cc%% *}" > /dev/null || { echo "skipped: $cc: not installed"; continue; }
    # shellcheck disable=SC2086
    refuses $cc
    is "a big-endian machine is refused by name when its build begins: $cc" $?
done

foreign_baton --version > "$work/version" 2> "$work/said"
ok=$?       # not in a line with $(...), which has a status of its own
is "$(cat "$work/version") starts" $ok
warnings=$(grep -c 'plain ones (ref) compute' "$work/said")
case $machine in aarch64) want=0 ;; *) want=1 ;; esac
[ "$warnings" = $want ]; is "it warns of plain kernels: $warnings lines" $?

# A core takes the best that it has: without dotprod that is plain NEON, not ref.
for core in $([ "$machine" != aarch64 ] || echo cortex-a72:neon neoverse-n1:dotprod max:i8mm); do
    # shellcheck disable=SC2086
    ${runner% -cpu *} -cpu "${core%:*}" "$there/bin/baton" inspect "$model" > "$work/said" 2>&1 &&
        grep -q "^this machine: kernels ${core#*:}," "$work/said"
    is "a core like ${core%:*} computes with ${core#*:}" $?
done

said() { tail -n 5 "$work/said" | sed 's/^/    /'; }
for recipe in $recipes; do
    begin=$(date +%s)
    local_baton compile -q -m "$model" --quant "$recipe" -o "$work/here.npu" > "$work/said" 2>&1 &&
        foreign_baton compile -q -m "$model" --quant "$recipe" -o "$work/there.npu" > "$work/said" 2>&1 &&
        cmp "$work/here.npu" "$work/there.npu"
    ok=$?
    is "the package has the same bytes, $recipe: $(sha256sum < "$work/there.npu" | cut -c 1-8) ($(($(date +%s) - begin)) s)" $ok || said
    rm -f "$work"/*.npu
done

cat > "$work/prompts" << 'TEXT'
Once upon a time, the capital of France
Why is the sky blue?
def fib(n): return n if n < 2 else
One day, a little girl named Lily found a needle in her room. She knew it was difficult to play with it because it was sharp.
1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34
TEXT
# Where the libraries are newer than Debian 12's (riscv64), libmicrohttpd is 1.0, and the gateway refuses to
# start. There this machine's gateway asks foreign nodes.
if [ "$machine" = riscv64 ]; then
    mkdir "$work/bin"
    cp "$here/bin/baton" "$here/bin/baton-gateway" "$work/bin"
    for node in baton-prefill baton-decode; do
        printf '#!/bin/sh\nexec %s %s "$@"\n' "$runner" "$PWD/$there/bin/$node" > "$work/bin/$node"
        chmod +x "$work/bin/$node"
    done
    foreign_baton() { env -u BATON_RUNNER "$work/bin/baton" "$@"; }
fi
# The answer to prompt $3 as compared, into file $1; by the command $2.
answer() {
    $2 run --json -m "$model" -p "$3" -n 8 -c 256 --engine "$engine" > "$work/answer" 2> "$work/said" < /dev/null || said
    python3 -c "$shown" "$work/answer" > "$1" 2> /dev/null
}
for engine in "$@"; do
    begin=$(date +%s) digests='' ok=0
    while read -r prompt && [ "$prompts" -gt "$(echo "$digests" | wc -w)" ]; do
        answer "$work/a" local_baton "$prompt" && answer "$work/b" foreign_baton "$prompt" && cmp "$work/a" "$work/b" || ok=1
        digest=$(sed -n 's/^kv_digest "*\([0-9a-f]\{8\}\).*/\1/p' "$work/b")
        [ "$digest" ] || ok=1
        digests="$digests ${digest:-none}"
    done < "$work/prompts"
    is "$engine: three processes, KV$digests, as here ($(($(date +%s) - begin)) s)" $ok
    [ "${GOLDEN:-}" ] || continue
    n=$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["greedy_ids"]))' "$GOLDEN") &&
        foreign_baton run --json -m "$model" -p '' -n "$n" -c 256 --engine "$engine" > "$work/answer" 2> "$work/said" < /dev/null &&
        python3 -c 'import json, sys; a, b = (json.load(open(f)) for f in sys.argv[1:]); sys.exit(a["token_ids"] != b["greedy_ids"])' \
            "$work/answer" "$GOLDEN"
    is "$engine: the $n ids of $(basename "$GOLDEN")" $? || said
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
