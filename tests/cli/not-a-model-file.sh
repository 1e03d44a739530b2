echo hello > text.gguf; baton inspect text.gguf
