# A gateway that does not answer for more than a second: without a terminal the wait is told by one line, on stderr.
: > log; : > told
baton-gateway -m "$BATON_TEST_MODEL" --port 0 --control "ipc://$PWD/control" 2>> log & gateway=$!
until grep -q 'http://' log || ! kill -0 $gateway; do sleep 0.1; done
url=$(sed -n 's|.*\(http://127.0.0.1:[0-9]*\).*|\1|p' log | head -n 1)
kill -STOP $gateway
baton status --url "$url" > out 2>> told & status=$!
until grep -q waiting told || ! kill -0 $status; do sleep 0.1; done
kill -CONT $gateway
wait $status; echo "ended with $?"
sed 's/ \.\.\.$//' told
head -n 1 out | cut -c 1-30
kill $gateway
wait $gateway
