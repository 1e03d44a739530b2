#!/usr/bin/env python3
"""Writes renderings.tsv: what transformers' apply_chat_template makes of each talk of talks.json with each template.

usage: make.py FOLDER MODEL.gguf [TEXTS]     (FOLDER by fetch.py; needs transformers, jinja2, xxhash, gguf)

A row is a template: those of own/, then those of published.tsv that FOLDER has. A column is a talk. A cell is the XXH3
(64 bits) of the rendering, or - where transformers raises an error. The row smollm2/ids has the ids that its tokenizer,
made from the default model's file, gives for the template's rendering, 32 bits each, low byte first. The clock of
strftime_now stands at NOW. TEXTS: a folder for the renderings themselves, to look at.
"""
import datetime
import json
import os
import struct
import sys

import gguf
import tokenizers
import transformers
import xxhash
from transformers.utils import chat_template_utils

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = datetime.datetime(2026, 3, 7, 9, 5, 3)  # a Saturday


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def tokenizer(bos, eos):
    names = {k: v for k, v in (("bos_token", bos), ("eos_token", eos)) if v}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE()), **names
    )


def smollm2(path):
    """The default model's own tokenizer, as its tokenizer.json has it."""
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tok = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tok.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tok.add_special_tokens([tokenizers.AddedToken(t, normalized=False) for t, k in zip(tokens, types) if k == 3])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tok, bos_token="<|im_start|>", eos_token="<|im_end|>"
    )


def ids_hash(tok, template, talk):
    text = render(tok, template, talk)
    if text is None:
        return "-"
    ids = tok(text, add_special_tokens=False)["input_ids"]  # as apply_chat_template does with tokenize=True
    return xxhash.xxh3_64_hexdigest(struct.pack("<%di" % len(ids), *ids))


def render(tok, template, talk):
    try:
        return tok.apply_chat_template(
            talk["messages"],
            tools=talk.get("tools"),
            documents=talk.get("documents"),
            chat_template=template,
            add_generation_prompt=talk.get("add_generation_prompt", True),
            tokenize=False,
            **talk.get("chat_template_kwargs", {}),
        )
    except Exception:
        return None


def read(path):
    with open(path, encoding="utf-8", newline="") as f:
        return f.read()


def main():
    chat_template_utils.datetime = Clock
    folder = sys.argv[1]
    talks = json.loads(read(os.path.join(HERE, "talks.json")))
    own = os.path.join(HERE, "own")
    rows = [(n[: -len(".jinja")], "<s>", "</s>", os.path.join(own, n)) for n in sorted(os.listdir(own))]
    for line in read(os.path.join(HERE, "published.tsv")).splitlines():
        if not line.startswith("#"):
            name, _, bos, eos = line.split("\t")[:4]
            rows.append((name, bos, eos, os.path.join(folder, name + ".jinja")))
    with open(os.path.join(HERE, "renderings.tsv"), "w", encoding="utf-8") as out:
        out.write("\t".join(["template"] + [t["name"] for t in talks]) + "\n")
        for name, bos, eos, path in rows:
            if not os.path.exists(path):
                print("no " + path, file=sys.stderr)
                continue
            tok, template = tokenizer(bos, eos), read(path)
            texts = [render(tok, template, t) for t in talks]
            cells = ["-" if t is None else xxhash.xxh3_64_hexdigest(t.encode()) for t in texts]
            out.write("\t".join([name] + cells) + "\n")
            if name == "smollm2":
                tok = smollm2(sys.argv[2])
                out.write("\t".join([name + "/ids"] + [ids_hash(tok, template, t) for t in talks]) + "\n")
            if len(sys.argv) > 3:
                for talk, text in zip(talks, texts):
                    path = os.path.join(sys.argv[3], name + "." + talk["name"])
                    with open(path, "w", encoding="utf-8", newline="") as f:
                        f.write("REFUSED" if text is None else text)


if __name__ == "__main__":
    main()
