baton run -m x.gguf -p Hello -f t.txt
