# A calibrated device has error bars, of the rows that were held out; another one has none. Beyond the region that it was
# calibrated in, a figure says so.
calibrated='"calibration": {"on": "rows of a test", "rows": 40, "shapes": 3, "constants": 5, "kinds": ["prefill", "decode"],
    "region": {"rows": [1, 512], "batch": [1, 8], "context": [1, 600], "devices": [1, 1]},
    "errors": {"ttft": [90, 310, -12, 17], "tpot": [60, 200, 5, 14]},
    "residuals": {"products": [-90, -40, 0, 50, 120], "attention": [-200, 0, 250], "fixed": [-100, 0, 150]}}'
device() { # NAME SPEED CALIBRATION
    printf '{"name": "%s", "title": "made up %s", "operators": {}, "companion": true, "memory_bytes": 64000000000,
        "time": {"stack": "none", "f16_ops_per_us": %s000, "memory_bytes_per_us": %s, "dispatch_ns": 1000000%s}}' \
        "$1" "$1" "$2" "$2" "${3:+, $3}" > "$1.json"
}
device bound 100000 ''
device known 100000 "$calibrated"
device other 95000 "$calibrated"
echo "40 300 1200 77" > lengths
plan() {
    prefill=$1 decode=$2
    shift 2
    baton plan -q -m llama-3.2-1b --prefill "./$prefill.json" --decode "./$decode.json" --trace lengths --kv-dtype f16 \
        --quant f16 --shape-policy whole --shape-policy step:256 "$@"
}
plan known other | sed 1,2d
# A pair of which one is a bound is planned, and marked; a device beside such a pair is not, unless that is wanted.
plan known bound | grep -E '^  error|is a bound|is calibrated'
plan known bound --colocated
echo $?
plan known bound --colocated --bounds | grep alone
# Two devices that are nearly alike: nobody can tell.
plan known other --by ttft --colocated --draws 200 | grep -E 'draws|ties'
plan known other --by ttft --colocated --draws 200 | cksum > once
plan known other --by ttft --colocated --draws 200 | cksum | diff once - && echo the same
plan known other --draws 0 | grep -c draws
plan known other --json | tr '\n' ' ' | sed 's/.*"best": //' | grep -oE '"(ttft|tpot|joules)": \{"text[^}]*\}' | head -3
plan known other --json | tr '\n' ' ' | grep -oE '"certain": [0-9.]*, "ties": \[\]'
