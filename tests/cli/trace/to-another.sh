# Converted to a capture and back, cut and scaled: what stands in the rows.
cat > t.jsonl <<'T'
{"timestamp": 0, "input_length": 1000, "output_length": 10, "hash_ids": [7, 8]}
{"timestamp": 1000.5, "input_length": 1500, "output_length": 20, "hash_ids": [7, 8, 9]}
{"session_id": "s", "timestamp": 3000, "input_length": 600, "output_length": 30, "hash_ids": [7, 3]}
{"session_id": "s", "delay": 50, "input_length": 700, "output_length": 30}
T
baton trace convert t.jsonl
head -n 3 t.jsonl | baton trace convert - --to baton -o t.btcp
baton trace info t.btcp | tail -n 3
baton trace cut t.jsonl --start 1s
baton trace cut t.jsonl --skip 1 --limit 1
baton trace scale t.jsonl --speed 2 --input 0.5 --answer 2 --max-answer-tokens 50 --new-block-tokens 128
head -n 3 t.jsonl > times.jsonl
baton trace synthesize times.jsonl -n 3 --rate 10 --seed 4 > a
baton trace synthesize times.jsonl -n 3 --rate 10 --seed 4 | cmp - a && wc -l < a
baton trace plot t.jsonl -o p.html && grep -c '</html>' p.html && grep -cE 'https?://[^w]|<script' p.html || true
# Names of models go along.
printf 'Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n0,GPT-4,5,2,7,API log\n' > burst.csv
baton trace convert burst.csv -o named.jsonl
baton trace convert named.jsonl -o again.jsonl
cat named.jsonl
cmp named.jsonl again.jsonl
