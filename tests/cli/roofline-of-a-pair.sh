baton roofline -m llama-3.1-8b --profile hexagon-v75 --decode-profile adreno-750 --decode-weights q4_0 --link 10 | tail -11
baton roofline -m llama-3.1-8b --profile hexagon-v75 --decode-profile h100 | tail -1
