baton run -m "$BATON_TEST_MODEL" --quant w8a8:no-r3 -p x
