baton run -m smollm2 -p Hello --system Hi
