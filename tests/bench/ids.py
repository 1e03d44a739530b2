"""Greedy ids of ten prompts: Baton's plain engine in FP32 beside llama.cpp, on models that are known by name.

    make test-models                                 every known model but the default one, as far as its architecture runs
    make test-models MODELS='qwen2.5-coder-0.5b'     these

Each model is fetched where it is not here (baton pull). llama.cpp is built once by llama-cpp-python in build/peers. Both engines get the
same prompt ids, which are compared with llama.cpp's own too. Ids must be equal up to the first step at which llama.cpp's two highest
logits are less than CLOSE apart: there another rounding may choose otherwise.
"""
import argparse
import json
import os
import subprocess
import sys

from ask import Failed, json_of, llama_python

PROMPTS = ("The capital of France is", "def fibonacci(n):", "#include <stdio.h>\nint main(void)\n{\n", "In 1969, the first humans",
           "To make a good cup of tea, first", "SELECT name, count(*) FROM", "Die Hauptstadt von Deutschland ist", "1, 1, 2, 3, 5, 8, 13,",
           "import numpy as np\n\na = np.", "Once upon a time")
RUNS = ("llama", "qwen2", "qwen3")
TOKENS, CLOSE = 16, 0.15


def child(o):
    """Runs inside the venv: prompt ids and lists of [id, margin] as JSON, for the prompts' ids on stdin."""
    import llama_cpp  # pylint: disable=import-error,import-outside-toplevel
    import numpy  # pylint: disable=import-error,import-outside-toplevel

    llm = llama_cpp.Llama(o.child, n_ctx=256, n_threads=os.cpu_count(), verbose=False)
    rows = []
    for text, ids in json.load(sys.stdin):
        own = llm.tokenize(text.encode(), add_bos=False, special=True)
        llm.reset()
        llm.eval(ids)
        steps = []
        while len(steps) < TOKENS:
            logits = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(llm.ctx, -1), (llm.n_vocab(),))
            second, first = numpy.argpartition(logits, -2)[-2:][numpy.argsort(logits[numpy.argpartition(logits, -2)[-2:]])]
            steps.append([int(first), float(logits[first] - logits[second])])
            if first == llm.token_eos():
                break
            llm.eval([int(first)])
        rows.append([own, steps])
    print(json.dumps(rows))


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
        o.python = llama_python("test-models")
        differ = sum(compare(o, name) for name in o.models or known)
    except Failed as e:
        sys.exit(f"test-models: {e}")
    sys.exit(f"test-models: {differ} prompts differ" if differ else 0)


main()
