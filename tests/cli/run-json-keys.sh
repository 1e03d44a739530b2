baton run --json -m "$BATON_TEST_MODEL" -p "The capital of France is" -n 6 -c 512 > out
wc -l < out
grep -oE '"[a-z0-9_]*":' out | sort -u
grep -oE '"(engine|quant|finish_reason)": *"[^"]*"' out
