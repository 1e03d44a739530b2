"""Facts hidden in long prompts: does the model still find them where its prompts attend sparsely?

    make facts TEXT=text.raw                              ten prompts of 2,000 to 6,000 tokens, dense and two sparse kinds
    make facts TEXT=text.raw MODEL=model.gguf ATTENTION='dense sparse:0.1' ARGS='--tokens 8000 --json'

Each prompt is a piece of TEXT with one sentence put into it, "The pass code of TOWN is NUMBER.", at a depth of 5 to 95 percent. It ends with
"The pass code of TOWN is", and the greedy answer has to go on with the number. A row for each prompt; the last one counts.
"""
import argparse
import json
import os
import sys
import tempfile

from ask import Failed, json_of

ATTENTION = "dense sparse:0.2 sparse:0.2,group"
TOWNS = "Aldermoor Brackwater Corvenholt Dunmere Eastfell Fenwick Greyhollow Harrowgate Ilmarsh Kestrelby".split()
NUMBERS = (58213, 40967, 73158, 26491, 91374, 35082, 67429, 18536, 84920, 52741)


def die(words):
    sys.exit("facts: " + words)


# ---- prompts ----
def sentence_end(text, at):
    """Where a sentence begins at or behind a place."""
    found = text.find(". ", at)
    return found + 2 if found >= 0 else len(text)


def prompt_of(text, i, characters):
    """Prompt i of the ten: a piece of its own, and the fact in its depth."""
    first = sentence_end(text, i * len(text) // len(TOWNS))
    piece = text[first:first + characters]
    at = sentence_end(piece, int(len(piece) * (0.05 + 0.1 * i)))
    return f"{piece[:at]}The pass code of {TOWNS[i]} is {NUMBERS[i]}. {piece[at:]}\n\nThe pass code of {TOWNS[i]} is"


def prompts(o):
    """Prompts of the same lengths in characters for every kind of attention: a third of the longest to the longest."""
    with open(o.text, encoding="utf-8") as f:
        text = f.read()
    sample = text[:20000]
    per_token = len(sample) / max(1, len(json_of(o.baton, ["tokenize", "-m", o.model, "--json", "-f", "-"], sample)["ids"]))
    longest = int(per_token * o.tokens)
    if len(text) < len(TOWNS) * longest:
        die(f"{o.text} has {len(text)} characters; {len(TOWNS)} pieces of up to {longest} want {len(TOWNS) * longest}")
    return [prompt_of(text, i, longest * (3 + i * 7 % 10 * 6 // 9) // 9) for i in range(len(TOWNS))]


# ---- answers ----
def answer(o, attention, path):
    # Eight tokens: a digit each at most, and a space before.
    return json_of(o.baton, ["run", "-m", o.model, "-f", path, "-n", "8", "--temp", "0", "--attention", attention, "--engine", o.engine, "--json", "-q"])


def measure(o, folder):
    rows = []
    width = max(len(a) for a in o.attention)
    if not o.json:
        print(f"{os.path.basename(o.model)}, facts hidden in pieces of {os.path.basename(o.text)}\n")
        print(f"| tokens | depth | {' | '.join(a.rjust(max(width, 8)) for a in o.attention)} |")
        print(f"|-------:|------:|{'|'.join('-' * (max(width, 8) + 1) + ':' for _ in o.attention)}|", flush=True)
    for i, prompt in enumerate(prompts(o)):
        path = os.path.join(folder, "prompt.txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write(prompt)
        row = {"depth": round(0.05 + 0.1 * i, 2), "number": NUMBERS[i], "answers": {}, "found": {}}
        for attention in o.attention:
            if sys.stderr.isatty():
                print(f"facts: {i + 1} of {len(TOWNS)}, {attention}\033[K", end="\r", file=sys.stderr, flush=True)
            said = answer(o, attention, path)
            row["tokens"] = said["prompt_tokens"]
            row["answers"][attention] = said["text"]
            row["found"][attention] = said["text"].strip().startswith(str(NUMBERS[i]))
        rows.append(row)
        if not o.json:
            print(f"| {row['tokens']:6} | {row['depth']:5} | "
                  f"{' | '.join(('found' if row['found'][a] else 'not').rjust(max(width, 8)) for a in o.attention)} |", flush=True)
    counts = {a: sum(r["found"][a] for r in rows) for a in o.attention}
    if o.json:
        print(json.dumps({"model": o.model, "text": o.text, "rows": rows, "found": counts}))
    else:
        print(f"| {'found':>14} | {' | '.join(f'{counts[a]} of {len(rows)}'.rjust(max(width, 8)) for a in o.attention)} |")


def main():
    p = argparse.ArgumentParser(prog="facts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True, help="GGUF file")
    p.add_argument("-f", "--text", required=True, help="text that facts are hidden in")
    p.add_argument("--tokens", type=int, default=6000, help="tokens of the longest prompt, about (default 6000)")
    p.add_argument("--attention", type=str.split, default=ATTENTION.split(), help="kinds, with spaces between them")
    p.add_argument("--engine", default="npu", help="what computes prompts (default npu)")
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    o = p.parse_args()
    o.baton = os.path.join(os.environ.get("BATON_BIN", "bin"), "baton")
    for path, what in ((o.baton, "run 'make' first"), (o.model, "MODEL is the path of a GGUF file"), (o.text, "TEXT is the path of a text")):
        if not os.path.exists(path):
            die(f"there is no {path}: {what}")
    if o.tokens < 600 or not o.attention:
        die("there is nothing to do: prompts of 600 tokens or more, one kind of attention or more")
    try:
        with tempfile.TemporaryDirectory(prefix="facts.") as folder:
            measure(o, folder)
    except Failed as e:
        die(str(e))


main()
