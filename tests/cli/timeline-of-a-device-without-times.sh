baton timeline -m "$BATON_TEST_MODEL" --decode-profile adreno-750
