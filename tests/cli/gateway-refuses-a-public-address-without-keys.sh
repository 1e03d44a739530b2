baton-gateway -m "$BATON_TEST_MODEL" --control tcp://0.0.0.0:5600 2>&1 | sed "s/^[^ ]* //"
