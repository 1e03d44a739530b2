BATON_PORT=99999 baton-gateway -m x.gguf
