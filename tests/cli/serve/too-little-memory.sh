# A process that needs more memory than there is does not begin, and says what would fit.
export BATON_CACHE_DIR=$PWD/cache
baton run -m "$BATON_TEST_MODEL" -t 2 -p x -n 1 --memory 700M
baton run -m "$BATON_TEST_MODEL" -t 2 -p x -n 1 -c 1024 --memory 450M
baton run -m "$BATON_TEST_MODEL" -t 2 -p x -n 1 --memory 100M
baton up -m "$BATON_TEST_MODEL" -t 2 --decode 3 --memory 1G
baton compile -m "$BATON_TEST_MODEL" -t 2 -o p.bpk --memory 50M
baton bench -q -m "$BATON_TEST_MODEL" -t 2 -p 64 -n 4 --batch 1,8 --weights int8,f16 --memory 300M
seq 40 | baton perplexity -q -m "$BATON_TEST_MODEL" -t 2 -f - -c 4 --engine host --against npu --memory 300M
baton-decode -m "$BATON_TEST_MODEL" -t 2 --gateway "ipc://$PWD/none" --listen 'tcp://127.0.0.1:*' --memory 200M 2>&1 | sed 's/^[^ ]* //'
baton-prefill -m "$BATON_TEST_MODEL" -t 2 --gateway "ipc://$PWD/none" --memory 200M 2>&1 | sed 's/^[^ ]* //'
ls
