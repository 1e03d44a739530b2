baton bench -q --json -m "$BATON_TEST_MODEL" -p 16 -n 0 -r 1 > out
grep -oE '^[{]"machine"|"rows": \[' out
grep -oE '"(int8_gops|fp32_gflops|read_gbytes_per_second|tokens_per_second|ratio_to_roofline|test)":' out | sort -u
tail -c 3 out
