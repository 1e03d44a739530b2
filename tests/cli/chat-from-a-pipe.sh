printf 'What is the capital of France?\n\nAnd of\\\nItaly?\n/clear\nWhat is the capital of France?' | baton chat -m "$BATON_TEST_MODEL" --temp 0 -n 12 -c 512 -q --engine host
