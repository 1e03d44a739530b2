"""Recipes of one model side by side: perplexity, distance from floats, bytes, and what a prompt of 512 tokens takes.

    make recipes TEXT=text.raw                            the default model, 8 windows of 512 tokens, the recipes below
    make recipes TEXT=text.raw MODEL=model.gguf CHUNKS=0 RECIPES='w8a8 w4a16:group=64,awq' ARGS='--outliers --json'

The text must not be the one that calibrates (baton compile --calib). Tokens/s are measured on this machine, milliseconds are modelled: the time
to the first token on a pair of devices, by baton plan. A recipe that fails is a row that says why. Packages stay in the cache.

--outliers adds the perplexity of the same model with outliers: one channel of each norm inside of the layers is multiplied by 64, and the
columns that read it are divided by 64. Where the file's weights are blocks of 32, it is the 32 channels of a block: a power of two in a block's
scale is exact, one column's is not.
"""
import argparse
import json
import os
import shutil
import struct
import sys
import tempfile

from ask import Failed, json_of

RECIPES = ("w8a8 w8a8:no-rotate w8a8:shadow=off w8a8:shadow=channel w8a8:asym w8a8:r4 w8a8:smooth=0.5 w8a8:per-tensor w8a8:group=32 w8a8:lut6 w8a8:group=32,lut6 w8a8:lut4 w8a8:group=32,lut4 w8a16 w4a16 "
           "w4a16:group=32 w4a16:group=64 w4a16:group=64,awq w4a16:group=128 w4a8 w4a8:group=32 w4a8:group=32,act-order")
PROMPT = 512
TIMES, CHANNEL = 64, 11


def die(words):
    sys.exit("recipes: " + words)


# ---- a model with outliers ----
# Type: values of a block, its bytes, how many f16 scales it begins with.
BLOCKS = {0: (1, 4, 0), 1: (1, 2, 0), 2: (32, 18, 1), 3: (32, 20, 2), 6: (32, 22, 1), 7: (32, 24, 2), 8: (32, 34, 1)}
NAMES = {0: "f32", 1: "f16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0"}
READERS = {"attn_norm": ("attn_q", "attn_k", "attn_v"), "ffn_norm": ("ffn_gate", "ffn_up")}


