# A key for captures; a capture that is torn, and one that another key opens. The captures that a gateway writes:
# tests/integration.
baton trace key here && ls -l here.secret | cut -c 1-10 && wc -c < here.public
baton trace key here
printf '{"timestamp": 0, "input_length": 100, "output_length": 10}\n{"timestamp": 5, "input_length": 7, "output_length": 1}\n' |
    baton trace convert - --to baton -o c
head -c -1 c > torn
baton trace info torn --json | grep -o '"requests": [0-9]*\|"torn_bytes": .*'
baton trace info c --unseal here | head -n 1
baton trace info c --unseal nothing
