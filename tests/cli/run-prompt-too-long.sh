yes word | head -n 100 > t.txt; baton run -m "$BATON_TEST_MODEL" -f t.txt -c 64
