timeout 20 baton-prefill -m "$BATON_TEST_MODEL" --gateway ipc://nobody --id "prefill 0" 2>&1 | sed "s/^[^ ]* //"
timeout 20 baton-decode -m "$BATON_TEST_MODEL" --gateway ipc://nobody --advertise "tcp://10.0.0.1:5601 " 2>&1 | sed "s/^[^ ]* //"
