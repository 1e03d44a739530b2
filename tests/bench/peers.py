"""Baton beside another engine on the same GGUF file: each in turn, A B A B, the ratio of each turn, then the median of the ratios.

    make bench-peers MODEL=model.gguf                     llama.cpp, which is built once by llama-cpp-python in build/peers
    BENCH_PEER=path/llama-bench make bench-peers ...      another engine's llama-bench, with options of its own after the path;
                                                          several, with ';' between them, take their turns one after the other
    ... ARGS='--attention sparse:0.2;sparse:0.2,group'    Baton itself too, with prompts that attend so

A turn is one prompt and one run of generated tokens for each number of threads, after one of each that does not count. Baton's
weights are those nearest to the file's: f16, int8 for 8 bits, fp4 for 4. Prompts are w8a8 whatever the file has, unless --engine says host.
"""
import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import time

from ask import Failed, peer_python


def die(words):
    sys.exit("bench-peers: " + words)


def output_of(command, what):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    except OSError as e:
        die(f"{what}: cannot run {command[0]}: {e.strerror}")
    if done.returncode != 0:
        die(f"{what} failed (exit {done.returncode}): {' '.join(command)}\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def json_of(command, what):
    text = output_of(command, what)
    try:
        return json.loads(text)
    except ValueError:
        die(f"{what} printed no JSON: {' '.join(command)}\n{text[:500]}")


# ---- llama.cpp through llama-cpp-python ----
def set_up():
    try:
        return peer_python("bench-peers", "llama-cpp-python", "llama_cpp", source=True)
    except Failed as e:
        die(f"{e}. Or name a llama-bench that is there: BENCH_PEER=path")


def child(o):
    """Runs inside the venv: one turn of llama.cpp, as rows of JSON."""
    import llama_cpp  # pylint: disable=import-error,import-outside-toplevel

    rows = []
    for threads in o.threads:
        llm = llama_cpp.Llama(o.model, n_ctx=max(o.prompt, o.gen) + 8, n_batch=2048, n_ubatch=512, n_threads=threads, n_threads_batch=threads, verbose=False)
        ids = [(i * 7919 + 13) % llm.n_vocab() for i in range(max(o.prompt, o.gen, 1))]

        def run(pieces, llm=llm):
            llm.reset()
            begin = time.perf_counter()
            for piece in pieces:
                llm.eval(piece)
            llama_cpp.llama_synchronize(llm.ctx)
            return time.perf_counter() - begin

        if o.prompt:
            run([ids[:o.prompt]])
            rows.append({"test": f"pp{o.prompt}", "threads": threads, "rate": o.prompt / run([ids[:o.prompt]])})
        if o.gen:
            run([[i] for i in ids[:3]])
            rows.append({"test": f"tg{o.gen}", "threads": threads, "rate": o.gen / run([[i] for i in ids[:o.gen]])})
        llm.close()
    print(json.dumps(rows))


# ---- a turn of each ----
def baton_turn(o, attention):
    """{(test, threads): (rate, ratio to the roofline)}; of other attention than dense prompts alone."""
    gen = o.gen if attention == "dense" else 0
    command = [o.baton, "bench", "-m", o.model, "-p", str(o.prompt), "-n", str(gen), "-t", ",".join(map(str, o.threads)), "-r", "1", "--weights", o.weights,
               "--engine", o.engine, "--isa", o.isa, "--attention", attention, "--json", "-q"]
    return {(r["test"], r["threads"]): (r["tokens_per_second"], r["ratio_to_roofline"]) for r in json_of(command, "baton")["rows"]}


def peer_turn(o, peer):
    """{(test, threads): rate}; peer: words of a llama-bench; None: llama.cpp through Python."""
    if not peer:
        command = [o.python, os.path.abspath(__file__), "--child", "-m", o.model, "-p", str(o.prompt), "-n", str(o.gen), "-t", ",".join(map(str, o.threads))]
        return {(r["test"], r["threads"]): r["rate"] for r in json_of(command, "llama.cpp")}
    command = peer + ["-m", o.model, "-p", str(o.prompt), "-n", str(o.gen), "-t", ",".join(map(str, o.threads)), "-r", "1", "-o", "json"]
    return {(("tg" + str(r["n_gen"])) if r["n_gen"] else "pp" + str(r["n_prompt"]), r["n_threads"]): r["avg_ts"] for r in json_of(command, peer[0])}


def others(o):
    """[(name, a turn of it)] of all that Baton is held against."""
    peers = o.peers or [None]
    named = [(os.path.relpath(p[0]) if len(o.peers) > 1 else os.path.basename(p[0])) + "".join(" " + w for w in p[1:]) if p else "llama.cpp" for p in peers]
    return ([(name, lambda p=p: peer_turn(o, p)) for name, p in zip(named, peers)]
            + [(f"baton {a}", lambda a=a: {k: v[0] for k, v in baton_turn(o, a).items()}) for a in o.attention])


def nearest_weights(o):
    """By the type that most of the file's bytes have."""
    tensors = json_of([o.baton, "inspect", o.model, "--tensors", "--json"], "baton inspect").get("tensors", [])
    size = {}
    for t in tensors:
        size[t["type"]] = size.get(t["type"], 0) + t["bytes"]
    kind = max(size, key=size.get, default="F16")
    bits = re.match(r"I?Q(\d)", kind)
    return kind, "f16" if not bits else "int8" if int(bits.group(1)) > 5 else "fp4"


def row_of(turns, name, key):
    seen = [(mine[key][0], mine[key][1], all_others[name][key]) for mine, all_others in turns]
    ratios = sorted(mine / other for mine, _, other in seen)
    roofline = [r for _, r, _ in seen if r is not None]
    return {"test": key[0], "threads": key[1], "peer": name, "baton_tokens_per_second": statistics.median(s[0] for s in seen),
            "peer_tokens_per_second": statistics.median(s[2] for s in seen), "ratio": statistics.median(ratios), "ratio_lowest": ratios[0],
            "ratio_highest": ratios[-1], "baton_ratio_to_roofline": statistics.median(roofline) if roofline else None}


def compare(o):
    turns, against = [], others(o)
    for i in range(o.rounds):
        if sys.stderr.isatty():
            print(f"\rbench-peers: turn {i + 1} of {o.rounds}", end="", file=sys.stderr, flush=True)
        mine = baton_turn(o, "dense")
        turns.append((mine, {name: turn() for name, turn in against}))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    rows = [row_of(turns, name, key) for key in turns[0][0] for name, _ in against if key in turns[0][1][name]]
    if not rows:
        die("they have no test in common")
    return rows


def numbers(text):
    try:
        n = [int(t) for t in text.split(",")]
    except ValueError:
        n = [-1]
    if min(n) < 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers such as 1,2")
    return [t or len(os.sched_getaffinity(0)) for t in n]


def main():
    p = argparse.ArgumentParser(prog="bench-peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True, help="GGUF file")
    p.add_argument("-p", "--prompt", type=int, default=512, help="tokens of the prompt; 0: none (default 512)")
    p.add_argument("-n", "--gen", type=int, default=64, help="generated tokens; 0: none (default 64)")
    p.add_argument("-t", "--threads", type=numbers, default=numbers("1,0"), help="numbers of threads; 0: all cores (default 1,0)")
    p.add_argument("-r", "--rounds", type=int, default=5, help="turns of each (default 5)")
    p.add_argument("--weights", help="weights of Baton's decoding: f16, int8 or fp4 (default: nearest to the file's)")
    p.add_argument("--engine", default="npu", help="engine of Baton's prompts: npu or host (default npu)")
    p.add_argument("--isa", default="auto", help="Baton's kernels (default auto)")
    p.add_argument("--attention", type=lambda t: [a for a in t.split(";") if a], default=[], help="kinds that Baton's prompts take a turn with too, ';' between them")
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.child:
        child(o)
        return
    o.threads = sorted(set(o.threads))
    o.baton = os.path.join(os.environ.get("BATON_BIN", "bin"), "baton")
    o.peers = [words for words in map(shlex.split, os.environ.get("BENCH_PEER", "").split(";")) if words]
    if o.rounds < 1 or o.prompt < 0 or o.gen < 0 or o.prompt + o.gen == 0:
        die("there is nothing to do: one round or more, and a prompt or generated tokens")
    if not os.path.exists(o.baton):
        die(f"there is no {o.baton}: run 'make' first")
    if not os.path.exists(o.model):
        die(f"there is no file {o.model}: MODEL is the path of a GGUF file ('make model' prints that of the default model)")
    o.python = None if o.peers else set_up()
    kind, weights = nearest_weights(o)
    o.weights = o.weights or weights
    rows = compare(o)
    if o.json:
        print(json.dumps({"model": o.model, "type": kind, "weights": o.weights, "engine": o.engine, "rounds": o.rounds, "rows": rows}))
        return
    width = max(len("beside"), max(len(r["peer"]) for r in rows))
    print(f"{os.path.basename(o.model)} ({kind}): baton (prompts {o.engine}, weights {o.weights}), medians of {o.rounds} turns each\n")
    print(f"| test   | threads | {'beside':<{width}} | baton t/s | of roofline | its t/s | baton / it | lowest to highest |")
    print(f"|:-------|--------:|:{'-' * width}-|----------:|------------:|--------:|-----------:|------------------:|")
    for r in rows:
        roofline = f"{r['baton_ratio_to_roofline']:.2f}" if r["baton_ratio_to_roofline"] is not None else "-"
        print(f"| {r['test']:<6} | {r['threads']:>7} | {r['peer']:<{width}} | {r['baton_tokens_per_second']:>9.1f} | {roofline:>11} "
              f"| {r['peer_tokens_per_second']:>7.1f} | {r['ratio']:>10.2f} | {r['ratio_lowest']:>8.2f} to {r['ratio_highest']:.2f} |")


main()
