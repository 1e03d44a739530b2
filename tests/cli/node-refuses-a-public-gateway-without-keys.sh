baton-prefill -m "$BATON_TEST_MODEL" --gateway tcp://192.0.2.1:5600 2>&1 | sed "s/^[^ ]* //"
