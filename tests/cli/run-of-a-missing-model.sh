baton run -m no-such-file.gguf -p Hello
