BATON_MODEL_DIR=$PWD baton tokenize -m smollm2 -p Hello
