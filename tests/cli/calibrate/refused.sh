# A unit that is missing, a rate that cannot be, fewer points than constants: what is needed.
calibrate() { baton calibrate -o out.json "$@"; echo "exit $?" >&2; }
printf 'model,prompt_or_ctx,ttft\nA,128,37\n' > unit.csv
printf 'model,prompt_or_ctx,ttft_ms\nA,128,0\n' > zero.csv
printf 'model,phase,context,value_tok_s\nA,decode,1024,-3\n' > below.csv
printf 'model,phase,context,value_tok_s\nA,decode,1024,30\nB,decode,1024,60\n' > two.csv
echo '{"avg_latency": 1.5, "latencies": [1.5]}' > latency.json
for file in unit.csv zero.csv below.csv two.csv latency.json none.csv; do calibrate $file -m llama-3.1-8b --like h100; done
calibrate -m llama-3.1-8b --like h100 --point prefill:512=230
calibrate -m llama-3.1-8b --like h100 --point prefill:512=2ms
calibrate -m llama-3.1-8b --like h100 --point decode:1@1024=900tok/s
calibrate -m llama-3.1-8b --point prefill:512=230ms --point decode:1@1024=18ms
calibrate -m llama-3.1-8b --like h100 --point decode:1@1024=18ms --constant decode_bytes_per_us --constant dispatch_ns
calibrate -m llama-3.1-8b --like h100 --point decode:1@1024=18ms --constant efficiency
calibrate -m llama-3.1-8b --like h100 --point decode:1@1024=18ms --constant speed
calibrate -m llama-3.1-8b --like host --point decode:1@1024=18ms
calibrate -m llama-3.1-405b --like rtx-4090 --point decode:1@1024=9s
calibrate -m llama-3.1-8b --point decode:1@1024=18ms --constant efficiency
calibrate -m llama-3.1-8b http://127.0.0.1:1 --like h100
calibrate -m llama-3.1-8b http://127.0.0.1:1 --weights int8
calibrate -m llama-3.1-8b two.csv --longest 100
calibrate -m llama-3.1-8b --like h100 --point decode:1@1024=18ms --where model=A
calibrate -m llama-3.1-8b two.csv --where model
calibrate -m llama-3.1-8b --like a100 --point decode:1@1024=18ms --weights fp8
calibrate -m llama-3.1-8b --like a100 --point decode:1@1024=18ms --kv-dtype fp8
calibrate -m llama-3.1-8b --like h100 --point decode:1@1024=18ms --name NO
calibrate -m llama-3.1-8b --point prefill:512=1ns --point prefill:1024=2ns --point decode:1@64=9ms --point decode:1@99=9ms
head -2 two.csv > one.csv
printf 'model,phase,context,value_tok_s\nB,decode,512,60\n' > b.csv
calibrate -m llama-3.1-8b one.csv b.csv
calibrate -m llama-3.1-8b http://127.0.0.1:1 two.csv
calibrate -m llama-3.1-8b
[ ! -e out.json ] && echo 'no profile was written'
