#!/usr/bin/env python3
"""Writes renderings.tsv: what transformers' apply_chat_template makes of each talk of talks.json with each template.

usage: make.py FOLDER     (templates by fetch.py; needs transformers, jinja2, xxhash)

A row is a template: those of own/, then those of published.tsv that FOLDER has. A column is a talk. A cell is the XXH3
(64 bits) of the rendering, or - where transformers raises an error. The clock of strftime_now stands at NOW.
"""
import datetime
import json
import os
import sys

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
            if len(sys.argv) > 2:  # the texts themselves, to look at
                for talk, text in zip(talks, texts):
                    path = os.path.join(sys.argv[2], name + "." + talk["name"])
                    with open(path, "w", encoding="utf-8", newline="") as f:
                        f.write("REFUSED" if text is None else text)


if __name__ == "__main__":
    main()
