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
echo '{"points": {}, "pace": {"is_void": true, "late_ratio": 0.05}}' > void.json
baton compare one.json void.json
