"""Greedy ids of ten prompts: Baton's plain engine in FP32 beside llama.cpp, on models that are known by name.

    make test-models                                 every known model but the default one, as far as its architecture runs
    make test-models MODELS='qwen2.5-coder-0.5b'     these

Each model is fetched where it is not here (baton pull). llama.cpp is the wheel of PyPI's xllamacpp, fetched once into build/peers, and is
asked over its own HTTP. Both engines get the same prompt ids, which are compared with llama.cpp's own too. Ids must be equal up to the
first step at which llama.cpp's two highest logits are less than CLOSE apart: there another rounding may choose otherwise.
"""
import argparse
import json
import os
import subprocess
import sys
import urllib.request

from ask import Failed, json_of, peer_python

PROMPTS = ("The capital of France is", "def fibonacci(n):", "#include <stdio.h>\nint main(void)\n{\n", "In 1969, the first humans",
           "To make a good cup of tea, first", "SELECT name, count(*) FROM", "Die Hauptstadt von Deutschland ist", "1, 1, 2, 3, 5, 8, 13,",
           "import numpy as np\n\na = np.", "Once upon a time")
RUNS = ("llama", "qwen2", "qwen3")
TOKENS, CLOSE = 16, 0.15


def child(o):
    """Runs inside the venv: prompt ids and lists of [id, margin] as JSON, for the prompts' ids on stdin."""
    import xllamacpp  # pylint: disable=import-error,import-outside-toplevel

    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.cpuparams.n_threads = o.child, 256, 1, os.cpu_count()
    params.verbosity = -1
    server = xllamacpp.Server(params)

    def ask(path, **body):
        request = urllib.request.Request(server.listening_address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    rows = []
    for text, ids in json.load(sys.stdin):
        own = ask("/tokenize", content=text, add_special=False, parse_special=True)["tokens"]
        steps = []
        for step in ask("/completion", prompt=ids, n_predict=TOKENS, temperature=0, n_probs=2, cache_prompt=False)["completion_probabilities"]:
            first, second = step["top_logprobs"][:2]
            steps.append([step["id"], first["logprob"] - second["logprob"]])
        rows.append([own, steps])
    print(json.dumps(rows), flush=True)
    os._exit(0)  # the wheel's threads need not end


def compare(o, name):
    """Prints a line for each prompt; returns how many differ."""
    path = json_of(o.baton, ["pull", name, "--json"])["models"][0]["path"]
    prompts = [[text, json_of(o.baton, ["tokenize", "-m", name, "-p", text, "--json"])["ids"]] for text in PROMPTS]
    done = subprocess.run([o.python, os.path.abspath(__file__), "--child", path], input=json.dumps(prompts), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"llama.cpp failed on {path}")
    differ = 0
    for (text, ids), (own, steps) in zip(prompts, json.loads(done.stdout)):
        mine = json_of(o.baton, ["run", "-m", name, "--engine", o.engine, "-p", text, "-n", str(TOKENS), "--temp", "0", "--json"])["token_ids"]
        theirs = [i for i, _ in steps]
        same = next((k for k, i in enumerate(theirs) if k >= len(mine) or mine[k] != i), len(theirs))
        is_close = same < len(steps) and steps[same][1] < CLOSE
        word = "equal" if same >= min(len(theirs), len(mine)) and ids == own else "close" if is_close and ids == own else "DIFFERS"
        differ += word == "DIFFERS"
        print(f"{name}: {text!r}: {word}, {same} of {len(theirs)} ids{'' if ids == own else ', and the prompt has other ids'}", flush=True)
    return differ


def main():
    p = argparse.ArgumentParser(prog="test-models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", help="names that 'baton list' has; without any, all but the default one that can run")
    p.add_argument("--engine", default="reference", help="Baton's engine (default reference)")
    p.add_argument("--child", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.child:
        child(o)
        return
    o.baton = os.path.join(os.environ.get("BATON_BIN", "bin"), "baton")
    try:
        known = [m["name"] for m in json_of(o.baton, ["list", "--json"])["models"] if m["architecture"] in RUNS and m["name"] != "smollm2"]
        o.python = peer_python("test-models", "xllamacpp==2026.10.11549", "xllamacpp")
        differ = sum(compare(o, name) for name in o.models or known)
    except Failed as e:
        sys.exit(f"test-models: {e}")
    sys.exit(f"test-models: {differ} prompts differ" if differ else 0)


main()
