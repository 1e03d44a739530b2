printf '5 6 7\n' > lengths
baton trace info lengths > /dev/full
echo $?
printf 'arrived_at,num_prefill_tokens,num_decode_tokens\n0,5,6\n' > vidur.csv
baton trace convert vidur.csv -o /dev/full
echo $?
baton replay lengths --concurrency 1 --url http://127.0.0.1:1 --csv none/x.csv
echo $?
baton replay lengths --concurrency 1 --url http://127.0.0.1:1 --report /dev/full
echo $?
baton replay none.jsonl --url http://127.0.0.1:1
echo $?
baton simulate --synthetic in:8,out:2,rate:1 --limit 1 -m smollm2 --csv none/x.csv
echo $?
