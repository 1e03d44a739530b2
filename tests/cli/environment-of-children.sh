BATON_JSON=yes BATON_PORT=1 BATON_SLOTS=2 baton run --json=no -m "$BATON_TEST_MODEL" -p "The capital of France is" -n 2 -c 512 -q
