for p in gateway prefill decode; do baton-$p --help; echo; done
