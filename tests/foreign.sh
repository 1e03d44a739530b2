#!/bin/sh
# A build for another machine against the build for this one: the same bits from the same model.
#   tests/foreign.sh MACHINE build/MACHINE build/release MODEL PACKAGE [ENGINE...]
# MODEL: a GGUF file. PACKAGE: one where the build for MACHINE shall compile it too, else 0 (the cache then has it from
# here). Each ENGINE reads a prompt and writes eight tokens through three processes of the build for MACHINE under
# BATON_RUNNER (the Makefile sets it) and of this one's build: text, ids, KV and logits are compared.
# A build for a big-endian machine must end at once. A build that has nothing but plain kernels must say so at its start, one line; another must not.
# The last line counts: "N passed, N failed".
set -u
machine=${1:?machine} there=${2:?its build} here=${3:?the build for this machine} model=${4:?model} package=${5:?0 or 1}
shift 5
[ "${BATON_RUNNER:-}" ] || { echo "foreign.sh: BATON_RUNNER is not set: run it by make CROSS=$machine" >&2; exit 2; }
runner=$BATON_RUNNER
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export BATON_CACHE_DIR="$work/cache"
passed=0 failed=0
is() {
    if [ "$2" = 0 ]; then passed=$((passed + 1)); echo "  $machine: $1"
    else failed=$((failed + 1)); echo "  $machine: $1: FAILED"; fi
}
# Here: without the runner in the environment of what is started.
local_baton() { env -u BATON_RUNNER "$here/bin/baton" "$@"; }
# shellcheck disable=SC2086
foreign_baton() { $runner "$there/bin/baton" "$@"; }
shown='import json, sys; a = json.load(open(sys.argv[1])); print(*("%s %s" % (k, json.dumps(a[k])) for k in
    ("text", "token_ids", "prompt_ids", "first_logits", "kv_bytes", "kv_digest", "npu_mac_ratio") if k in a), sep="\n")'

echo '#include "base/num.h"' | cc -std=c17 -Icommon -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__ -fsyntax-only -xc - 2> "$work/said"
[ $? != 0 ] && grep -q 'this one is big-endian' "$work/said"
is 'a big-endian machine is refused by name when its build begins' $?

foreign_baton --version > "$work/version" 2> "$work/said"
is "$(cat "$work/version") starts" $?
warnings=$(grep -c 'plain ones (ref) compute' "$work/said")
case $machine in aarch64) want=0 ;; *) want=1 ;; esac
[ "$warnings" = $want ]; is "it warns of plain kernels: $warnings lines" $?

if [ "$package" = 1 ]; then
    local_baton compile -q -m "$model" -o "$work/here.npu" && foreign_baton compile -q -m "$model" -o "$work/there.npu" 2> "$work/said" &&
        cmp "$work/here.npu" "$work/there.npu"
    is "the package has the same bytes: $(sha256sum < "$work/there.npu" | cut -c 1-8)" $?
fi
for engine in "$@"; do
    set -- run --json -m "$model" -p 'Once upon a time, the capital of France' -n 8 -c 256 --engine "$engine"
    local_baton "$@" > "$work/here" 2> "$work/said" || cat "$work/said"
    begin=$(date +%s)
    foreign_baton "$@" > "$work/there" 2> "$work/said" || cat "$work/said"
    python3 -c "$shown" "$work/here" > "$work/a" && python3 -c "$shown" "$work/there" > "$work/b" && cmp "$work/a" "$work/b"
    is "$engine: three processes, KV $(sed -n 's/^kv_digest //p' "$work/b"), as here ($(($(date +%s) - begin)) s)" $?
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
