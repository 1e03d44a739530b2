printf 'caf\351\n' | baton chat --url http://127.0.0.1:1
