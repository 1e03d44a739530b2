# One time of a device, what it is made of, and how far the real one may be: by its calibration, by a guess, as a bound.
cat > mine.json <<'END'
{"name": "mine", "title": "made up", "operators": {}, "companion": true, "memory_bytes": 80000000000, "time": {
  "stack": "slow", "f16_ops_per_us": 100000000, "memory_bytes_per_us": 1000000, "dispatch_ns": 3000000,
  "interconnect_bytes_per_us": 400000, "interconnect_ns": 5000, "group_sizes": [2, 4], "idle_mw": 100000,
  "calibration": {"on": "rows of a page", "rows": 30, "shapes": 2, "constants": 3, "kinds": ["prefill", "decode"],
  "region": {"rows": [1, 512], "batch": [1, 8], "context": [1, 4096], "devices": [1, 2]},
  "errors": {"ttft": [52, 240, -31, 9], "tpot": [17, 90, 4, 12]},
  "residuals": {"products": [-90, 0, 40], "attention": [-200, 300], "fixed": [0]}}},
  "stacks": {"fast": {"dispatch_ns": 1000000, "calibration": {"on": "two rows", "rows": 2}},
  "sheet": {"dispatch_ns": null, "idle_mw": null, "tdp_mw": 400000}}}
END
price() {
    echo "$ baton price $*"
    of=$1
    shift
    baton price -m llama-3.1-8b --profile "./mine.json$of" "$@"
    echo
}
price '' --prompt 2048
price '@fast' --batch 8 --context 1000
price '@sheet' --batch 1 --context 1000
price 'x4' --batch 16 --context 1000 --rows 256 --weights int8
price '' --prompt 300 --rows 128 --json | sed 's/, "made_by.*//'
price ''
price '' --prompt 5 --batch 5 --context 5
price '' --batch 5
price '' --prompt 5 --weights fp8
price '@none' --prompt 5
price '' --prompt 700 --rows 300 | sed -n 5p
price '' --prompt 5 --quant w8a8
price '' --batch 4096 --context 4096
npu() { baton price -m llama-3.2-1b --profile hexagon-v75 "$@"; }
npu --prompt 700 --rows 700
npu --prompt 700 --weights int8
# a step needs idle experts too, a prompt its programs alone
moe() { baton price -m qwen3-30b-a3b --profile ane-m4 "$@" 2>&1 | sed -n '1s/[,;].*//p'; }
moe --prompt 64
moe --batch 1 --context 64
baton price -m opt-66b --profile ./mine.json --prompt 5
baton price -m llama-3.1-8b --profile host --prompt 5
