# Runs side by side: what stands in the files, its intervals, and what differs by more than chance; and files that are none.
run() {
    printf '{"requests": 40, "failed": %s, "requests_per_second": 2.5, "goodput_rps": 2, "input_tokens_per_second": 100,' "$2"
    printf '"output_tokens_per_second": 50, "points": {"ttft_ms": ['
    for i in $(seq 40); do printf '%s%s' "${sep:-}" $(($1 + i % 5)); sep=,; done
    sep=
    printf '], "tpot_ms": [7, 7, 7], "e2e_ms": []}}\n'
}
run 100 0 > one.json
run 200 3 > two.json
baton compare one.json two.json
baton compare one.json one.json --json --seed 3 | grep -c '"differs": *true' || echo "no difference from itself"
baton compare one.json two.json --json | tr -d ' \n' | grep -o '"differs":[a-z]*' | sort | uniq -c | tr -s ' '
baton compare one.json
echo '{"points": {"ttft_ms": [1, "x"]}}' > bad.json
baton compare one.json bad.json
echo '{"requests": 1}' > none.json
baton compare one.json none.json
echo '{"requests": 1' > torn.json
baton compare one.json torn.json
baton compare one.json missing.json
# Runs of one load are compared by request, and never by less than late work can have moved them.
of() {
    printf '{"points": {"tpot_ms": [%s], "load": "7", "requests": {"tpot_ms": [0, 1, 2, 3]}}' "$1"
    printf ', "pace": {"moved": {"tpot_ms": {"most_ms": %s, "most_ratio": %s, "worst_ms": %s}}}}\n' "$2" "$3" "$4"
}
of 10,20,40,80 0 0 0 > first.json
of 11,22,44,88 0.4125 0.01 0.8 > second.json
of 11,22,44,88 8.25 0.2 16 > late.json
baton compare first.json second.json late.json | grep -E '^[A-C]|late work|tpot_ms'
