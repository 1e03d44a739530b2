printf '{"input_length": 5, "output_length": 1}\n{"input_length": "5", "output_length": 1}\n{"input_length": 7, "output_length": 1}\n' > bad.jsonl
baton trace info bad.jsonl --skip-bad | head -n 1
baton trace info bad.jsonl
