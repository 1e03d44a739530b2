baton status --url http://127.0.0.1:9
