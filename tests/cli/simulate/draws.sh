# Runs on devices that take what a draw says: a band of each figure, the same for one seed. Two clusters that are drawn
# alike are compared draw by draw.
device() { # NAME SPEED CALIBRATION
    printf '{"name": "%s", "title": "made up %s", "operators": {}, "companion": true, "memory_bytes": 64000000000,
        "time": {"stack": "none", "f16_ops_per_us": %s000, "memory_bytes_per_us": %s, "dispatch_ns": 1000000%s}}' \
        "$1" "$1" "$2" "$2" "$3" > "$1.json"
}
calibrated=', "calibration": {"on": "rows of a test", "rows": 40, "shapes": 3, "kinds": ["prefill", "decode"],
    "region": {"context": [1, 600]}, "errors": {"ttft": [90, 310, -12, 17], "tpot": [60, 200, 5, 14]},
    "residuals": {"products": [-90, -40, 0, 50, 120], "attention": [-200, 0, 250], "fixed": [-100, 0, 150]}}'
device bound 100000 ''
device known 100000 "$calibrated"
device other 96000 "$calibrated"
device slow 50000 "$calibrated"
simulate() { # NAME OPTIONS
    name=$1
    shift
    baton simulate -q --synthetic in:200-900,out:20,rate:2 --limit 20 -m llama-3.2-1b -c 4096 --prefill "1:./$name.json" \
        --decode "1:./$name.json" "$@"
}
simulate known --draws 20 | grep -E '^(errors|device|band)'
simulate known --draws 20 | grep band | cksum > once
simulate known --draws 20 | grep band | cksum | diff once - && echo the same
simulate known --draws 20 --seed 2 | grep band | cksum | cmp -s once - || echo other draws
simulate bound | grep -E '^(errors|device|band)'
for name in known other slow bound; do simulate $name --draws 20 --json > $name; done
baton compare known other slow | grep -E 'modelled:|_ms  *mean'
baton compare known other --json | tr -d '\n' | grep -o '"[a-z0-9_]*": {"less_ratio": [^}]*}'
baton compare known bound
baton compare known bound --bounds | grep modelled:
# Two runs that are alike win over each other in no draw; a run keeps its limits in some draws.
baton compare known known | grep -oE '^ttft_ms  *mean|; alike.*'
simulate known --draws 20 --slo tpot:27ms --json > limits
simulate known --draws 20 --slo tpot:27ms --slo-share 0.5 --json > half
baton compare limits half | grep -E 'keeps its limits|draws.band'
baton compare known slow | grep -c '^draws.band'
# A sweep gives nodes of one device for nodes of another.
sweep() { baton simulate -q --synthetic in:200,out:9,rate:1 --limit 9 -m llama-3.2-1b -c 4096 --slo ttft:1s "$@"; }
sweep --prefill 1..2:./known.json --decode 1..2:./bound.json
sweep --prefill 1..2:./known.json --decode 1..2:./bound.json --bounds | grep -E 'cheapest|errors|is a bound'
sweep --prefill 1..2:./known.json --decode 1:./bound.json | grep cheapest
# A sweep and a ramp are made again in each draw; what is in the file of points is not tried again.
sweep() {
    baton simulate -q --synthetic in:3000,out:60,rate:4 --limit 20 -m llama-3.2-1b -c 4096 --slo ttft:400ms,tpot:40ms \
        --draws 12 "$@"
}
sweep --prefill 1..4:./known.json --decode 1..4:./other.json --points p --plot sweep.html
grep -oE 'class=.fill a|carries in|The band [a-z ]*|cannot tell[^<]*' sweep.html
sweep --prefill 1..4:./known.json --decode 1..4:./other.json --points p | grep tried
sweep --prefill 1..4:./known.json --decode 1..4:./other.json --points p --json | tr -d '\n' |
    grep -oE '"(certain|ties|sure|draws)": (\[[^]]*\]|\{"(prefill|count)[^}]*\}|[0-9.]+|null)'
sweep --prefill 1:./known.json --decode 1..4:./slow.json | grep -E 'verdict|sure'
sweep --prefill 2:./known.json --decode 2:./known.json --ramp | grep -E 'highest|band'
sweep --prefill 2:./known.json --decode 2:./known.json --ramp --json | tr -d '\n' | grep -oE '"band": \{[^}]*\}'
