baton roofline -m llama-3.1-8b --profile hexagon-v75 --decode-profile adreno-750 --decode-weights q4_0 --link 10 | tail -11
baton roofline -m llama-3.1-8b --profile hexagon-v75 --decode-profile h100 | tail -1
# A scale for each 32 inputs is what makes prefill slow there.
for weights in w8a8 q8_0 q4_0; do
    baton roofline -m llama-2-7b --profile hexagon-v75 --decode-profile m3-max-gpu --prefill-weights $weights --json |
        tr '\n' ' ' | grep -oE '"prefill_ns": *[0-9]+' | sed -n "5s/.*: */$weights /p"
done
# Without the first use of weights: 8 times, less what attention takes.
for weights in w8a8 q8_0; do
    baton roofline -m llama-2-7b --profile hexagon-v75 --decode-profile m3-max-gpu --prefill-weights $weights --json |
        tr -d ' \n' | sed 's/.*"tokens":512,"prefill_ns":\([0-9]*\),"first_use_ns":\([0-9]*\).*/\1 \2/'
    echo
done | awk '{ ms[NR] = ($1 - $2) / 1e6 } END { printf "%.1f ms, %.1f ms: %.2f times\n", ms[1], ms[2], ms[2] / ms[1] }'
