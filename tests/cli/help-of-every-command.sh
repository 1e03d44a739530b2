for c in run chat up status role keygen inspect tokenize perplexity; do baton $c --help; echo; done
