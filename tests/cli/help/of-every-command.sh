for c in run chat up status role keygen cache inspect tokenize perplexity bench replay simulate calibrate compare; do baton $c --help; echo; done
