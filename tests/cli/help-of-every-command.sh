for c in run chat up status keygen inspect tokenize perplexity; do baton $c --help; echo; done
