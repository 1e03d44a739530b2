baton up --print-config -m x.gguf --decode=2
