# The commands of docs/clusters.md in short form: each runs, and says how far its figures may be off.
echo TIMESTAMP,ContextTokens,GeneratedTokens > trace.csv
for s in 00 01 02 03 04 05 06 07; do echo "2023-11-16 18:15:$s.0000000,1374,44"; done >> trace.csv
short() {
    echo "$ $*"
    baton simulate -q "$@" --request-cpu 0 --token-cpu 0 | grep '^errors '
}
eight() {
    short trace.csv --limit 8 -m llama-3.1-8b -c 32768 --max-queue 65536 --prefill-slots 64 --slots 256 --batch-rows 256 \
        --link 400 --slo ttft:1s,tpot:12ms "$@"
}
eight --prefill 6:h100 --decode 2:h100 --ramp
eight --prefill 7:h100 --decode 1:h100 --ramp
eight --prefill 4:h100 --decode 4:h100 --colocated --chunk-tokens 512 --ramp
eight --prefill 6:h100 --decode 2:h100 --speed 2 --draws 20
short --synthetic in:15000,out:5,rate:1000 --concurrency 48 --limit 48 -m qwen3-32b --max-queue 65536 --weights nvfp4 \
    --kv-dtype fp8 --prefill 40:b200@trtllm --decode 6:b200x4@trtllm --link 400 --slots 80
short trace.csv --limit 8 -m llama-3.2-1b -c 8192 --slo ttft:10s,tpot:150ms --ramp --speed 0.001 \
    --prefill 1:hexagon-v75 --decode 1:adreno-750 --link 1
baton simulate -q trace.csv --limit 8 -m gemma-3-270m -c 8192 --kv-memory 256M --prefill 1:h100 --decode 1:h100 |
    grep -E '^(sent  +[0-9.]+ MiB|prefill-|decode-)'
short trace.csv --limit 8 -m llama-3.1-8b --prefill 16:h100 --decode 8:h100 --link 400 \
    --shape-policy chunk:2048+tail --kv-dtype f16
for f in a b; do
    baton simulate -q trace.csv --limit 8 -m llama-3.1-8b -c 32768 --prefill "$([ $f = a ] && echo 6 || echo 5):h100" \
        --decode 2:h100 --draws 20 --json > $f.json
done
baton compare a.json b.json | grep -oE '[0-9]+ of 20 draws|all 20 draws' | head -1
