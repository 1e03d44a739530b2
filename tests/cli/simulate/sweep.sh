sweep() { baton simulate --synthetic in:4000,out:120,rate:5 --limit 40 -m llama-3.1-8b -c 16384 "$@"; echo "$?"; }
sweep --prefill 1..2:a100 --decode 1..4:a100 --slo ttft:900ms,tpot:24ms --slo-share 0.9 --points p --shard 1/2 |
    grep -c 'part .*1 of 2'
sweep --prefill 1..2:a100 --decode 1..4:a100 --slo ttft:900ms,tpot:24ms --slo-share 0.9 --points p | grep -c cheapest
sweep --prefill 1..2:a100 --decode 1..4:a100
sweep --prefill 1:a100 --decode 1:a100 --slo ttft:1s --points p
sweep --prefill 1..2:a100 --decode 1:a100 --slo ttft:1s --shard 1/2
sweep --prefill 1..2:a100 --decode 1:a100 --slo ttft:1s --cost price
sweep --prefill 1..2:a100,1..2:h100 --decode 1:a100 --slo ttft:1s
