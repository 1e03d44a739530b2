baton inspect "$BATON_TEST_MODEL" --shape-policy chunk:7.7
