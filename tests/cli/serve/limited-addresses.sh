# Under a limit of addresses (ulimit -v) every program says what it wanted, the limit and what lifts it, and none crashes.
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
if ! (ulimit -v 60000 && baton --version) > /dev/null 2>&1; then # a sanitizer takes more than that for itself
    echo 'each says it'
    exit 0
fi
for kib in 60000 100000 130000 140000 200000; do
    for what in "baton-gateway -m $BATON_TEST_MODEL --port 0 --control ipc://$t/c" \
        "baton-decode -m $BATON_TEST_MODEL --gateway ipc://$t/c --listen ipc://$t/k" \
        "baton run -m $BATON_TEST_MODEL -n 1 -p hi" "baton up -m $BATON_TEST_MODEL --port 0"; do
        [ "$kib" = 200000 ] && [ "${what#baton-gateway}" != "$what" ] && continue # it starts
        (ulimit -v "$kib" && ulimit -c 0 && exec timeout 60 $what) > "$t/out" 2>&1
        rc=$?
        [ $rc = 1 ] && grep -q "[0-9] MiB.*; ulimit -v allows [0-9]* MiB of addresses, [0-9]* are taken: 'ulimit -v unlimited' lifts it" "$t/out" && continue
        echo "ulimit -v $kib $what: exit $rc"
        tail -n 2 "$t/out"
    done
done
echo 'each says it'
