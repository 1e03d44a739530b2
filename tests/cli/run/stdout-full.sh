# An answer that goes to a full device is lost: said once, with the reason, and the exit code is 1.
m="-q -m $BATON_TEST_MODEL"
baton run $m --engine host -c 512 -p hello -n 4 > /dev/full; echo $?
baton run $m --engine host -c 512 -p hello -n 4 --json > /dev/full; echo $?
echo hello | baton chat $m --engine host -c 512 -n 4 > /dev/full; echo $?
baton bench $m -p 16 -n 2 --weights f16 -t 1 -r 1 > /dev/full; echo $?
