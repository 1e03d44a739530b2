baton keygen keys > /dev/null
: > gateway.log
echo "$(head -c 24 /dev/urandom | base64) role=admin" > api.txt && chmod 600 api.txt # as the documents say it
echo another > wrong.txt && chmod 600 wrong.txt
common="-m $BATON_TEST_MODEL --keys keys --drain-timeout 1s"
baton-gateway $common --key gateway --port 0 --api-key-file api.txt --control "ipc://$PWD/control" 2>> gateway.log & gateway=$!
baton-prefill $common --key prefill-0 -c 512 --gateway "ipc://$PWD/control" 2> prefill.log & prefill=$!
baton-decode $common --key decode-0 -c 512 --gateway "ipc://$PWD/control" --listen "ipc://$PWD/kv" 2> decode.log & decode=$!
until grep -q ' ready http' gateway.log || ! kill -0 $gateway $prefill $decode; do sleep 0.1; done
url=$(sed -n 's/.* ready \(http[^ ]*\).*/\1/p' gateway.log)
baton run -q --url "$url" --api-key-file api.txt -p 'The capital of France is' -n 4 2>&1
baton run -q --url "$url" --api-key-file wrong.txt -p 'The capital of France is' -n 4 2>&1
baton status --url "$url" --api-key-file api.txt --json | grep -o '"state": *"[a-z]*"'
kill $prefill $decode $gateway
wait $prefill; echo "prefill ended with $?"
wait $decode; echo "decode ended with $?"
wait $gateway; echo "gateway ended with $?"
