"""Writes tests/unit/ref/tiny_logits.h: logits of small models in double precision, from the published definitions of Llama,
Qwen2, Qwen3, Mixtral, Qwen3-MoE and Gemma 3, written here a second time with NumPy and the `gguf` package's own reader.

    build/release/tests/unit/ref/test_ref write DIR      # the models, as GGUF files
    pip install gguf numpy && python3 make_tiny_logits.py DIR > ../unit/ref/tiny_logits.h
"""
import sys
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

PROMPT = [1, 5, 300, 17, 42, 250, 9, 111]
STEPS = 12


def field(r, key, default=None):
    f = r.fields.get(key)
    if f is None:
        return default
    v = f.parts[f.data[0]]
    return bytes(v).decode() if f.types[0].name == "STRING" else v[0].item()


def norm(x, w, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * w


def block(h, gate, up, down, is_gelu=False):
    g = h @ gate.T
    g = g / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g ** 3))) if is_gelu else g / (1 + np.exp(-g))
    return (g * (h @ up.T)) @ down.T


def experts(h, p, used):
    """A softmax over the scores of all experts; the greatest are kept and divided by their sum."""
    z = h @ p("ffn_gate_inp.weight").T
    share = np.exp(z - z.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    y = np.zeros_like(h)
    for t in range(len(h)):
        best = np.argsort(-share[t], kind="stable")[:used]
        for e in best:
            one = [p(f"ffn_{m}_exps.weight")[e] for m in ("gate", "up", "down")]
            y[t] += share[t][e] / share[t][best].sum() * block(h[t : t + 1], *one)[0]
    return y


def logits(path, ids):
    r = GGUFReader(path)
    w = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in r.tensors}
    arch = field(r, "general.architecture")
    get = lambda k, d=None: field(r, f"{arch}.{k}", d)
    layers, heads, groups = get("block_count"), get("attention.head_count"), get("attention.head_count_kv")
    size, eps = get("attention.key_length"), get("attention.layer_norm_rms_epsilon")
    rot, base, factor = get("rope.dimension_count"), get("rope.freq_base"), get("rope.scaling.factor", 1.0)
    n = len(ids)
    window, is_gemma = get("attention.sliding_window", 0), arch == "gemma3"

    def rope(x, is_local):                  # [n, heads, size]
        inv = (get("rope.freq_base_swa") if is_local else base) ** (-np.arange(0, rot, 2, dtype=np.float64) / rot)
        inv = inv / w.get("rope_freqs.weight", np.ones(rot // 2)) / (1 if is_local else factor)
        angle = np.arange(n)[:, None] * inv[None, :]
        y = x.copy()
        c, s = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        if arch == "llama":
            a, b = x[..., 0:rot:2], x[..., 1:rot:2]
            y[..., 0:rot:2], y[..., 1:rot:2] = a * c - b * s, a * s + b * c
        else:
            a, b = x[..., : rot // 2], x[..., rot // 2 : rot]
            y[..., : rot // 2], y[..., rot // 2 : rot] = a * c - b * s, a * s + b * c
        return y

    x = w["token_embd.weight"][ids] * (np.sqrt(w["token_embd.weight"].shape[1]) if is_gemma else 1)
    future = np.triu(np.full((n, n), -np.inf), 1)
    past = np.tril(np.full((n, n), -np.inf), -window) if window else np.zeros((n, n))
    for i in range(layers):
        has_window = window > 0 and not (is_gemma and i % 6 == 5)
        mask = future + past if has_window else future
        p = lambda name: w[f"blk.{i}.{name}"]
        bias = lambda name: w.get(f"blk.{i}.{name}", 0.0)
        h = norm(x, p("attn_norm.weight"), eps)
        q = (h @ p("attn_q.weight").T + bias("attn_q.bias")).reshape(n, heads, size)
        k = (h @ p("attn_k.weight").T + bias("attn_k.bias")).reshape(n, groups, size)
        v = (h @ p("attn_v.weight").T + bias("attn_v.bias")).reshape(n, groups, size)
        if arch.startswith("qwen3") or is_gemma:
            q, k = norm(q, p("attn_q_norm.weight"), eps), norm(k, p("attn_k_norm.weight"), eps)
        q, k = rope(q, is_gemma and has_window), rope(k, is_gemma and has_window)
        k, v = np.repeat(k, heads // groups, axis=1), np.repeat(v, heads // groups, axis=1)
        score = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size) + mask
        score = np.exp(score - score.max(-1, keepdims=True))
        score /= score.sum(-1, keepdims=True)
        post = lambda y, name: norm(y, p(name), eps) if is_gemma else y
        y = np.einsum("hqk,khd->qhd", score, v).reshape(n, -1) @ p("attn_output.weight").T
        x = x + post(y, "post_attention_norm.weight")
        h = norm(x, p("ffn_norm.weight"), eps)
        if f"blk.{i}.ffn_gate_inp.weight" in w:
            y = experts(h, p, get("expert_used_count"))
        else:
            y = block(h, p("ffn_gate.weight"), p("ffn_up.weight"), p("ffn_down.weight"), is_gemma)
        x = x + post(y, "post_ffw_norm.weight")
    x = norm(x[-1], w["output_norm.weight"], eps)
    return w.get("output.weight", w["token_embd.weight"]) @ x


print("/* Made by tests/golden/make_tiny_logits.py; do not edit. */")
print("// clang-format off")
print("static const int32_t tiny_prompt[] = { " + ", ".join(map(str, PROMPT)) + " };")
print("/* file, the first eight logits after the prompt, the ids of a greedy continuation */")
print("static const struct { const char *name; double first[8]; int32_t ids[%d]; } tiny_logits[] = {" % STEPS)
for name in ["llama", "llama-scaled", "llama-q4", "qwen2", "qwen3", "qwen3-partial", "qwen3moe", "mixtral", "llama-window",
             "gemma3"]:
    ids, out, first = list(PROMPT), [], None
    for _ in range(STEPS):
        z = logits(f"{sys.argv[1]}/{name}.gguf", ids)
        first = z[:8] if first is None else first
        gap = np.sort(z)[-1] - np.sort(z)[-2]
        assert gap > 1e-3, (name, gap)
        ids.append(int(z.argmax()))
        out.append(ids[-1])
    print(f'    {{ "{name}",\n      {{ {", ".join(f"{v:.9f}" for v in first)} }},')
    print(f'      {{ {", ".join(map(str, out))} }} }},')
print("};")
