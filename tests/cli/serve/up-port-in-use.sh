: > log
baton-gateway -m "$BATON_TEST_MODEL" --port 0 --control "ipc://$PWD/control" > /dev/null 2>> log & gateway=$!
until grep -q 'http://' log || ! kill -0 $gateway 2> /dev/null; do sleep 0.1; done
port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\).*|\1|p' log | head -n 1)
BATON_CACHE_DIR=$PWD/cache timeout 20 baton up -m "$BATON_TEST_MODEL" --port "$port" 2> err
echo "exit code $?"
sed "s/$port/PORT/" err
[ ! -e cache ] || echo 'it has compiled something'
kill $gateway
wait $gateway
