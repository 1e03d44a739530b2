#!/bin/sh
# Builds the kernels and their tests with other compilers and runs them, one row for each:
#   tests/compilers.sh clang-14 'gcc-11 -O3' 'clang-19 -O2 -flto -fuse-ld=lld-19'
# Without names: every gcc and clang of Debian 12 that is installed, with -O2, -O3 and link-time optimisation.
# T=digest runs test_digest* alone. A compiler named here that is not installed fails; the digest must be one.
set -u
cd "$(dirname "$0")/.." || exit 1
if [ $# = 0 ]; then
    for c in gcc-11 gcc-12 clang-14 clang-15 clang-16 clang-19; do
        command -v $c > /dev/null || { echo "skipped: $c: not installed"; continue; }
        for flags in -O2 -O3 '-O2 -flto'; do
            case "$c$flags" in clang*flto*) # its objects are for the linker of the same release
                command -v ld.lld-"${c#clang-}" > /dev/null || { echo "skipped: $c $flags: lld-${c#clang-} is not installed"; continue; }
                flags="$flags -fuse-ld=lld-${c#clang-}" ;;
            esac
            set -- "$@" "$c $flags"
        done
    done
fi
passed=0 failed=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
for row in "$@"; do
    cc=${row%% *} flags=${row#"$cc"}
    folder=build/compilers/$(printf %s "$row" | tr -c 'a-zA-Z0-9' _)
    if ! make -s B="$folder" CC="${CC_PREFIX:+$CC_PREFIX }$cc" CFLAGS="${flags:- -O2}" KERNELS="${T:-}" kernel-tests > "$out" 2>&1; then
        tail -20 "$out"
        echo "$row: not built"
        failed=$((failed + 1))
        continue
    fi
    : > "$out"
    bad=0
    programs=$(find "$folder/kernels" -type f -name "test_${T:-}*" ! -name '*.[do]*' | sort)
    # shellcheck disable=SC2016
    echo "$programs" | xargs -P "$(nproc)" -n 1 sh -c 'timeout 300 "$1" > "$1.out" 2>&1; echo $? > "$1.done"' sh
    for program in $programs; do
        cat "$program.out" >> "$out"
        [ "$(cat "$program.done")" = 0 ] || { echo "$row: $program failed"; bad=$((bad + 1)); }
    done
    ok=$(grep -c '^\[       OK \]' "$out")
    [ $bad = 0 ] || cat "$out"
    printf '%-36s %4d tests, digests %s\n' "$row" "$ok" "$(sed -n 's/^digest: [a-z0-9]* //p' "$out" | sort -u | tr '\n' ' ')"
    passed=$((passed + ok)) failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
