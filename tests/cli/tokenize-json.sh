BATON_MODEL_DIR=${BATON_TEST_MODEL%/*} baton tokenize -m "$BATON_TEST_MODEL" -p "Hello world" --json
