baton compile -m "$BATON_TEST_MODEL" --shape-policy chunk:0 -o x
