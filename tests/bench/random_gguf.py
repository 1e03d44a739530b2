"""Writes a GGUF file of random blocks, Q4_0 or gpt-oss's MXFP4, in the sizes of a model with experts, for speed and memory
alone: its numbers mean nothing. The tokenizer is copied from a GGUF file that has one.

    python3 tests/bench/random_gguf.py SHAPE VOCAB.gguf OUT.gguf [LAYERS]
    baton bench -m OUT.gguf -p 0 -n 4 --batch 1,4,16,64 --weights fp4 --decode-engine host --json

SHAPE is a row of SHAPES. Needs numpy.
"""
import struct
import sys
import numpy as np

#                   dim, heads, kv, head, ffn, experts, used, rope base
SHAPES = {"qwen3-30b-a3b": (2048, 32, 4, 128, 768, 128, 8, 1e6), "gpt-oss-20b": (2880, 64, 8, 64, 2880, 32, 4, 150000.0),
          "mixtral-8x7b": (4096, 32, 8, 128, 14336, 8, 2, 1e6)}
U32, F32, STR, ARR = 4, 6, 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
TYPE_F32, TYPE_Q4_0, TYPE_MXFP4, ALIGN, BLOCK = 0, 2, 39, 32, 32
BYTES = {TYPE_Q4_0: 18, TYPE_MXFP4: 17}  # of a block


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def skip(buf, at, kind):
    if kind == STR:
        return at + 8 + struct.unpack_from("<Q", buf, at)[0]
    if kind != ARR:
        return at + SIZES[kind]
    inner, count = struct.unpack_from("<IQ", buf, at)
    at += 12
    for _ in range(count):
        at = skip(buf, at, inner)
    return at


def tokenizer(path):
    """The bytes of all keys that begin with tokenizer., how many there are, and the size of the vocabulary."""
    buf = open(path, "rb").read(64 << 20)
    at, keys, vocab = 24, [], 0
    for _ in range(struct.unpack_from("<Q", buf, 16)[0]):
        begin, size = at, struct.unpack_from("<Q", buf, at)[0]
        key, at = buf[at + 8:at + 8 + size].decode(), at + 8 + size
        kind = struct.unpack_from("<I", buf, at)[0]
        if key == "tokenizer.ggml.tokens":
            vocab = struct.unpack_from("<IQ", buf, at + 4)[1]
        at = skip(buf, at + 4, kind)
        if key.startswith("tokenizer."):
            keys.append(buf[begin:at])
    return keys, vocab


def blocks(rng, count, scale, kind):
    """One scale, codes at random; their values have about this deviation, and the mean 0."""
    b = np.empty((count, BYTES[kind]), np.uint8)
    if kind == TYPE_MXFP4:
        b[:, 0] = 127 + round(np.log2(scale / 3))
        b[:, 1:] = np.frombuffer(rng.bytes(count * 16), np.uint8).reshape(count, 16)
        return b.tobytes()
    b[:, :2] = np.frombuffer(np.float16(scale / 4.6).tobytes(), np.uint8)
    codes = np.frombuffer(rng.bytes(count * 16), np.uint8)
    codes = np.where(codes & 15, codes, codes | 8) | np.where(codes >> 4, 0, 128).astype(np.uint8)  # none of -8: mean 0
    b[:, 2:] = codes.reshape(count, 16)
    return b.tobytes()


def main():
    dim, heads, kv, head, ffn, experts, used, base = SHAPES[sys.argv[1]]
    is_oss = sys.argv[1].startswith("gpt-oss")
    arch, kind = ("gpt-oss", TYPE_MXFP4) if is_oss else ("qwen3moe", TYPE_Q4_0)
    layers = int(sys.argv[4]) if len(sys.argv) > 4 else 4
    keys, vocab = tokenizer(sys.argv[2])
    counts = {"context_length": 4096, "embedding_length": dim, "block_count": layers, "feed_forward_length": ffn,
              "attention.head_count": heads, "attention.head_count_kv": kv, "attention.key_length": head,
              "attention.value_length": head, "rope.dimension_count": head, "expert_count": experts,
              "expert_used_count": used, "expert_feed_forward_length": ffn}
    numbers = {"attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": base}
    if is_oss:
        counts.update({"attention.sliding_window": 128, "rope.scaling.original_context_length": 4096})
        numbers["rope.scaling.factor"] = 32.0
        keys.append(text(f"{arch}.rope.scaling.type") + struct.pack("<I", STR) + text("yarn"))
    keys += [text("general.architecture") + struct.pack("<I", STR) + text(arch),
             text("general.name") + struct.pack("<I", STR) + text("random " + sys.argv[1])]
    keys += [text(f"{arch}.{k}") + struct.pack("<II", U32, v) for k, v in counts.items()]
    keys += [text(f"{arch}.{k}") + struct.pack("<If", F32, v) for k, v in numbers.items()]
    tensors = [("token_embd.weight", (dim, vocab), 1.0), ("output_norm.weight", (dim,), 0)]
    for i in range(layers):
        norms = [("post_attention_norm", (dim,)), ("attn_sinks", (heads,))] if is_oss else [
            ("ffn_norm", (dim,)), ("attn_q_norm", (head,)), ("attn_k_norm", (head,))]
        biases = [("attn_q", (heads * head,)), ("attn_k", (kv * head,)), ("attn_v", (kv * head,)), ("attn_output", (dim,)),
                  ("ffn_gate_inp", (experts,)), ("ffn_gate_exps", (ffn, experts)), ("ffn_up_exps", (ffn, experts)),
                  ("ffn_down_exps", (dim, experts))] if is_oss else []
        tensors += [(f"blk.{i}.{n}.bias", shape, 0.1) for n, shape in biases]
        tensors += [(f"blk.{i}.{n}.weight", shape, shape[0] ** -0.5 if len(shape) > 1 else 0) for n, shape in norms + [
            ("attn_norm", (dim,)),
            ("attn_q", (dim, heads * head)), ("attn_k", (dim, kv * head)), ("attn_v", (dim, kv * head)),
            ("attn_output", (heads * head, dim)), ("ffn_gate_inp", (dim, experts)),
            ("ffn_gate_exps", (dim, ffn, experts)), ("ffn_up_exps", (dim, ffn, experts)),
            ("ffn_down_exps", (ffn, dim, experts))]]
    rng = np.random.default_rng(1)
    infos, at = b"", 0
    is_f32 = lambda name, shape: len(shape) == 1 or "gate_inp" in name or name.endswith(".bias")
    for name, shape, _ in tensors:
        n = int(np.prod(shape))
        infos += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in shape)
        infos += struct.pack("<IQ", TYPE_F32 if is_f32(name, shape) else kind, at)
        at += -(-(4 * n if is_f32(name, shape) else n // BLOCK * BYTES[kind]) // ALIGN) * ALIGN
    with open(sys.argv[3], "wb") as f:
        f.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys)) + b"".join(keys) + infos)
        f.write(bytes(-f.tell() % ALIGN))
        for name, shape, scale in tensors:
            n, group = int(np.prod(shape)), 1 << 20
            if is_f32(name, shape):
                f.write((rng.standard_normal(n) * scale if scale else np.ones(n)).astype(np.float32).tobytes())
            for first in range(0, 0 if is_f32(name, shape) else n // BLOCK, group):
                f.write(blocks(rng, min(group, n // BLOCK - first), scale, kind))
            f.write(bytes(-f.tell() % ALIGN))


main()
