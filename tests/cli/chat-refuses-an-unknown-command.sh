printf '/etc/hosts is a file\n' | baton chat --url http://127.0.0.1:1
