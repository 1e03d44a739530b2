baton run -m smollm2 -p x --profile hexagon-v75 --decode-profile h100 --pace device:0
baton run -m smollm2 -p x --pace device:4
baton up -m smollm2 --link 10
baton up -m smollm2 --profile hexagon-v75 --pace 4
baton chat --url http://127.0.0.1:1 --profile hexagon-v75 --decode-profile h100
baton replay --synthetic in:8,out:8,rate:1 --url http://127.0.0.1:1 --profile hexagon-v75 --decode-profile h100
baton-prefill -m smollm2 --pace device:1000001
baton-decode -m smollm2 --pace device:
baton-decode -m smollm2 --link ten
