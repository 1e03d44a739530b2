#!/bin/sh
# Every row of the kernels' dispatch table, of each machine, must have been run by a test program somewhere:
#   tests/rows.sh [TABLE [FOLDER]]
# TABLE: common/kernels/kernels.c, where the rows stand for each machine. FOLDER: build/rows, where tests/run.sh leaves
# a file for each build: "ran|skipped|missed ROW PROGRAM" in each line. One line for each row: how many programs ran it,
# in which builds; and how many could not. A row that ran nowhere fails, unless its machine is excused: FOLDER has
# MACHINE.excused, with the reason in it, where what builds or runs for that machine could not be had (make test-foreign).
# `make test-emulated test-aarch64 SHORT=1` and then this is what CI does.
set -eu
cd "$(dirname "$0")/.."
table=${1:-common/kernels/kernels.c} folder=${2:-build/rows}
rows=$(awk '/defined\(__x86_64__\)/ { m = "x86_64" } /defined\(__aarch64__\)/ { m = "aarch64" } /^#else/ { m = "" }
    m != "" && match($0, /^ *ROW\([a-z0-9]+,/) { row = $0; sub(/^ *ROW\(/, "", row); sub(/,.*/, "", row); print m ":" row }' "$table")
[ "$rows" ] || { echo "rows.sh: found no row in $table" >&2; exit 1; }
# The machine of a build is its name, or this one.
here=$(uname -m) failed=0
for row in $rows; do
    machine=${row%%:*} isa=${row#*:} ran=0 skipped=0 where=''
    for said in "$folder"/*; do
        build=$(basename "$said")
        case $build in *.excused) continue ;; aarch64 | riscv64 | ppc64le | i686) of=$build ;; *) of=$here ;; esac
        [ "$of" = "$machine" ] && [ -f "$said" ] || continue
        n=$(sort -u "$said" | grep -c "^ran $isa " || :)
        skipped=$((skipped + $(sort -u "$said" | grep -c "^skipped $isa " || :)))
        [ "$n" = 0 ] || { ran=$((ran + n)); where="$where $build $n,"; }
    done
    if [ $ran -gt 0 ]; then echo "  $machine $isa: programs that ran it:${where%,}; skipped by $skipped"
    elif [ -s "$folder/$machine.excused" ]; then echo "  $machine $isa: ran nowhere: $(cat "$folder/$machine.excused")"
    else echo "  $machine $isa: ran nowhere, and nothing excuses it"; failed=$((failed + 1)); fi
done
[ $failed = 0 ] || { echo "rows.sh: $failed rows of the dispatch table ran nowhere" >&2; exit 1; }
