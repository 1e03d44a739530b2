# Rates that searches found are compared draw by draw, runs of the same speed and clusters of the same size row by row;
# neither by unlike limits or shares, nor with a single run.
made() { printf '"made_by": {"options": {"slo": "ttft:1s", "ramp-share": "%s", "slo-share": "0.99"}}' "$1"; }
ramp() {
    printf '{"best_rps": %s, "steps": [{"speed": 1, "good": 9}, {"speed": 2, "good": %s}, {"speed": %s, "good": 1}],' "$1" "$2" "$3"
    printf '"error": {"ttft": {"text": "+- 9 %%"}}, "draws": {"count": 4, "seed": 1, "values": {"best_rps": %s}},' "$4"
    printf '%s}\n' "$(made "$5")"
}
sweep() {
    printf '{"points": [{"prefill": 1, "decode": %s, "goodput_rps": %s}, {"prefill": 2, "decode": 2, "goodput_rps": 5}],' "$1" "$2"
    printf '"cheapest": {"prefill": 1, "decode": %s}, "certain": 0.7, %s}\n' "$1" "$(made 0.99)"
}
ramp 4.5 8 8 '[4, 4, 5, 5]' 0.99 > a.json
ramp 9 9 16 '[9, 8, 9, 5]' 0.99 > b.json
ramp 9 9 16 '[9, 8, 9, 5]' 0.9 > c.json
sweep 3 4.5 > d.json
sweep 4 6.5 > e.json
printf '{"points": {}, %s}\n' "$(made 0.99)" > f.json
baton compare a.json b.json
baton compare a.json b.json --json | grep -oE '"kind": "[a-z]+"|"best_rps": ([0-9.]+|\{[^}]*\})'
baton compare d.json e.json
baton compare a.json c.json
baton compare a.json f.json
