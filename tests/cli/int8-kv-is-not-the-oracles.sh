timeout 20 baton-prefill -m "$BATON_TEST_MODEL" --engine reference --kv-dtype int8 --gateway ipc://nobody 2>&1 | sed "s/^[^ ]* //"
timeout 20 baton-decode -m "$BATON_TEST_MODEL" --engine reference --kv-dtype int8 --gateway ipc://nobody 2>&1 | sed "s/^[^ ]* //"
timeout 20 baton run -m "$BATON_TEST_MODEL" --engine reference --kv-dtype int8 -p x 2>&1
echo "ended with $?"
