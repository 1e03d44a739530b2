baton run -m "$BATON_TEST_MODEL" --quant w8a8:llm-int8 -p x
