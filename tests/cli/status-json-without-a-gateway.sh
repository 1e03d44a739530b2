baton status --json --url http://127.0.0.1:9
