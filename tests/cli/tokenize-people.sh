baton tokenize -m "$BATON_TEST_MODEL" -p "Hi\\ ½"
