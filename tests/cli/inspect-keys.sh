baton inspect "$BATON_TEST_MODEL" --json -c 1024 | grep -o '"[a-z_]*":' | sort -u
