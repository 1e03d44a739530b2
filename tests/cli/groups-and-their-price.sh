baton compile -m "$BATON_TEST_MODEL" -q --quant w8a16:group=128
baton compile -m "$BATON_TEST_MODEL" -q --quant w8a16:group=64 --profile hexagon-v75 -o groups.bpk > made
sed -n 's/^\(quantisation\|groups\) .*/&/p' made
baton inspect groups.bpk | sed -n 's/^groups .*/&/p'
