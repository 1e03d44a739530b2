for c in run chat up status role keygen inspect tokenize perplexity bench; do baton $c --help; echo; done
