# Commands that ask a gateway say that what they print is lost, and end with 1. A gateway without nodes is enough.
: > log
baton-gateway -m "$BATON_TEST_MODEL" --port 0 --control "ipc://$PWD/control" 2>> log & gateway=$!
until grep -q 'http://' log || ! kill -0 $gateway; do sleep 0.1; done
url=$(sed -n 's|.*\(http://127.0.0.1:[0-9]*\).*|\1|p' log | head -n 1)
baton status --url "$url" > /dev/full; echo $?
baton status --url "$url" --json > /dev/full; echo $?
baton status --url "$url" >&-; echo $?
kill $gateway
wait $gateway
