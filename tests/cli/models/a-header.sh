# The first 4 MB of a model's file say all but its id.
head -c 4000000 "$BATON_TEST_MODEL" > header.gguf
baton inspect ./header.gguf -t 2 2>&1 | grep -c 'runs past the end of the file'
baton inspect --head ./header.gguf -t 2 -c 4096 --bandwidth 100
baton inspect --head ./header.gguf -t 2 --json | grep -o '"tokens_per_s[a-z_]*"' | sort | uniq -c
baton inspect "$BATON_TEST_MODEL" -t 2 -c 4096 --bandwidth 100 | grep -v '^model id\|^this machine' > whole
baton inspect --head ./header.gguf -t 2 -c 4096 --bandwidth 100 | grep -v '^model id\|^this machine' | diff - whole && echo the same
