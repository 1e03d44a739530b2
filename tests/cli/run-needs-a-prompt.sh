baton run -m smollm2
