# A user's own profile decides. Its power: nothing known, a bound, or terms, with polling for as long as the device
# works. Its sessions: the cost of a switch where the weights fill several.
printf '{"timestamp": 0, "input_length": 512, "output_length": 1}\n' > one.jsonl
plan() {
    printf '{"name": "mine", "title": "made up", "operators": {"linear": ["int8"]}%s, "time": {"stack": "none",
        "f16_ops_per_us": 1000000, "memory_bytes_per_us": 50000%s}}' "$2" "$1" > mine.json
    baton plan -q -m llama-3.2-1b --prefill ./mine.json --decode m2-ultra-gpu --link 10 --trace one.jsonl -c 1024 \
        --shape-policy chunk:512 --quant w8a8 --kv-dtype f16 --json |
        grep -oE '"choices": \[[^]]*' | grep -oE '"(ttft_ms|joules|joules_of_tdp|sessions)": [^,]*' | tr '\n' ' '
    echo "$1$2"
}
plan '' ''
plan ', "tdp_mw": 10000' ''
plan ', "idle_mw": 1000' ''
plan ', "idle_mw": 1000, "polling_mw": 500' ''
plan '' ', "map_window_bytes": 500000000'
plan '' ', "map_window_bytes": 500000000, "session_switch_ns": 7000000'
plan ', "polling_mw": 0' ''
plan '' ', "session_switch_ns": 7000000'
