BATON_CACHE_DIR=$PWD/cache timeout 20 baton up -m "$BATON_TEST_MODEL" --port 0 --host 0.0.0.0
