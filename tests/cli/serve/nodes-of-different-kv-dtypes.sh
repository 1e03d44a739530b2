# A prefill node and a decode node that were not given the same --kv-dtype: the gateway names both, and no request reaches them.
: > gateway.log                            # it is looked at before the gateway may have made it
baton-gateway -m "$BATON_TEST_MODEL" --port 0 --control "ipc://$PWD/control" 2> gateway.log & gateway=$!
baton-prefill -m "$BATON_TEST_MODEL" -c 512 --engine host --kv-dtype int8 --gateway "ipc://$PWD/control" 2> prefill.log & prefill=$!
until grep -q 'prefill-0 is ready' gateway.log || ! kill -0 $gateway $prefill; do sleep 0.1; done
baton-decode -m "$BATON_TEST_MODEL" -c 512 --gateway "ipc://$PWD/control" --listen "ipc://$PWD/kv" 2> decode.log & decode=$!
until grep -q 'decode-0 is ready' gateway.log || ! kill -0 $gateway $decode; do sleep 0.1; done
grep -o 'warn: .*' gateway.log
grep -c ' ready http' gateway.log
grep -ho '[0-9]* tokens of [a-z0-9]* KV' prefill.log decode.log
kill $decode $prefill $gateway
wait
