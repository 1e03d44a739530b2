try() { baton simulate --synthetic in:100,out:10,rate:1 "$@"; echo "$?"; }
try -m llama-3.1-8x
try -m llama-2-70b --prefill 1:rtx-4090
try -m llama-3.1-8b --prefill 8:host
try -m llama-3.1-8b --prefill 8xh100
try -m llama-3.1-8b --decode 0
try -m llama-3.1-8b --prefill 1:hexagon-v75 --decode 1:adreno-750
try -m llama-3.2-1b --faults 'kill decode 3 at 600'
try -m llama-3.2-1b --faults 'kill decode 3'
try -m llama-3.1-8b --attention sparse:0.2
