baton run -m "$BATON_TEST_MODEL" -p "" -n 6 -c 512
