# The first 4 MB of a model's file: its keys, its tensors' names, and no more. Lengths alone, so nothing queues.
head -c 4000000 "$BATON_TEST_MODEL" > header.gguf
echo "40 300 1200 77" > lengths
baton run -m ./header.gguf -p x -n 1 2>&1 | grep -c 'runs past the end of the file'
baton plan -q -m ./header.gguf --prefill hexagon-v75 --decode adreno-750 --trace lengths --shape-policy chunk:256+tail --shape-policy chunk:256 --quant w8a8 --kv-dtype f16
baton plan -q -m "$BATON_TEST_MODEL" --prefill hexagon-v75 --decode adreno-750 --trace lengths --json | sed 's/"made_by".*//' > whole
baton plan -q -m ./header.gguf --prefill hexagon-v75 --decode adreno-750 --trace lengths --json | sed 's/"made_by".*//' | diff - whole && echo the same
