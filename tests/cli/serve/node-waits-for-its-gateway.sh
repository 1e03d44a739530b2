# A node names the gateway that it waits for in one line of its log, a second after it began to wait.
: > log
baton-prefill -m "$BATON_TEST_MODEL" --engine host -c 512 --gateway "ipc://$PWD/nobody" 2>> log & node=$!
until grep -q 'waiting for the gateway' log || ! kill -0 $node; do sleep 0.1; done
kill $node
wait $node; echo "ended with $?"
grep -o 'info: waiting.*' log | sed "s,$PWD,HERE,; s/ \.\.\.$//"
