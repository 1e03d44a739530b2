for c in run chat up status role keygen cache inspect tokenize perplexity bench; do baton $c --help; echo; done
