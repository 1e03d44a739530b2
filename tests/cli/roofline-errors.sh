baton roofline --profile hexagon-v75
baton roofline -m llama-3.1-8
baton roofline -m llama-2-7b --profile hexagon-v75 --decode-profile host
baton roofline -m llama-2-7b --profile hexagon-v75 --decode-profile h1000
baton roofline -m llama-2-7b --profile hexagon-v75 --decode-profile h100 --link 10gb
baton roofline -m llama-3.1-70b --profile hexagon-v75 --decode-profile m3-max-gpu
