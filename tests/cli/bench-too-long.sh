baton bench -m "$BATON_TEST_MODEL" -p 8000 -d 1000
