baton inspect "$BATON_TEST_MODEL" --errors
