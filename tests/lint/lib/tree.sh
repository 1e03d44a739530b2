# Read by the checks of this folder: how they find what they look at. Nothing is listed by hand, so no new folder escapes.

# tree EXPRESSION: the files that match, as find says it, without what is built and what fuzzers found.
tree() {
    find . \( -path ./build -o -path ./bin -o -path ./.git -o -path ./tests/fuzz/corpus \) -prune -o \
        -type f \( "$@" \) -print | sed 's|^\./||' | sort
}
sources() { tree -name '*.[ch]'; }
# Kinds of sources that no check would read.
strangers() {
    find . \( -path ./build -o -path ./bin -o -path ./.git \) -prune -o \
        \( -type l -o -name '*.inc' -o -name '*.inl' -o -name '*.def' -o -name '*.cc' -o -name '*.cpp' -o -name '*.S' \) \
        -print | sed 's|^\./||' | sort
}
programs() { sources | grep -v '^tests/'; }

# say TEXT: what a check found; nothing is nothing.
fail=0
say() { [ -z "$1" ] || { printf '%s\n' "$1"; fail=1; }; }
