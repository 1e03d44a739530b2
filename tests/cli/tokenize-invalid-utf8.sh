printf "ab\377" > bad.txt; baton tokenize -m "$BATON_TEST_MODEL" -f bad.txt
