# A group that a smaller one of the same device beats is offered by nothing.
echo "40 300" > lengths
baton plan -q -m smollm2-135m --prefill h100x4 --decode h100x4 --trace lengths | sed -n '3,4p'
baton plan -q -m smollm2-135m --prefill h100x4 --decode h100x4 --trace lengths --json | tr '\n' ' ' | grep -o '"instead": \[[^]]*\]'
load='--synthetic in:100,out:20,rate:5 --limit 20 -q --slo ttft:1s'
# shellcheck disable=SC2086
baton simulate $load -m smollm2-135m --prefill 1..2:h100x4 --decode 1:h100; echo "exit $?"
# shellcheck disable=SC2086
baton simulate $load -m smollm2-135m --prefill 1:h100 --decode 1:h100x4 --ramp > ramp; echo "exit $?"
# It is simulated where it is asked for.
# shellcheck disable=SC2086
baton simulate $load -m smollm2-135m --prefill 1:h100 --decode 1:h100x4 > one; echo "exit $?"
# Window layers hold their window: the smaller one has room for 256 sequences.
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do echo "40 300"; done > long
echo "32000 300" >> long
for slots in 16 256; do
    baton plan -q -m gemma-3-270m --prefill h100 --decode h100x2 --slots $slots --draws 0 --trace long | grep 'as fast'
done
