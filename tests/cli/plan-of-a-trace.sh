# A trace of the test's own: 60 requests, two a minute.
awk 'BEGIN { for (i = 0; i < 60; i++) printf "{\"timestamp\": %d, \"input_length\": %d, \"output_length\": %d}\n", i * 30000, 30 + i * 53 % 1400, 1 + i * 7 % 90 }' > trace.jsonl
baton plan -q -m llama-3.2-1b --prefill hexagon-v75 --decode adreno-750 --link 1 --trace trace.jsonl --rows 4 --colocated
baton plan -q -m llama-3.2-1b --prefill h100 --decode h100x4 --link 100,5us --trace trace.jsonl --rows 3 --by joules --slo ttft:1s,e2e:20s
