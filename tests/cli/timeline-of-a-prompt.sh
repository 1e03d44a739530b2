# Modelled figures are the same on every machine.
baton timeline -q -m "$BATON_TEST_MODEL" --profile hexagon-v75 --decode-profile adreno-750 -p 1000 -n 8 -o request.html
baton timeline -m "$BATON_TEST_MODEL" --profile hexagon-v75 --decode-profile adreno-750 -p 1000 -n 8 -o request.json --json --schedule serial |
    grep -oE '"(ttft_ms|exposed_ms|kv_bytes|schedule|companion)":' | sort | uniq -c
grep -c '"ph": "X"' request.json
grep -o '<script id="data"' request.html
