# The figures differ from run to run, the form does not.
baton bench -q -m "$BATON_TEST_MODEL" -p 16 -n 2 --batch 2 -r 1 | sed 's, *[0-9][0-9.]* +- [0-9.]* |.*, R,' | tail -n 4
