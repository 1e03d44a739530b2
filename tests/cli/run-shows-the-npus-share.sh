baton run "$BATON_TEST_MODEL" -p "The capital of France is" -n 6 -c 512
