# Texts are counted by a model's tokenizer.
echo '[{"id": "a", "conversations": [{"from": "human", "value": "Hello world"}, {"from": "gpt", "value": "Hi"}, {"from": "human", "value": "The capital of France"}, {"from": "gpt", "value": "Paris"}]}]' |
    baton trace convert - -m "$BATON_TEST_MODEL"
for t in "Hello world" "Hi" "The capital of France" "Paris"; do baton tokenize -m "$BATON_TEST_MODEL" -p "$t" --json | grep -o '[0-9]*[],]' | wc -l; done
