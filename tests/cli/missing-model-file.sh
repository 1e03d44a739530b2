baton inspect no-such-file.gguf
