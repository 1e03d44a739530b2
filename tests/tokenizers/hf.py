#!/usr/bin/env python3
"""Hugging Face's tokenizers over the texts of texts.py: the ids to which test_ids holds Baton's.

usage: hf.py FOLDER [--write] [NAME...]        (needs tokenizers)

For each NAME.gguf of FOLDER a tokenizer is made as the model's tokenizer.json describes it, with the vocabulary of the
file, or read from NAME.json where that is there; for each family of EXPRESSIONS one with the pairs of bytes of
tests/helpers/model/small_vocab.h, called split-FAMILY. NAME.ids gets the ids: for each text a count and so many ids,
32 bits each, low byte first. A file that is there stays. --write puts rows of hashes into ids.tsv: of each block of
texts the first 64 bits of the SHA-256 of its part of NAME.ids.
"""
import array
import hashlib
import os
import struct
import sys

import texts
from fetch import NORMAL, USER_DEFINED, byte_letters
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 8192

SPACES = r"|\s+(?!\S)|\s+"
LINES = r"|\s*[\r\n]+" + SPACES
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+" + SPACES
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def llama3(numbers):
    return SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + numbers + r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + LINES


def cased(tail, numbers):
    before = r"[^\r\n\p{L}\p{N}]?"
    words = before + UPPER + "*" + LOWER + "+" + tail + "|" + before + UPPER + "+" + LOWER + "*" + tail
    return words + "|" + numbers + r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + LINES


DIGITS = None  # each digit alone
DEEPSEEK_LETTERS = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌ"
    "ῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮ\u2cf2\u2cf3Ꙁ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-\uabbfﬀ-ﬆﬓ-ﬗＡ-Ｚ"
    "ａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
# The expressions by which each cuts, one after the other, as the models' tokenizer.json files have it.
EXPRESSIONS = {
    "gpt-2": [GPT2],
    "llama-bpe": [llama3(r"\p{N}{1,3}")],
    "qwen2": [llama3(r"\p{N}")],
    "smollm": [DIGITS, GPT2],
    "command-r": [DIGITS, GPT2],
    "olmo": [GPT2],
    "dbrx": [llama3(r"\p{N}{1,3}")],
    "gpt-4o": [cased(SHORT + "?", r"\p{N}{1,3}")],
    "tekken": [cased("", r"\p{N}")],
    "deepseek-v3": [
        r"\p{N}{1,3}",
        "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
        " ?[\\p{P}\\p{S}]+[\r\n]*" + LINES,
    ],
    "deepseek-llm": [
        "[\r\n]",
        "\\s?[" + DEEPSEEK_LETTERS + "]+",
        "\\s?[!-/:-~！-／：-～‘-‟　-。]+",
        "\\s+$",
        "[一-龥ࠀ-一가-\ud7ff]+",
        DIGITS,
    ],
    "deepseek-coder": ["[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", DIGITS],
}
NFC = {"qwen2", "command-r", "olmo"}
WHOLE_WORDS = {"llama-bpe", "tekken"}


def read_gguf(path):
    """{key: value} of the tokenizer's keys"""
    sizes = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    found = {}
    with open(path, "rb") as f:

        def number(code):
            return struct.unpack("<" + code, f.read(struct.calcsize(code)))[0]

        def value(kind):
            if kind == 8:
                return f.read(number("Q"))
            if kind != 9:
                return number(sizes[kind])
            of, n = number("I"), number("Q")
            if of in (8, 9):
                return [value(of) for _ in range(n)]
            return list(struct.unpack("<%d%s" % (n, sizes[of]), f.read(n * struct.calcsize(sizes[of]))))

        f.seek(16)
        for _ in range(number("Q")):
            key, kind = f.read(number("Q")).decode(), number("I")
            found[key] = value(kind)
    text = lambda v: [t.decode() for t in v] if isinstance(v, list) and v and isinstance(v[0], bytes) else v
    return {k[len("tokenizer.ggml.") :]: text(v) for k, v in found.items() if k.startswith("tokenizer.ggml.")}


def add_user_defined(tok, tokens, types):
    added = [AddedToken(t, special=False, normalized=False) for t, k in zip(tokens, types) if k == USER_DEFINED]
    if added:
        tok.add_tokens(added)
    return tok


