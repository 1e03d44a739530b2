# A file that a running node has mapped is shown as in use, and stays.
export BATON_CACHE_DIR=$PWD/cache
: > log
baton-decode -m "$BATON_TEST_MODEL" -c 512 --gateway "ipc://$PWD/nobody" --listen "ipc://$PWD/kv" 2>> log & node=$!
until grep -q 'taking KV' log || ! kill -0 $node; do sleep 0.1; done
baton cache list | awk '$1 == "weights" || $1 == "ids" { print $1, $NF }'
baton cache clear --yes | sed 's/ of .*)//'
ls cache/weights | grep -c '\.btw$'
kill $node
wait $node; echo "ended with $?"
baton cache clear --yes | sed 's/ of .*)//; s/, .*//'
ls cache/weights
