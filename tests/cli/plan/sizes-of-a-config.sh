# A model that is a config.json: its sizes are those of the known shape, and a field that is missing is named.
llama='"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8'
echo "{$llama, \"hidden_size\": 4096, \"intermediate_size\": 14336, \"vocab_size\": 128256}" > own.json
echo "{$llama, \"intermediate_size\": 14336, \"vocab_size\": 128256}" > missing.json
echo "{$llama, \"hidden_size\": 4096, \"intermediate_size\": 14336, \"vocab_size\": 0}" > beyond.json
baton roofline -m own.json -m llama-3.1-8b | head -4
priced() { baton roofline -m "$1" --json | grep -o '"ttft_seconds": [0-9.]*'; }
priced llama-3.1-8b > known
priced own.json | diff known - && echo 'the same prices'
echo "40 300 1200 77" > lengths
baton plan -q -m own.json --prefill hexagon-v75 --decode adreno-750 --trace lengths --shape-policy chunk:256+tail --quant w8a8 --kv-dtype f16 | grep "^best"
for file in missing beyond none; do baton plan -q -m $file.json --prefill h100 --decode h100 --trace lengths; echo "exit $?"; done 2>&1
# max_position_embeddings is the longest sequence, as in a model's file.
echo "{$llama, \"hidden_size\": 4096, \"intermediate_size\": 14336, \"vocab_size\": 128256, \"max_position_embeddings\": 1024}" > short.json
baton plan -q -m short.json --prefill h100 --decode h100 --trace lengths -c 2048 2>&1
baton plan -q -m short.json --prefill h100 --decode h100 --trace lengths | sed -n 's/.*\(contexts up to.*\)/\1/p'
baton simulate --synthetic in:100,out:4,rate:1 --limit 2 -m short.json --prefill 1:h100 --decode 1:h100 -c 0 | sed -n 's/.*\(sequences of .*\)/\1/p'
