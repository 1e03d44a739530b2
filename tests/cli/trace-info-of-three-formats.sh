# Lengths, gaps and shared beginnings of small traces, computed by hand.
cat > mooncake.jsonl <<'T'
{"timestamp": 0, "input_length": 1000, "output_length": 10, "hash_ids": [0, 1]}
{"timestamp": 1000, "input_length": 1500, "output_length": 20, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 600, "output_length": 30, "hash_ids": [0, 3]}
T
baton trace info mooncake.jsonl --json
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,600,109\n' |
    baton trace info -
printf '0,2,1.5,Weibull,0.5,1\n600,0,0,,0,0\n' | baton trace info -
