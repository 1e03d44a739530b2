#!/bin/sh
# Every check in this folder, over the whole tree. Each prints "file: what is wrong" and fails on its own.
set -eu
cd "$(dirname "$0")/../.."
fail=0
for check in tests/lint/*.sh; do
    case $check in */run.sh | */self_test.sh) continue ;; esac
    sh "$check" . || { echo "lint: $check failed"; fail=1; }
done
[ $fail = 1 ] || echo "lint: all checks passed"
exit $fail
