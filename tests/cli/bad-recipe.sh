baton compile -m "$BATON_TEST_MODEL" --quant w3a8 -o x
