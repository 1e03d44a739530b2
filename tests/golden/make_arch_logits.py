"""Writes tests/unit/ref/arch_logits.h: logits of small models by `transformers`, in double precision. Weights are those of
GGUF files; a file of an architecture whose pairs are ADJACENT (common/model/arch.h) has the rows of q and k permuted.

    build/release/tests/unit/ref/test_ref write DIR      # the models, as GGUF files
    pip install gguf numpy torch transformers && python3 make_arch_logits.py DIR > ../unit/ref/arch_logits.h
"""
import sys
import numpy as np
import torch
import transformers
from gguf import GGUFReader
from gguf.quants import dequantize

PROMPT = [1, 5, 300, 17, 42, 250, 9, 111]
STEPS = 12
NAMES = sys.argv[2:] or ["granite", "smollm3", "olmo2", "phi3", "phi3-short", "phi3-long", "starcoder2", "phi3-window",
                         "llama-window", "gemma3", "qwen3moe", "mixtral", "gemma2", "gemma", "gpt-oss", "hunyuan-dense"]


def field(r, key, default=None):
    f = r.fields.get(key)
    if f is None:
        return default
    v = f.parts[f.data[0]]
    return bytes(v).decode() if f.types[0].name == "STRING" else v[0].item()


def unpermute(w, heads):
    return w.reshape(heads, w.shape[0] // heads // 2, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def open_model(path):
    r = GGUFReader(path)
    arch = field(r, "general.architecture")
    get = lambda k, d=None: field(r, f"{arch}.{k}", d)
    w = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in r.tensors}
    heads, groups = get("attention.head_count"), get("attention.head_count_kv")
    vocab, dim = w["token_embd.weight"].shape
    common = dict(vocab_size=vocab, hidden_size=dim, intermediate_size=get("feed_forward_length"),
                  num_hidden_layers=get("block_count"), num_attention_heads=heads, num_key_value_heads=groups,
                  max_position_embeddings=get("context_length"),
                  rms_norm_eps=get("attention.layer_norm_rms_epsilon"),
                  rope_theta=get("rope.freq_base"), tie_word_embeddings="output.weight" not in w, pad_token_id=None,
                  bos_token_id=None, eos_token_id=None, attn_implementation="eager")
    experts = dict(num_experts_per_tok=get("expert_used_count"), experts_implementation="eager")
    if arch == "granite":
        config = transformers.GraniteConfig(**common, attention_multiplier=get("attention.scale"),
                                            embedding_multiplier=get("embedding_scale"),
                                            residual_multiplier=get("residual_scale"), logits_scaling=get("logit_scale"))
    elif arch == "smollm3":
        config = transformers.SmolLM3Config(**common, no_rope_layer_interval=4)
    elif arch == "starcoder2":
        config = transformers.Starcoder2Config(**common, norm_epsilon=get("attention.layer_norm_epsilon"), use_bias=True,
                                               hidden_act="gelu_pytorch_tanh", sliding_window=None,
                                               residual_dropout=0.0, embedding_dropout=0.0, attention_dropout=0.0)
    elif arch == "olmo2":
        config = transformers.Olmo2Config(**common)
    elif arch == "gemma3":
        rope = dict(full_attention=dict(rope_type="linear", factor=get("rope.scaling.factor"),
                                        rope_theta=get("rope.freq_base")),
                    sliding_attention=dict(rope_type="default", rope_theta=get("rope.freq_base_swa")))
        common.pop("rope_theta")
        config = transformers.Gemma3TextConfig(**common, head_dim=get("attention.key_length"), rope_parameters=rope,
                                               sliding_window=get("attention.sliding_window"),
                                               query_pre_attn_scalar=get("attention.key_length"))
    elif arch == "gemma":
        config = transformers.GemmaConfig(**common, head_dim=get("attention.key_length"),
                                          hidden_act="gelu_pytorch_tanh")
    elif arch == "gemma2":
        config = transformers.Gemma2Config(**common, head_dim=get("attention.key_length"),
                                           sliding_window=get("attention.sliding_window"),
                                           query_pre_attn_scalar=round(get("attention.scale") ** -2),
                                           attn_logit_softcapping=get("attn_logit_softcapping"),
                                           final_logit_softcapping=get("final_logit_softcapping"))
    elif arch == "qwen3moe":
        config = transformers.Qwen3MoeConfig(**common, **experts, num_experts=get("expert_count"), norm_topk_prob=True,
                                             moe_intermediate_size=get("feed_forward_length"), decoder_sparse_step=1,
                                             head_dim=get("attention.key_length"), mlp_only_layers=[])
    elif arch == "gpt-oss":
        rope = dict(rope_type=get("rope.scaling.type"), rope_theta=get("rope.freq_base"), truncate=False,
                    factor=get("rope.scaling.factor"),
                    original_max_position_embeddings=get("rope.scaling.original_context_length"))
        common.pop("rope_theta")
        config = transformers.GptOssConfig(**common, **experts, num_local_experts=get("expert_count"),
                                           head_dim=get("attention.key_length"), rope_parameters=rope,
                                           sliding_window=get("attention.sliding_window"))
    elif arch == "llama" and get("expert_count"):
        config = transformers.MixtralConfig(**common, **experts, num_local_experts=get("expert_count"),
                                            head_dim=get("attention.key_length"), sliding_window=None)
    elif arch == "llama":
        config = transformers.MistralConfig(**common, sliding_window=get("attention.sliding_window"))
    elif arch == "hunyuan-dense":
        config = transformers.HunYuanDenseV1Config(**common, head_dim=get("attention.key_length"))
    elif arch == "phi3":
        long, short = w.get("rope_factors_long.weight"), w.get("rope_factors_short.weight")
        original = get("rope.scaling.original_context_length", get("context_length"))
        scaling = None if long is None else dict(rope_type="longrope", type="longrope", long_factor=list(long),
                                                 short_factor=list(short), attention_factor=get("rope.scaling.attn_factor"))
        config = transformers.Phi3Config(**common, rope_scaling=scaling, original_max_position_embeddings=original,
                                         sliding_window=get("attention.sliding_window"))
    if arch.startswith("gemma"):
        w = {k: v - 1 if "norm" in k else v for k, v in w.items()}
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float64).double().eval()
    names = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
             "output_norm.bias": "model.norm.bias", "output.weight": "lm_head.weight"}
    parts = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
             "attn_v": "self_attn.v_proj", "attn_qkv": "self_attn.qkv_proj", "attn_output": "self_attn.o_proj",
             "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
             "ffn_norm": "pre_feedforward_layernorm" if arch in ("gemma2", "gemma3") else "post_attention_layernorm",
             "post_attention_norm": "post_attention_layernorm",
             "post_ffw_norm": "post_feedforward_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_down": "mlp.down_proj",
             "ffn_up": "mlp.gate_up_proj" if arch == "phi3" else "mlp.up_proj", "ffn_gate_inp": "mlp.gate"}
    if arch == "gpt-oss":
        parts.update(ffn_gate_inp="mlp.router", attn_sinks="self_attn.sinks")
    if arch == "hunyuan-dense":
        parts.update(attn_q_norm="self_attn.query_layernorm", attn_k_norm="self_attn.key_layernorm")
    if arch == "starcoder2":
        parts.update(ffn_up="mlp.c_fc", ffn_down="mlp.c_proj")
    state = {}
    for name, value in w.items():
        p = name.split(".")
        if name.startswith("rope_factors") or "_exps" in name:
            continue
        if arch in ("granite", "smollm3", "llama") and p[-2] in ("attn_q", "attn_k"):
            value = unpermute(value, heads if p[-2] == "attn_q" else groups)
        own = "" if name.endswith("attn_sinks.weight") else "." + p[-1]
        state[names.get(name) or f"model.layers.{p[1]}.{parts[p[2]]}{own}"] = torch.from_numpy(value.copy())
    for i in range(get("block_count") if get("expert_count") else 0):
        mlp, of = f"model.layers.{i}.mlp.experts", lambda m, t: w[f"blk.{i}.ffn_{m}_exps.{t}"]
        gate, up, down = (of(m, "weight") for m in ("gate", "up", "down"))
        if arch != "gpt-oss":
            state[f"{mlp}.gate_up_proj"] = torch.from_numpy(np.concatenate([gate, up], 1))
            state[f"{mlp}.down_proj"] = torch.from_numpy(down.copy())
            continue
        weave = lambda a, b: torch.from_numpy(np.stack([a, b], -1).reshape(*a.shape[:-1], -1))
        state[f"{mlp}.gate_up_proj"] = weave(gate.swapaxes(1, 2), up.swapaxes(1, 2))
        state[f"{mlp}.gate_up_proj_bias"] = weave(of("gate", "bias"), of("up", "bias"))
        state[f"{mlp}.down_proj"] = torch.from_numpy(down.swapaxes(1, 2).copy())
        state[f"{mlp}.down_proj_bias"] = torch.from_numpy(of("down", "bias").copy())
    missing, unknown = model.load_state_dict(state, strict=False)
    left = [m for m in missing if m != "lm_head.weight" and "inv_freq" not in m]
    assert not left and not unknown, (left, unknown)
    model.tie_weights()
    return model


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0, -1].numpy()


print("/* Made by tests/golden/make_arch_logits.py; do not edit. */")
print("// clang-format off")
print(f"/* By transformers {transformers.__version__}: file, the first eight logits after the prompt, the ids of a greedy")
print(" * continuation */")
print("static const struct { const char *name; double first[8]; int32_t ids[%d]; } arch_logits[] = {" % STEPS)
for name in NAMES:
    model, ids, out, first = open_model(f"{sys.argv[1]}/{name}.gguf"), list(PROMPT), [], None
    for _ in range(STEPS):
        z = logits(model, ids)
        first = z[:8] if first is None else first
        gap = np.sort(z)[-1] - np.sort(z)[-2]
        assert gap > 1e-3, (name, gap)
        ids.append(int(z.argmax()))
        out.append(ids[-1])
    print(f'    {{ "{name}",\n      {{ {", ".join(f"{v:.9f}" for v in first)} }},')
    print(f'      {{ {", ".join(map(str, out))} }} }},')
print("};")
