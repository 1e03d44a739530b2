# Files of a hub: which a name means, with the hub's hashes, in parts, gone on with where a connection ended.
export BATON_MODEL_DIR=$PWD/models
python3 "$(dirname "$0")/hub.py" . 2> server.log & server=$!
until [ -e url ] || ! kill -0 $server; do sleep 0.1; done
HF_ENDPOINT=$(cat url)/; export HF_ENDPOINT
tell() { sed "s,$PWD,HERE,; s,127.0.0.1:[0-9]*,HUB,g"; }
baton pull hf:acme/tiny --json 2>&1 | tell
baton pull hf:acme/tiny:Q8_0 hf:acme/tiny:q5_0 2>&1 | tell
(cd models && find . -type f | sort)
baton list | tell
baton pull hf:acme/tiny 2>&1 | tell
BATON_OFFLINE=1 baton pull hf:acme/tiny:q8_0 --json 2>&1 | tell
baton tokenize -m hf:acme/tiny -p x 2>&1 | tell
baton tokenize -m hf:acme/tiny:q2_k -p x 2>&1 | tell
baton pull hf:acme/tiny:q2_k hf:acme/none 2>&1 | tell
# A connection that ends in the middle; a server that knows no ranges; what came is kept.
baton pull hf:acme/cut hf:acme/no-range 2>&1 | tell
baton pull hf:acme/ends 2>&1 | tell
(cd models && find . -name '*.part' | sed 's/[0-9a-f]*\.part/HASH.part/')
cmp models/hf/acme/tiny/tiny-q4_k_m.gguf models/hf/acme/cut/tiny-q4_k_m.gguf && cmp models/hf/acme/cut/tiny-q4_k_m.gguf models/hf/acme/no-range/tiny-q4_k_m.gguf
grep -E '/(cut|no-range|ends)/' log | grep files
# Repositories that are not right.
for r in liar small huge short:q5_0 hostile twice garbled loop plain file; do baton pull "hf:acme/$r" 2>&1 | tell | sed 's,its disk has.*left:,its disk has * left:,'; done
baton pull hf:acme/a/b hf:acme 2>&1
baton pull hf:../tiny 2>&1
baton pull hf:acme/tiny --hub http://192.0.2.1 2>&1
baton pull hf:acme/tiny --hub ftp://127.0.0.1 2>&1
baton pull hf:acme/tiny --hub https://user:secret@127.0.0.1 2>&1
# A token is for the hub alone, and in no message.
: > log
printf 'secret\n' > token.txt
baton pull hf:acme/gated 2>&1 | tell
HF_TOKEN=secret baton pull hf:acme/gated 2>&1 | tell
baton pull hf:acme/gated:q8_0 --hub-token-file token.txt 2>&1 | tell
HF_TOKEN='sec ret' baton pull hf:acme/gated 2>&1
cat log
# A server whose certificate nobody signed gets no request, and nothing is kept; the same where a hub sends there.
: > log
HF_TOKEN=secret baton pull hf:acme/tiny:q5_0 --hub "$(cat https)" 2>&1 | tell
baton pull hf:acme/unsigned 2>&1 | tell
cut -d ' ' -f 1-2 log
[ -e models/hf/acme/unsigned ] || echo "nothing is kept"
# `run` takes what is here, else asks the hub; offline it does not.
: > log
baton run -m hf:acme/new -p x 2>&1 | tail -n 1 | tell
baton run -m hf:acme/other --offline -p x 2>&1 | tell
baton run -m hf:acme/new -p x 2>&1 | tail -n 1 | tell
cut -d ' ' -f 1-2 log
baton rm hf:acme/tiny:q5_0 hf:acme/new | tell
baton rm hf:acme/tiny:q5_0
baton rm hf:acme/ends
ls models/hf/acme
baton list | tell
(cd models && find . -name '*q5_0*')
kill $server
