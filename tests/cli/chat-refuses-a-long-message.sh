{ head -c 1048577 /dev/zero | tr '\0' x; echo; } | baton chat --url http://127.0.0.1:1
