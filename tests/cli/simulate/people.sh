{
    echo TIMESTAMP,ContextTokens,GeneratedTokens
    for s in 00 01 02 03 04 05 06 07; do echo "2023-11-16 18:15:$s.0000000,1374,44"; done
} > trace.csv
baton simulate trace.csv -m llama-3.2-1b --prefill 2:h100 --decode 1:m2-ultra --link 10 -c 8192 --slo ttft:1s,tpot:60ms
