#!/bin/sh
# Fetch models by name into their folder, check them, print their paths: `baton pull`, by the programs that were built.
#   model.sh [NAME ...]      without a name the default model, smollm2
# BATON_BIN in the environment says where the programs are. Where they are another machine's, this machine's own fetch, else
# those, run by BATON_RUNNER.
set -eu
top=$(dirname "$0")/..
for runner in '' "${BATON_RUNNER:-}"; do
    for bin in "${BATON_BIN:-$top/bin}" "$top/bin" "$top/build/release/bin"; do
        [ -x "$bin/baton" ] || continue
        # shellcheck disable=SC2086
        ! $runner "$bin/baton" --version > /dev/null 2>&1 || exec $runner "$bin/baton" pull "${@:-smollm2}"
    done
done
echo "baton: no program is built that could fetch a model: run 'make' first" >&2
exit 1
