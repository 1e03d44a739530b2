baton roofline -m llama-2-7b -m llama-3.1-70b