def bpe(family, tokens, merges, types):
    vocab = {}
    for i, t in enumerate(tokens):
        vocab.setdefault(t, i)
    merges = [tuple(m.split(" ")) for m in merges]
    tok = Tokenizer(models.BPE(vocab, merges, ignore_merges=family in WHOLE_WORDS))
    if family in NFC:
        tok.normalizer = normalizers.NFC()
    cuts = [
        pre_tokenizers.Digits(individual_digits=True) if e is DIGITS else pre_tokenizers.Split(Regex(e), "isolated")
        for e in EXPRESSIONS[family]
    ]
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        cuts + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return add_user_defined(tok, tokens, types)


def sentencepiece(g):
    """As transformers converts a SentencePiece model: merges are all cuts of a piece into two, by score."""
    vocab = {t: i for i, t in enumerate(g["tokens"])}
    merges = []
    for piece, i in vocab.items():
        if g["token_type"][i] != NORMAL:
            continue
        cuts = [(piece[:k], piece[k:]) for k in range(1, len(piece)) if piece[:k] in vocab and piece[k:] in vocab]
        merges += [(g["scores"][i], c) for c in sorted(cuts, key=lambda c: (vocab[c[0]], vocab[c[1]]))]
    merges = [c for _, c in sorted(merges, key=lambda m: -m[0])]
    tok = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    front = [normalizers.Prepend("▁")] if g.get("add_space_prefix", True) else []
    tok.normalizer = normalizers.Sequence(front + [normalizers.Replace(" ", "▁")])
    return add_user_defined(tok, g["tokens"], g["token_type"])


def pairs(family):
    letter = byte_letters()
    parts = [(letter[p >> 8], letter[p & 255]) for p in (k * 40503 % 65536 for k in range(65536))]
    parts += [(letter[b] * (2 << row),) * 2 for row in range(5) for b in range(256)]
    return bpe(family, letter + [a + b for a, b in parts], [a + " " + b for a, b in parts], [])


def tokenizer(folder, name):
    if name.startswith("split-"):
        return pairs(name[len("split-") :])
    path = os.path.join(folder, name)
    if os.path.exists(path + ".json"):
        return Tokenizer.from_file(path + ".json")
    g = read_gguf(path + ".gguf")
    if g["model"] == b"llama":
        return sentencepiece(g)
    family = g["pre"].decode()
    return bpe(family, g["tokens"], g["merges"], g["token_type"])


def encode(tok, path):
    with open(path + ".new", "wb") as f:
        every = list(texts.texts())
        for at in range(0, len(every), BATCH):
            for e in tok.encode_batch(every[at : at + BATCH], add_special_tokens=False):
                f.write(struct.pack("<I", len(e.ids)) + array.array("i", e.ids).tobytes())
    os.rename(path + ".new", path)


def hashes(path):
    with open(path, "rb") as f:
        data = f.read()
    at, cells = 0, []
    for count in texts.blocks():
        begin = at
        for _ in range(count):
            at += 4 + 4 * struct.unpack_from("<I", data, at)[0]
        cells.append(hashlib.sha256(data[begin:at]).hexdigest()[:16])
    return cells


def main():
    folder, write = sys.argv[1], "--write" in sys.argv
    wanted = [a for a in sys.argv[2:] if a != "--write"]
    names = ["split-" + f for f in EXPRESSIONS]
    names += sorted(n[: -len(".gguf")] for n in os.listdir(folder) if n.endswith(".gguf"))
    for name in wanted or names:
        path = os.path.join(folder, name + ".ids")
        if not os.path.exists(path):
            print("Hugging Face's ids of " + name, file=sys.stderr, flush=True)
            encode(tokenizer(folder, name), path)
    if not write:
        return
    table = os.path.join(HERE, "ids.tsv")
    rows = {}
    if os.path.exists(table):
        with open(table, encoding="utf-8") as f:
            rows = dict(line.rstrip("\n").split("\t", 1) for line in f if not line.startswith("#"))
    for name in wanted or names:
        rows[name] = "\t".join(hashes(os.path.join(folder, name + ".ids")))
    with open(table, "w", encoding="utf-8") as f:
        f.write("# vocabulary, then a cell for each block of texts (texts.py), by hf.py\n")
        for name in sorted(rows):
            f.write(name + "\t" + rows[name] + "\n")


if __name__ == "__main__":
    main()
