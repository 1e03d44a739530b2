# A forecast that leaves a field of the model out names it, in every form.
echo "40 300 1200 77" > lengths
baton roofline -m gpt-oss-20b -m deepseek-v3 | sed -n '/^sizes/,/^KV/p'
baton plan -q -m llama-3.2-11b --prefill h100 --decode h100 --trace lengths | grep '^ignored'
baton plan -q -m llama-3.2-11b --prefill h100 --decode h100 --trace lengths --json -o plan.html | grep -o '"ignored": \[{[^}]*}\]'
grep -o '"field": *"cross_attention_layers"' plan.html
run() { baton simulate --synthetic in:200,out:20,rate:1 --limit 4 -c 8192 "$@"; }
run -m qwen3-30b-a3b -m llama-3.2-11b --prefill 1:h100x4,1:h100@llama-3.2-11b --decode 1:h100x4,1:h100@llama-3.2-11b \
    --requests qwen3-30b-a3b:1,llama-3.2-11b:1 --report run.html | grep '^ignored'
run -m qwen3-30b-a3b --prefill 1:h100 --decode 1:h100 --json | grep -o '"ignored": \[{[^}]*}\]'
grep -o 'llama-3.2-11b, cross_attention_layers' run.html | head -1
run -m qwen3-30b-a3b --prefill 1:h100 --decode 1..2:h100 --slo ttft:10s --points p | grep '^ignored'
run -m qwen3-30b-a3b --prefill 1:h100 --decode 1:h100 --slo ttft:10s --ramp | grep '^ignored'
run -m qwen3-30b-a3b --prefill 1:h100 --decode 1:h100 --slo ttft:10s --ramp --json | grep -o '"ignored": \[{[^}]*}\]'
run -m qwen3-235b-a22b --prefill 1:h100 --decode 1:h100
run -m qwen3-30b-a3b --prefill 1:hexagon-v75 --decode 1:h100 --quant w4a8 --kv-memory 2G | grep '^ignored'
run -m deepseek-v3 --prefill 1:hexagon-v75 --decode 1:h100
# A field that makes a figure a bound makes its error one, on a calibrated device too.
baton price -m gpt-oss-20b --profile h100 --prompt 512 | grep -o 'ms  bound'
run -m qwen3-30b-a3b --prefill 1:h100 --decode 1:h100 --json | grep -o '"text": "bound"' | uniq
# A window is priced, and window layers hold no more; beyond it no error is known.
baton price -m gemma-3-27b --profile h100 --batch 16 --context 4096 | grep -o '^gemma.*positions'
baton price -m gemma-3-27b --profile h100 --batch 64 --context 4096 2>&1
for tokens in 512 513; do baton price -m gemma-3-1b --profile xdna2@flm --prompt $tokens | grep -o 'ms  +[^;]*'; done
for context in 512 4096; do baton price -m gemma-3-1b --profile h100 --batch 8 --context $context | grep -o 'ms  +[^;]*'; done
baton price -m gemma-3-1b --profile xdna2@flm --batch 1 --context 32768 | sed -n '2,/beyond/p'
baton price -m gemma-3-1b --profile xdna2@flm --batch 1 --context 32768 --json | grep -o '"outside": [^]]*]' | head -1
baton price -m gemma-3-27b --profile h100x2 --batch 16 --context 4096 | grep -o '[0-9.]* ms' | head -1
baton price -m gemma-3-27b --profile h100x2 --batch 16 --context 1024 | grep -o '[0-9.]* ms' | head -1
