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
