# Fetching a model runs no code of a package: pip takes wheels alone, pinned and hashed. A python3 of the test's own stands
# for pip; the next words say which files to put where.
mkdir bin
printf '#!/bin/sh\nprintf "%%s\\n" "$@" > "%s/asked"\ncat "%s/models/smollm2.parts/requirement.txt" > "%s/pinned"\nexit 1\n' "$PWD" "$PWD" "$PWD" > bin/python3
chmod +x bin/python3
PATH=$PWD/bin:$PATH BATON_MODEL_DIR=$PWD/models sh "$(dirname "$0")/../../../deploy/model.sh" 2> said
echo "$?"
grep -x -e download -e --no-deps -e --only-binary=:all: -e --require-hashes asked
cat pinned
sed "s,$PWD,HERE," said
ls models
