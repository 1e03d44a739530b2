echo short > t.txt; baton perplexity -m "$BATON_TEST_MODEL" -f t.txt
