#!/bin/sh
# Clients of the gateway's dialects as their makers publish them, against `baton up` with the default model: a table of what
# worked. They are fetched from PyPI into build/clients. litellm asks for another version of openai than
# langchain-openai does, so they live apart.
#   run.sh BUILD_DIR             the clients
#   run.sh BUILD_DIR openapi     schemathesis with the gateway's own description: crashes and 5xx must be 0
set -eu
cd "$(dirname "$0")/../.."
bin=$1/bin what=${2:-clients}
home=build/clients
mkdir -p "$home"

# venv NAME PACKAGE...
venv() {
    [ -f "$home/$1/ready" ] && return
    name=$1
    shift
    echo "fetching $* into $home/$name" >&2
    python3 -m venv "$home/$name"
    "$home/$name/bin/pip" -q install "$@"
    touch "$home/$name/ready"
}
if [ "$what" = openapi ]; then
    venv openapi schemathesis
    small='--ctx-size 128'
else
    venv openai openai langchain-openai llm anthropic ollama
    venv litellm litellm
    small=
fi

work=$(mktemp -d)
up=
trap '[ -z "$up" ] || kill "$up" 2> /dev/null; wait "$up" 2> /dev/null; rm -rf "$work"' EXIT
# shellcheck disable=SC2086
mkfifo "$work/out"
"$bin/baton" up -m smollm2 --port 0 $small > "$work/out" 2> "$work/err" &
up=$!
read -r word url < "$work/out" && [ "$word" = ready ] || { cat "$work/err" >&2; exit 1; }

if [ "$what" = openapi ]; then
    # No role is changed: a gateway without a decode node answers 503 to everything. That a body is good by its schema
    # is not asked to mean that it is answered: it may name another model, or hold a prompt longer than the context.
    # It keeps what it learns in the folder where it runs.
    root=$PWD
    cd "$work"
    PYTHONPATH=$root/tests/clients SCHEMATHESIS_HOOKS=hooks "$root/$home/openapi/bin/schemathesis" run "$url/openapi.json" \
        --exclude-path-regex '/role$' --exclude-checks positive_data_acceptance --phases coverage,fuzzing \
        --request-timeout 120 --max-examples "${CASES:-50}" --seed 1 --generation-deterministic --continue-on-failure
    "$root/$bin/baton" status --url "$url" > /dev/null
    exit
fi
rc=0
printf 'client\tcall\tnot streamed\tstreamed\n' > "$work/table"
"$home/openai/bin/python" tests/clients/clients.py "$url" openai_sync openai_async openai_responses anthropic_messages ollama_api langchain llm curl >> "$work/table" ||
    rc=1
LITELLM_LOCAL_MODEL_COST_MAP=True "$home/litellm/bin/python" tests/clients/clients.py "$url" litellm >> "$work/table" 2> "$work/litellm" ||
    { rc=1; cat "$work/litellm" >&2; }
awk -F '\t' '{ print "| " $1 " | " $2 " | " $3 " | " $4 " |" } NR == 1 { print "|---|---|---|---|" }' "$work/table"
exit $rc
