baton up -m no-such-file.gguf --port 0
