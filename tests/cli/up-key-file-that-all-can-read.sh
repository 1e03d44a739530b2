(umask 022; echo a-key > key.txt)
BATON_CACHE_DIR=$PWD/cache timeout 20 baton up -m "$BATON_TEST_MODEL" --port 0 --api-key-file key.txt
