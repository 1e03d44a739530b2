"""Writes tests/unit/model/quant_vectors.h: for every tensor type two blocks of fixed bytes and the f32 bits that the
`gguf` package of PyPI (the format's own Python reader) makes of them.

    pip install gguf numpy && python3 make_quant_vectors.py > ../unit/model/quant_vectors.h
"""
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

TYPES = [T.F32, T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL,
         T.MXFP4]
# where the f16 scales lie in a block: random bytes would make some of them infinite or NaN
SCALES = {T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0]}


def fnv(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


print("/* Made by tests/golden/make_quant_vectors.py with the gguf package; do not edit. */")
print("// clang-format off")
rng = np.random.default_rng(20240501)
rows = []
for t in TYPES:
    elems, size = GGML_QUANT_SIZES[t]
    blocks = 2 if elems > 1 else 16
    raw = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
    if t == T.F32:
        raw = rng.standard_normal((blocks, 1)).astype(np.float32).view(np.uint8)
    if t == T.F16:
        f = np.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00, 0x7C00, 0xFC00, 0x3555, 0xB266,
                      0x03FF, 0x8001, 0x5640, 0x1234], dtype=np.uint16)
        raw = f.view(np.uint8).reshape(blocks, 2)
    if t == T.BF16:
        raw[:, 1] = (raw[:, 1] & 0x80) | (raw[:, 1] & 0x3F)
    if t == T.MXFP4:  # an exponent of 8 bits: one in the middle, one of subnormal numbers
        raw[:, 0] = [121, 1]
    for at in SCALES.get(t, []):
        # second block: a subnormal scale
        f = np.array([rng.standard_normal() * 0.05, 0], dtype=np.float16)
        f[1:].view(np.uint16)[0] = 0x0123
        raw[:, at:at + 2] = f.view(np.uint8).reshape(2, 2)
    y = dequantize(raw.reshape(1, -1), t).reshape(-1).astype(np.float32)
    assert y.size == blocks * elems
    bits = y.view(np.uint32)
    print(f"static const uint8_t {t.name.lower()}_bytes[] = {{")
    flat = [f"0x{b:02x}" for b in raw.reshape(-1)]
    for i in range(0, len(flat), 16):
        print("    " + ", ".join(flat[i:i + 16]) + ",")
    print("};")
    first = ", ".join(f"0x{b:08x}" for b in bits[:4])
    rows.append(f"    {{ {t.value}, \"{t.name}\", {t.name.lower()}_bytes, sizeof {t.name.lower()}_bytes, {y.size},\n"
                f"      {{ {first} }}, 0x{fnv(y.astype('<f4').tobytes()):016x} }},")
print("/* type, name, bytes, elements, bits of the first four, FNV-1a of all f32 bytes (little-endian) */")
print("static const quant_vector quant_vectors[] = {")
print("\n".join(rows))
print("};")