def tensors_of(data):
    """{name: (dims, type, offset in the file)} of a GGUF file, little-endian, version 2 or 3."""
    at = 0

    def take(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value if len(value) > 1 else value[0]

    def text():
        nonlocal at
        size = take("Q")
        at += size
        return bytes(data[at - size:at]).decode("utf-8", "replace")

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, count = take("IQ")
            for _ in range(count):
                value(inner)
            return None
        return take("BbHhIif?__Qqd"[kind])

    if bytes(data[:4]) != b"GGUF":
        die("--outliers: this is no GGUF file")
    at = 4
    version, tensors, keys = take("IQQ")
    if version not in (2, 3):
        die(f"--outliers: GGUF version {version}; 2 and 3 are read")
    alignment = 32
    for _ in range(keys):
        name = text()
        found = value(take("I"))
        alignment = found if name == "general.alignment" else alignment
    table = {}
    for _ in range(tensors):
        name = text()
        dims = [take("Q") for _ in range(take("I"))]
        table[name] = (dims,) + take("IQ")
    begin = -(-at // alignment) * alignment
    return {name: (dims, kind, begin + offset) for name, (dims, kind, offset) in table.items()}


def scale(data, form, at, by):
    struct.pack_into(form, data, at, struct.unpack_from(form, data, at)[0] * by)


def plant(data):
    """Changes the file's bytes; the channels [first, end) that are outliers now."""
    table = tensors_of(data)
    pairs = [(name, name.replace(norm, reader)) for norm, readers in READERS.items() for name in table if name.endswith(f".{norm}.weight")
             for reader in readers]
    if not pairs:
        die("--outliers: the file has no norms named blk.N.attn_norm.weight")
    for norm, reader in pairs:
        if reader not in table:
            die(f"--outliers: the file has {norm}, but no {reader}")
        if table[norm][1] != 0 or table[reader][1] not in BLOCKS:
            die(f"--outliers: {reader} has type {table[reader][1]}, {norm} type {table[norm][1]}; norms of f32 and linears of "
                f"{', '.join(NAMES.values())} can be scaled")
    wide = max(BLOCKS[table[reader][1]][0] for _, reader in pairs)
    first = CHANNEL // wide * wide
    for norm in {norm for norm, _ in pairs}:
        for channel in range(first, first + wide):
            scale(data, "<f", table[norm][2] + 4 * channel, TIMES)
    for reader in {reader for _, reader in pairs}:
        (columns, rows), kind, begin = table[reader]
        values, size, scales = BLOCKS[kind]
        for row in range(rows):
            for block in range(first // values, (first + wide) // values):
                at = begin + (row * (columns // values) + block) * size
                for i in range(max(scales, 1)):
                    scale(data, "<f" if kind == 0 else "<e", at + 2 * i, 1 / TIMES)
    return first, first + wide


def planted(o, folder):
    """A copy of the model with outliers: its path, and the channels."""
    with open(o.model, "rb") as f:
        data = bytearray(f.read())
    try:
        channels = plant(data)
    except (struct.error, IndexError, KeyError) as e:
        die(f"--outliers: {o.model} is damaged: {e}")
    path = os.path.join(folder, "outliers.gguf")
    with open(path, "wb") as f:
        f.write(data)
    return path, channels


# ---- one row ----
def perplexity(o, model, words):
    return json_of(o.baton, ["perplexity", "-m", model, "-f", o.text, "--chunks", str(o.chunks), "--json", "-q"] + words)


def speed(o, words):
    if o.repetitions == 0:
        return {}
    bench = json_of(o.baton, ["bench", "-m", o.model, "-p", str(PROMPT), "-n", "0", "-r", str(o.repetitions), "--json", "-q"] + words)
    return {"tokens_per_second": bench["rows"][0]["tokens_per_second"]}


def modelled(o, recipe):
    """Milliseconds to the first token of a prompt alone, under the best schedule."""
    plan = json_of(o.baton, ["plan", "-m", o.model, "--prefill", o.profile, "--decode", o.decode_profile, "--trace", "-", "--format", "lengths", "-n", "1",
                       "--shape-policy", "chunk:256+tail", "--kv-dtype", "f16", "--quant", recipe, "--any-bits", "--json", "-q"], f"{PROMPT}\n")
    return min(c["ttft_ms"] for c in plan["choices"])


def row_of(o, recipe):
    row = {"recipe": recipe}
    try:
        package = json_of(o.baton, ["compile", "-m", o.model, "--quant", recipe, "--json", "-q"])["path"]
        row["package_bytes"] = os.path.getsize(package)
        found = perplexity(o, o.model, ["--package", package, "--against", o.against])
        row.update((field, found[field]) for field in ("perplexity", "kl_mean", "top1_ratio") if field in found)
        if o.planted:
            row["outliers_perplexity"] = perplexity(o, o.planted, ["--quant", recipe])["perplexity"]
        row.update(speed(o, ["--package", package]))
    except Failed as e:
        row["error"] = str(e)
        return row
    try:
        row["modelled_ms"] = modelled(o, recipe)
    except Failed as e:
        row["modelled_error"] = str(e)
    return row


def float_row(o):
    row = {"recipe": "float", "perplexity": perplexity(o, o.model, ["--engine", "host"])["perplexity"]}
    if o.planted:
        row["outliers_perplexity"] = perplexity(o, o.planted, ["--engine", "host"])["perplexity"]
    row.update(speed(o, ["--engine", "host"]))
    return row


# ---- the table ----
def columns(o):
    """(heading, field, form, width)"""
    cells = [("perplexity", "perplexity", "{:.2f}", 10), ("KL mean", "kl_mean", "{:.4f}", 7), ("best token", "top1_ratio", "{:.3f}", 10),
             ("package bytes", "package_bytes", "{:,}", 13), (f"pp{PROMPT} t/s", "tokens_per_second", "{:.0f}", 9), ("modelled ms", "modelled_ms", "{:.0f}", 11)]
    return cells[:1] + [("with outliers", "outliers_perplexity", "{:.2f}", 13)] + cells[1:] if o.outliers else cells


def show(o, row, width):
    name = f"`{row['recipe']}`"
    if "error" in row:
        print(f"| {name:<{width}} | {row['error']} |", flush=True)
        return
    cells = [(form.format(row[field]) if field in row else "-").rjust(size) for _, field, form, size in columns(o)]
    print(f"| {name:<{width}} | {' | '.join(cells)} |", flush=True)
    if "modelled_error" in row:
        print(f"recipes: {row['recipe']}: {row['modelled_error']}", file=sys.stderr)


def measure(o, folder):
    o.planted, channels = planted(o, folder) if o.outliers else (None, None)
    width = 2 + max(len(r) for r in o.recipes)
    if not o.json:
        print(f"{os.path.basename(o.model)}, windows of 512 tokens: {o.chunks or 'all'} of {os.path.basename(o.text)}; modelled: {o.profile} and {o.decode_profile}"
              + (f"; outliers: channels {channels[0]} to {channels[1] - 1} of each norm times {TIMES}" if channels else "") + "\n")
        print(f"| {'recipe':<{width}} | {' | '.join(head.rjust(size) for head, _, _, size in columns(o))} |")
        print(f"|:{'-' * width}-|{'|'.join('-' * (size + 1) + ':' for _, _, _, size in columns(o))}|", flush=True)
    rows = []
    for i, recipe in enumerate([None] + o.recipes):
        if sys.stderr.isatty():
            print(f"\rrecipes: {i} of {len(o.recipes)}\033[K", end="\r", file=sys.stderr, flush=True)
        rows.append(row_of(o, recipe) if recipe else float_row(o))
        if not o.json:
            show(o, rows[-1], width)
    if o.json:
        print(json.dumps({"model": o.model, "text": o.text, "windows": o.chunks, "profile": o.profile, "decode_profile": o.decode_profile,
                          "outlier_channels": channels, "rows": rows}))


def main():
    p = argparse.ArgumentParser(prog="recipes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True, help="GGUF file")
    p.add_argument("-f", "--text", required=True, help="text that is predicted")
    p.add_argument("--chunks", type=int, default=8, help="windows of it; 0: all (default 8)")
    p.add_argument("--recipes", type=str.split, default=RECIPES.split(), help="with spaces between them")
    p.add_argument("--profile", default="hexagon-v75", help="device of the modelled prompt (default hexagon-v75)")
    p.add_argument("--decode-profile", default="adreno-750", help="device that it is handed to (default adreno-750)")
    p.add_argument("--against", choices=("host", "none"), default="host", help="distributions compared with floats, or not: a third of the time (default host)")
    p.add_argument("-r", "--repetitions", type=int, default=3, help="runs of the timed prompt; the median is printed; 0: none is timed (default 3)")
    p.add_argument("--outliers", action="store_true", help="perplexity with planted outliers too")
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    o = p.parse_args()
    o.baton = os.path.join(os.environ.get("BATON_BIN", "bin"), "baton")
    for path, what in ((o.baton, "run 'make' first"), (o.model, "MODEL is the path of a GGUF file"), (o.text, "TEXT is the path of a text")):
        if not os.path.exists(path):
            die(f"there is no {path}: {what}")
    if o.chunks < 0 or o.repetitions < 0 or not o.recipes:
        die("there is nothing to do: one recipe or more, 0 or more windows, 0 or more repetitions")
    folder = tempfile.mkdtemp(prefix="recipes.")
    try:
        measure(o, folder)
    except Failed as e:
        die(str(e))
    finally:
        shutil.rmtree(folder)


main()
