baton roofline -m "$BATON_TEST_MODEL" --json | grep -o "\"token_bytes\": [0-9]*, \"bytes_4096\": [0-9]*"
