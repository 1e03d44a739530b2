echo "40 300" > lengths
plan() { baton plan -q --trace lengths "$@"; echo "exit $?" >&2; }
plan -m llama-2-70b --prefill h100x4 --decode rtx-4090
plan -m llama-2-7b --prefill host --decode h100
plan -m llama-2-7b --prefill hexagon-v75 --decode h1000
plan -m llama-2-7c --prefill hexagon-v75 --decode h100
plan -m smollm2-135m --prefill hexagon-v75 --decode h100 --shape-policy chunk:0
plan -m smollm2-135m --prefill hexagon-v75 --decode h100 --quant w3a8
plan -m smollm2-135m --prefill hexagon-v75 --decode h100 --kv-dtype f64
plan -m smollm2-135m --prefill a100 --decode h100 --shape-policy pow2
plan -m smollm2-135m --prefill a100 --decode h100 --attention sparse
plan -m smollm2-135m --prefill hexagon-v75 --decode h100 --attention sparse:0
plan -m smollm2-135m --prefill hexagon-v75 --decode adreno-750 --by joules
plan -m smollm2-135m --prefill hexagon-v75 --decode h100 --slo ttft:fast
plan -m smollm2-135m --prefill hexagon-v75 --decode h100 --link 0
plan -m smollm2-135m --prefill hexagon-v75 --decode h100 -c 100
plan -m smollm2-135m --prefill hexagon-v75 --decode h100 -o plan.txt
plan -m smollm2-135m --prefill hexagon-v75 --decode h100 --by speed
board='{"name":"board","title":"X","operators":{},"time":{"stack":"s","f16_ops_per_us":1000,"memory_bytes_per_us":100'
echo "$board,\"companion\":\"adreno-75\"}}" > board.json
plan -m smollm2-135m --prefill ./board.json --decode h100
echo "$board,\"companion\":\"host\"}}" > board.json
plan -m smollm2-135m --prefill ./board.json --decode h100
baton plan -q -m smollm2-135m --prefill hexagon-v75 --decode h100 --trace missing
echo 'TIMESTAMP,ContextTokens,GeneratedTokens' > empty.csv
baton plan -q -m smollm2-135m --prefill hexagon-v75 --decode h100 --trace empty.csv
