baton inspect "$BATON_TEST_MODEL" -c 64 -t 2
