#!/bin/sh
# Fetch models by name into their folder, check them, print their paths: `baton pull`, by the programs that were built.
#   model.sh [NAME ...]      without a name the default model, smollm2
# BATON_BIN in the environment says where the programs are, BATON_RUNNER what runs them where they are another machine's.
set -eu
top=$(dirname "$0")/..
for bin in "${BATON_BIN:-$top/bin}" "$top/bin" "$top/build/release/bin"; do
    # shellcheck disable=SC2086
    [ ! -x "$bin/baton" ] || exec ${BATON_RUNNER:-} "$bin/baton" pull "${@:-smollm2}"
done
echo "baton: no program is built that could fetch a model: run 'make' first" >&2
exit 1
