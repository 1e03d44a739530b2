# A model of two wheels, and one that lies there whole; a table and a mirror of the test's own.
export BATON_MODEL_DIR=$PWD/models BATON_MIRROR=file://$PWD/mirror BATON_MODELS=$PWD/table.json
mkdir mirror
python3 "$(dirname "$0")/make_models.py" mirror
baton pull made-up whole | sed "s,$PWD,HERE,"
cmp models/made.gguf mirror/other.gguf && cmp models/other.gguf mirror/other.gguf && ls models mirror
baton pull made --json | sed "s,$PWD,HERE,"
baton list | sed "s,$PWD,HERE,"
baton list --json | grep -o '"[a-z0-9_]*":' | sort | uniq -c
baton tokenize -m made -p x
# A package that is not right is not taken, and nothing is left of it.
baton rm made whole
printf b | dd of=mirror/made_part2-1.0-py3-none-any.whl bs=1 seek=100 conv=notrunc 2> dd.log
baton pull made 2>&1 | sed "s,$PWD,HERE,"
sed 's/"bytes": 80000/"bytes": 1000000000000000/g' table.json > large.json
baton pull whole --models large.json 2>&1 | sed "s,$PWD,HERE,"
printf b | dd of=mirror/other.gguf bs=1 seek=100 conv=notrunc 2> dd.log
baton pull whole 2>&1 | sed "s,$PWD,HERE,"
ls models
baton pull made --mirror http://127.0.0.1:1/ 2>&1
