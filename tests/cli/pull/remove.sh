# A model that somebody uses stays; names lead nowhere else.
export BATON_MODEL_DIR=$PWD/models
mkdir models
echo mine > models/mine.gguf; echo other > models/other.gguf; echo notes > notes.gguf
mkfifo ready
python3 -c 'import mmap, sys
f = open("models/mine.gguf", "r+b"); m = mmap.mmap(f.fileno(), 0); open("ready", "w").close(); sys.stdin.read()' < /dev/zero & user=$!
: < ready
baton list | grep -c 'mine .*in use'
baton rm mine
echo "$?"
{ kill $user; wait $user; } 2> ended
baton rm mine other --json | sed "s,$PWD,HERE,g"
mkdir -p models/smollm2.parts models/hf/a/b; touch models/hf/a/b/c-q8_0.gguf.0.part
flock models/smollm2.lock baton rm smollm2
flock models/hf/a/b/.lock baton rm hf:a/b
baton rm smollm2 hf:a/b
baton rm ../notes
baton rm mine
ls . models
