baton inspect "$BATON_TEST_MODEL" -c 64
