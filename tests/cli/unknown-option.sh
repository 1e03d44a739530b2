baton-prefill --modle x.gguf
