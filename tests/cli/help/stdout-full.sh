# Output to a full device is lost. Every command says so, once and why, and ends with 1; so it is with a closed stdout.
printf '10\n20\n' > lengths
printf '{"timestamp": 0, "input_length": 10, "output_length": 5}\n' > one.jsonl
printf '{"requests": 4, "points": {"ttft_ms": [1, 2], "tpot_ms": [1, 2], "e2e_ms": []}}' > run.json
# check EXIT_CODE WHY NAME ARGUMENTS: what was said is in the file said
check() {
    sed -i '/^[^ ].* \.\.\.$/d' said # base/wait.h: what a slow machine waits for
    [ "$(cat said)" = "$3: cannot write to stdout: $2" ] && [ "$1" = 1 ] && return
    echo "$*"
    cat said
}
# lost NAME ARGUMENTS: NAME is a program, or baton and a command
lost() {
    name=$1
    shift
    $name "$@" 2> said > /dev/full < /dev/null
    check $? 'No space left on device' "$name" "$@"
    $name "$@" 2> said >&- < /dev/null
    check $? 'Bad file descriptor' "$name" "$@"
}
commands=$(baton --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
for command in $commands; do lost "baton $command" --help; done
for program in 'baton trace' baton-gateway baton-prefill baton-decode; do
    for option in --version --print-config --print-options --print-man; do lost "$program" $option; done
done
for option in --help --version --print-man --print-options help; do lost baton $option; done
lost baton-gateway --print-openapi
model=$BATON_TEST_MODEL
for json in '' --json; do
    (export BATON_CACHE_DIR="$PWD/cache"; lost 'baton cache' list $json; lost 'baton cache' clear --yes $json)
    lost 'baton inspect' "$model" $json
    lost 'baton tokenize' -m "$model" -p the $json
    lost 'baton trace' info lengths $json
    lost 'baton padding' lengths $json
    lost 'baton profiles' $json
    lost 'baton roofline' -m llama-3.1-8b $json
    lost 'baton timeline' -q -m "$model" --profile hexagon-v75 --decode-profile adreno-750 -p 100 -n 1 $json
    lost 'baton plan' -q -m smollm2-135m --prefill hexagon-v75 --decode adreno-750 --trace lengths $json
    lost 'baton simulate' --synthetic in:8,out:2,rate:1 --limit 1 -m smollm2-135m $json
    lost 'baton compare' run.json run.json $json
done
for action in convert cut scale 'synthesize -n 2 --rate 1'; do lost 'baton trace' $action one.jsonl; done
baton keygen keys prefill > /dev/full 2> said
check $? 'No space left on device' 'baton keygen'
baton trace key ours > /dev/full 2> said
check $? 'No space left on device' 'baton trace'
# A file that is opened while stdout is closed gets nothing that was meant for stdout.
baton trace convert one.jsonl -o out.jsonl >&- 2> said
check $? 'Bad file descriptor' 'baton trace'
wc -l < out.jsonl
echo "$commands" | wc -l
