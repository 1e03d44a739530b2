baton calibrate -m smollm2 || echo "exit $?"
baton calibrate http://127.0.0.1:1 -m smollm2 -o box || echo "exit $?"
baton calibrate http://127.0.0.1:1 -m "$BATON_TEST_MODEL" || echo "exit $?"
ls
