# Into the cache, where other tests look for the same package; then to a file, as a model small enough to be quick has no place here.
baton compile -m "$BATON_TEST_MODEL" -q > made
sed -n 's/^\(model\|quantisation\|device\|shapes\|fallbacks\) .*/&/p' made
package=$(sed -n 's/^\(\/.*\.bpk\)  .*/\1/p' made)
baton inspect "$package" > seen
grep -c '^  *1  *[0-9]* .* [KM]iB ' seen
sed -n '/^placement/,/^$/p' seen | awk '{ print $1, $2 }'
baton inspect "$package" --errors | sed -n '2p;$p'
baton inspect "$package" --json | grep -oE '"(specializations|weights_bytes|arena_bytes|tensors|sites|fallbacks|sessions|placement|rounding|digest|clusters|chunk_sharing|layout|kv_state|on_chip|on_chip_bytes|resident_bytes|streamed_bytes|spill_bytes|row_padding_bytes|tile_padding_macs)":' | sort -u
baton run -m "$BATON_TEST_MODEL" --package "$package" -p "The capital of France is" -n 2 -c 512 --json | grep -oE '"(engine|quant|shape_policy)": "[^"]*"'
