# Measured times of others become a profile: rows of a table, the output of a benchmark, points that are typed.
cat > flm.csv <<'END'
device,model,format,engine,phase,context,value_tok_s_or_s,source
Ryzen AI 7 350,LLaMA 3.2 1B,q4,FastFlowLM 0.9.30,decode,1024,64.5,llama3_results.md
Ryzen AI 7 350,LLaMA 3.2 1B,q4,FastFlowLM 0.9.30,decode,4096,58.9,llama3_results.md
Ryzen AI 7 350,LLaMA 3.2 1B,q4,FastFlowLM 0.9.30,decode,16384,45.5,llama3_results.md
Ryzen AI 7 350,LLaMA 3.2 1B,q4,FastFlowLM 0.9.30,prefill,1024,1686,llama3_results.md
Ryzen AI 7 350,LLaMA 3.2 1B,q4,FastFlowLM 0.9.30,prefill,4096,2339,llama3_results.md
Ryzen AI 7 350,LLaMA 3.2 1B,q4,FastFlowLM 0.9.30,prefill,16384,1706,llama3_results.md
Ryzen AI 7 350,Qwen 3 0.6B,q4,FastFlowLM 0.9.31,decode,1024,66.5,qwen3_results.md
END
baton calibrate flm.csv -m llama-3.2-1b --weights fp4 --where 'model=LLaMA 3.2 1B' -o xdna.json
# The profile is one like any other.
baton simulate --synthetic in:1000,out:20,rate:0.1 --limit 3 -m llama-3.2-1b -c 4096 --prefill 0 --decode 1:./xdna.json --chunk-tokens 4096 | grep '^cluster'
echo '[{"model_type": "llama 8B F16", "gpu_info": "NVIDIA GeForce RTX 4090", "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ns": 71000000},
 {"model_type": "llama 8B F16", "gpu_info": "NVIDIA GeForce RTX 4090", "n_prompt": 0, "n_gen": 128, "n_depth": 512, "avg_ns": 2300000000},
 {"model_type": "llama 8B F16", "gpu_info": "NVIDIA GeForce RTX 4090", "n_prompt": 64, "n_gen": 64, "n_depth": 0, "avg_ns": 1}]' > bench.json
baton calibrate bench.json -m llama-3.1-8b --like rtx-4090 -o own.json --name own
baton calibrate -m llama-3.1-8b --like h100x4 --point prefill:512=30ms --point decode:1@1024=18ms --point decode:1@8192=19ms --json -o four.json | grep -o '"rows": 3\|"held_out": {[^}]*}\|"devices": 4\|"kinds": \[[^]]*\]' | sort
# The next command has the forms of the rows. A profile without steps of its own stands beside one that has them.
baton calibrate -m llama-3.1-8b --like h100 --point decode:1@1024=9ms --weights fp8 --kv-dtype fp8 -o fp8.json | grep '^next'
baton calibrate -m llama-3.1-8b --like h100 --point prefill:512=30ms -o prompts.json | grep '^next'
baton calibrate -m llama-3.1-8b --like hexagon-v75 --point prefill:512=9s --weights fp4 -o npu.json | grep '^next'
# Eight lengths are enough to see that prompts are padded, to 64 and 256 rows here.
points() { for n in "$@"; do echo "--point prefill:$n=$((30 + $(if [ $n -le 64 ]; then echo 64; else echo 256; fi)))ms"; done; }
# shellcheck disable=SC2046
baton calibrate -m llama-3.1-8b $(points 16 40 63 64 65 100 140 255 256) --point decode:1@100=50ms --point decode:1@1000=51ms -o pads.json | grep 'programs\|  140 tokens'
# Some of six lengths or more judge a fit of the others; the profile has their errors, and is fitted on all.
# shellcheck disable=SC2046
baton calibrate -m llama-3.1-8b $(for n in 16 32 64 128 256 512 1024; do echo "--point prefill:$n=$((20 + n / 4))ms"; done) \
    --point decode:1@100=15ms --point decode:1@1000=16ms -o line.json | grep 'held\|without'
tr -d ' \n' < line.json | grep -o '"errors":{[^}]*}'
