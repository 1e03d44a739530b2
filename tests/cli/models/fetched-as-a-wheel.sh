# Fetching the default model runs no code of a package: pip takes wheels alone. A python3 of the test's own stands for pip.
mkdir bin
printf '#!/bin/sh\nprintf "%%s\\n" "$@" > "%s/asked"\nexit 1\n' "$PWD" > bin/python3
chmod +x bin/python3
PATH=$PWD/bin:$PATH BATON_MODEL_DIR=$PWD/models sh "$(dirname "$0")/../../../deploy/model.sh" 2> said
echo "$?"
grep -x -e download -e --no-deps -e --only-binary=:all: asked
grep -c 'cannot be had' said
ls models
