baton-decode -m x.gguf --kv-memory lots
