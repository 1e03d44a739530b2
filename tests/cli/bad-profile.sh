baton compile -m "$BATON_TEST_MODEL" --profile hexagon-v1 -o x
