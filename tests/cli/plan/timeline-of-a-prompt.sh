# Modelled figures are the same on every machine.
baton timeline -q -m "$BATON_TEST_MODEL" --profile hexagon-v75 --decode-profile adreno-750 -p 1000 -n 8 -o request.html
baton timeline -m "$BATON_TEST_MODEL" --profile hexagon-v75 --decode-profile adreno-750 -p 1000 -n 8 -o request.json --json --schedule serial |
    grep -oE '"(ttft_ms|exposed_ms|kv_bytes|schedule|companion)":' | sort | uniq -c
grep -c '"ph": "X"' request.json
grep -o '<script id="data"' request.html
# The companion is the one that the NPU's profile names, unless another is asked for.
for companion in '' '--companion m2-ultra-gpu'; do
    baton timeline -m "$BATON_TEST_MODEL" --profile hexagon-v75 --decode-profile rtx-4090 $companion -p 100 -n 1 --json |
        grep -oE '"(companion|decode_profile)": "[^"]*"'
done
baton timeline -q -m "$BATON_TEST_MODEL" --profile hexagon-v75 --decode-profile rtx-4090 -p 300 -n 1 --by-length | tail -12
