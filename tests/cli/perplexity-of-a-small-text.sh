yes 'The quick brown fox jumps over the lazy dog.' | head -n 8 > t.txt
baton perplexity -q --engine host -m "$BATON_TEST_MODEL" -f t.txt -c 32 --chunks 1 | sed 's/[0-9.]* tokens.s$/R tokens\/s/'
baton perplexity -q --engine host -m "$BATON_TEST_MODEL" -f - -c 32 --chunks 1 --json < t.txt | grep -o '"[a-z0-9_]*":' | tr '\n' ' '
