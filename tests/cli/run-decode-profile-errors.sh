baton run -m smollm2 -p x --profile hexagon-v75 --decode-profile h1000
baton run -m smollm2 -p x --decode-profile h100
baton run -m smollm2 -p x --profile hexagon-v75 --decode-profile host
baton run -m smollm2 -p x --profile hexagon-v75 --decode-profile h100 --link fast
baton run -m smollm2 -p x --profile hexagon-v75 --decode-profile h100 --engine host
baton run -p x --url http://127.0.0.1:1 --profile hexagon-v75 --decode-profile h100
