: > log
baton-gateway -m "$BATON_TEST_MODEL" --port 0 --control "ipc://$PWD/control" --log-level info > /dev/null 2>> log &
gateway=$!
until grep -q 'http://' log || ! kill -0 $gateway 2> /dev/null; do sleep 0.1; done
port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\).*|\1|p' log | head -n 1)
baton-gateway -m "$BATON_TEST_MODEL" --port "$port" --control "ipc://$PWD/other" 2>&1 | sed "s/^[^ ]* //; s/$port/PORT/"
kill $gateway
wait $gateway
echo "exit code $?"
