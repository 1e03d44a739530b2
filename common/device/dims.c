/* Known models' sizes, from their published configurations, and what follows from sizes alone. */
#include "device/dims.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct known {
    bt_dims dims;
    const char *source;
} known;

#define CONFIG(of) "config.json of " of
/* Names, then layers, hidden, ffn, heads, KV heads, head_dim, vocabulary. */
#define ROW(name, l, h, f, n, kv, d, v, m, from, ...) \
    { \
        {name, l, h, f, n, kv, d, v, .ffn_matrices = m, __VA_ARGS__}, from \
    }
#define GATED(name, from, l, h, f, n, kv, d, v, ...) ROW(name, l, h, f, n, kv, d, v, 3, from, __VA_ARGS__)
#define PLAIN(name, from, l, h, f, n, kv, d, v, ...) ROW(name, l, h, f, n, kv, d, v, 2, from, __VA_ARGS__)
#define OWN                                          .has_own_embedding = true
#define TIED                                         .has_own_embedding = false
#define BIAS                                         .has_qkv_bias = true
#define NORM                                         .has_qk_norm = true
#define WINDOW(positions, layers)                    .window = positions, .windowed = layers
/* All experts, those of a row, outputs of each, layers that have them. */
#define EXPERTS(all, used, outputs, layers, key) \
    .experts = all, .experts_used = used, .expert_ffn = outputs, .expert_layers = layers, .experts_key = key
#define LATENT(query, latent, rope, plain, value) \
    .query_rank = query, .latent_rank = latent, .latent_rope = rope, .plain_dim = plain, .value_dim = value
enum { NUM_EXPERTS, NUM_LOCAL_EXPERTS, N_ROUTED_EXPERTS };
const char *const bt_dims_expert_keys[] = {"num_experts", "num_local_experts", "n_routed_experts", NULL};

// clang-format off
static const known table[] = {
    GATED("chatglm2-6b", CONFIG("zai-org/chatglm2-6b"), 28, 4096, 13696, 32, 2, 128, 65024, OWN, BIAS),
    GATED("deepseek-v3", CONFIG("deepseek-ai/DeepSeek-V3"), 61, 7168, 18432, 128, 1, 288, 129280, OWN,
          EXPERTS(256, 8, 2048, 58, N_ROUTED_EXPERTS), LATENT(1536, 512, 64, 128, 128)),
    GATED("gemma-2b", CONFIG("google/gemma-2b"), 18, 2048, 16384, 8, 1, 256, 256000, TIED),
    GATED("gemma-2-2b", CONFIG("google/gemma-2-2b"), 26, 2304, 9216, 8, 4, 256, 256000, TIED, WINDOW(4096, 13)),
    GATED("gemma-2-9b", CONFIG("google/gemma-2-9b"), 42, 3584, 14336, 16, 8, 256, 256000, TIED, WINDOW(4096, 21)),
    GATED("gemma-2-27b", CONFIG("google/gemma-2-27b"), 46, 4608, 36864, 32, 16, 128, 256000, TIED, WINDOW(4096, 23)),
    GATED("gemma-3-270m", CONFIG("google/gemma-3-270m"), 18, 640, 2048, 4, 1, 256, 262144, TIED, NORM, WINDOW(512, 15)),
    GATED("gemma-3-1b", CONFIG("google/gemma-3-1b-it"), 26, 1152, 6912, 4, 1, 256, 262144, TIED, NORM, WINDOW(512, 22)),
    GATED("gemma-3-4b", CONFIG("google/gemma-3-4b-it"), 34, 2560, 10240, 8, 4, 256, 262208, TIED, NORM,
          WINDOW(1024, 29)),
    GATED("gemma-3-12b", CONFIG("google/gemma-3-12b-it"), 48, 3840, 15360, 16, 8, 256, 262208, TIED, NORM,
          WINDOW(1024, 40)),
    GATED("gemma-3-27b", CONFIG("google/gemma-3-27b-it"), 62, 5376, 21504, 32, 16, 128, 262208, TIED, NORM,
          WINDOW(1024, 52)),
    PLAIN("gpt-j-6b", CONFIG("EleutherAI/gpt-j-6b"), 28, 4096, 16384, 16, 16, 256, 50400, OWN),
    PLAIN("gpt-3-175b", "arXiv 2005.14165, table 2.1", 96, 12288, 49152, 96, 96, 128, 50257, TIED),
    GATED("gpt-oss-20b", CONFIG("openai/gpt-oss-20b"), 24, 2880, 11520, 64, 8, 64, 201088, OWN, BIAS, WINDOW(128, 12),
          EXPERTS(32, 4, 2880, 24, NUM_LOCAL_EXPERTS)),
    GATED("gpt-oss-120b", CONFIG("openai/gpt-oss-120b"), 36, 2880, 11520, 64, 8, 64, 201088, OWN, BIAS, WINDOW(128, 18),
          EXPERTS(128, 4, 2880, 36, NUM_LOCAL_EXPERTS)),
    GATED("internlm3-8b", CONFIG("internlm/internlm3-8b-instruct"), 48, 4096, 10240, 32, 2, 128, 128512, OWN),
    GATED("llama-2-7b", CONFIG("meta-llama/Llama-2-7b-hf"), 32, 4096, 11008, 32, 32, 128, 32000, OWN),
    GATED("llama-2-13b", CONFIG("meta-llama/Llama-2-13b-hf"), 40, 5120, 13824, 40, 40, 128, 32000, OWN),
    GATED("llama-2-70b", CONFIG("meta-llama/Llama-2-70b-hf"), 80, 8192, 28672, 64, 8, 128, 32000, OWN),
    GATED("llama-3-8b", CONFIG("meta-llama/Meta-Llama-3-8B"), 32, 4096, 14336, 32, 8, 128, 128256, OWN),
    GATED("llama-3-70b", CONFIG("meta-llama/Meta-Llama-3-70B"), 80, 8192, 28672, 64, 8, 128, 128256, OWN),
    GATED("llama-3.1-8b", CONFIG("meta-llama/Llama-3.1-8B"), 32, 4096, 14336, 32, 8, 128, 128256, OWN),
    GATED("llama-3.1-70b", CONFIG("meta-llama/Llama-3.1-70B"), 80, 8192, 28672, 64, 8, 128, 128256, OWN),
    GATED("llama-3.1-405b", CONFIG("meta-llama/Llama-3.1-405B"), 126, 16384, 53248, 128, 8, 128, 128256, OWN),
    GATED("llama-3.2-1b", CONFIG("meta-llama/Llama-3.2-1B"), 16, 2048, 8192, 32, 8, 64, 128256, TIED),
    GATED("llama-3.2-3b", CONFIG("meta-llama/Llama-3.2-3B"), 28, 3072, 8192, 24, 8, 128, 128256, TIED),
    GATED("llama-3.2-11b", CONFIG("meta-llama/Llama-3.2-11B-Vision"), 40, 4096, 14336, 32, 8, 128, 128256, OWN,
          .others = 1u << BT_DIMS_CROSS),
    GATED("llama-3.2-90b", CONFIG("meta-llama/Llama-3.2-90B-Vision"), 100, 8192, 28672, 64, 8, 128, 128256, OWN,
          .others = 1u << BT_DIMS_CROSS),
    GATED("llama-3.3-70b", CONFIG("meta-llama/Llama-3.3-70B-Instruct"), 80, 8192, 28672, 64, 8, 128, 128256, OWN),
    GATED("ministral-8b", CONFIG("mistralai/Ministral-8B-Instruct-2410"), 36, 4096, 12288, 32, 8, 128, 131072, OWN),
    GATED("mistral-7b", CONFIG("mistralai/Mistral-7B-v0.1"), 32, 4096, 14336, 32, 8, 128, 32000, OWN,
          WINDOW(4096, 32)),
    GATED("mistral-7b-v0.3", CONFIG("mistralai/Mistral-7B-v0.3"), 32, 4096, 14336, 32, 8, 128, 32768, OWN),
    GATED("mistral-large-123b", CONFIG("mistralai/Mistral-Large-Instruct-2407"), 88, 12288, 28672, 96, 8, 128, 32768,
          OWN),
    GATED("mistral-nemo-12b", CONFIG("mistralai/Mistral-Nemo-Base-2407"), 40, 5120, 14336, 32, 8, 128, 131072, OWN),
    GATED("mistral-small-22b", CONFIG("mistralai/Mistral-Small-Instruct-2409"), 56, 6144, 16384, 48, 8, 128, 32768,
          OWN),
    GATED("mistral-small-24b", CONFIG("mistralai/Mistral-Small-24B-Instruct-2501"), 40, 5120, 32768, 32, 8, 128,
          131072, OWN),
    GATED("mixtral-8x7b", CONFIG("mistralai/Mixtral-8x7B-v0.1"), 32, 4096, 28672, 32, 8, 128, 32000, OWN,
          EXPERTS(8, 2, 14336, 32, NUM_LOCAL_EXPERTS)),
    GATED("mixtral-8x22b", CONFIG("mistralai/Mixtral-8x22B-v0.1"), 56, 6144, 32768, 48, 8, 128, 32000, OWN,
          EXPERTS(8, 2, 16384, 56, NUM_LOCAL_EXPERTS)),
    PLAIN("opt-125m", CONFIG("facebook/opt-125m"), 12, 768, 3072, 12, 12, 64, 50272, TIED, BIAS),
    PLAIN("opt-350m", CONFIG("facebook/opt-350m"), 24, 1024, 4096, 16, 16, 64, 50272, TIED, BIAS,
          .others = 1u << BT_DIMS_EMBED_WIDTH),
    PLAIN("opt-1.3b", CONFIG("facebook/opt-1.3b"), 24, 2048, 8192, 32, 32, 64, 50272, TIED, BIAS),
    PLAIN("opt-2.7b", CONFIG("facebook/opt-2.7b"), 32, 2560, 10240, 32, 32, 80, 50272, TIED, BIAS),
    PLAIN("opt-6.7b", CONFIG("facebook/opt-6.7b"), 32, 4096, 16384, 32, 32, 128, 50272, TIED, BIAS),
    PLAIN("opt-13b", CONFIG("facebook/opt-13b"), 40, 5120, 20480, 40, 40, 128, 50272, TIED, BIAS),
    PLAIN("opt-30b", CONFIG("facebook/opt-30b"), 48, 7168, 28672, 56, 56, 128, 50272, TIED, BIAS),
    PLAIN("opt-66b", CONFIG("facebook/opt-66b"), 64, 9216, 36864, 72, 72, 128, 50272, TIED, BIAS),
    PLAIN("phi-2", CONFIG("microsoft/phi-2"), 32, 2560, 10240, 32, 32, 80, 51200, OWN),
    GATED("phi-3.5-mini", CONFIG("microsoft/Phi-3.5-mini-instruct"), 32, 3072, 8192, 32, 32, 96, 32064, OWN),
    GATED("phi-3.5-moe", CONFIG("microsoft/Phi-3.5-MoE-instruct"), 32, 4096, 12800, 32, 8, 128, 32064, OWN, BIAS,
          EXPERTS(16, 2, 6400, 32, NUM_LOCAL_EXPERTS)),
    GATED("phi-4", CONFIG("microsoft/phi-4"), 40, 5120, 17920, 40, 10, 128, 100352, OWN),
    GATED("phi-4-mini", CONFIG("microsoft/Phi-4-mini-instruct"), 32, 3072, 8192, 24, 8, 128, 200064, TIED),
    GATED("qwen1.5-1.8b", CONFIG("Qwen/Qwen1.5-1.8B"), 24, 2048, 5504, 16, 16, 128, 151936, OWN, BIAS),
    GATED("qwen2-0.5b", CONFIG("Qwen/Qwen2-0.5B"), 24, 896, 4864, 14, 2, 64, 151936, TIED, BIAS),
    GATED("qwen2.5-0.5b", CONFIG("Qwen/Qwen2.5-0.5B-Instruct"), 24, 896, 4864, 14, 2, 64, 151936, TIED, BIAS),
    GATED("qwen2.5-1.5b", CONFIG("Qwen/Qwen2.5-1.5B-Instruct"), 28, 1536, 8960, 12, 2, 128, 151936, TIED, BIAS),
    GATED("qwen2.5-3b", CONFIG("Qwen/Qwen2.5-3B-Instruct"), 36, 2048, 11008, 16, 2, 128, 151936, TIED, BIAS),
    GATED("qwen2.5-7b", CONFIG("Qwen/Qwen2.5-7B-Instruct"), 28, 3584, 18944, 28, 4, 128, 152064, OWN, BIAS),
    GATED("qwen2.5-14b", CONFIG("Qwen/Qwen2.5-14B-Instruct"), 48, 5120, 13824, 40, 8, 128, 152064, OWN, BIAS),
    GATED("qwen2.5-32b", CONFIG("Qwen/Qwen2.5-32B-Instruct"), 64, 5120, 27648, 40, 8, 128, 152064, OWN, BIAS),
    GATED("qwen2.5-72b", CONFIG("Qwen/Qwen2.5-72B-Instruct"), 80, 8192, 29568, 64, 8, 128, 152064, OWN, BIAS),
    GATED("qwen3-0.6b", CONFIG("Qwen/Qwen3-0.6B"), 28, 1024, 3072, 16, 8, 128, 151936, TIED, NORM),
    GATED("qwen3-1.7b", CONFIG("Qwen/Qwen3-1.7B"), 28, 2048, 6144, 16, 8, 128, 151936, TIED, NORM),
    GATED("qwen3-4b", CONFIG("Qwen/Qwen3-4B"), 36, 2560, 9728, 32, 8, 128, 151936, TIED, NORM),
    GATED("qwen3-8b", CONFIG("Qwen/Qwen3-8B"), 36, 4096, 12288, 32, 8, 128, 151936, OWN, NORM),
    GATED("qwen3-14b", CONFIG("Qwen/Qwen3-14B"), 40, 5120, 17408, 40, 8, 128, 151936, OWN, NORM),
    GATED("qwen3-32b", CONFIG("Qwen/Qwen3-32B"), 64, 5120, 25600, 64, 8, 128, 151936, OWN, NORM),
    GATED("qwen3-30b-a3b", CONFIG("Qwen/Qwen3-30B-A3B"), 48, 2048, 6144, 32, 4, 128, 151936, OWN, NORM,
          EXPERTS(128, 8, 768, 48, NUM_EXPERTS)),
    GATED("qwen3-235b-a22b", CONFIG("Qwen/Qwen3-235B-A22B"), 94, 4096, 12288, 64, 4, 128, 151936, OWN, NORM,
          EXPERTS(128, 8, 1536, 94, NUM_EXPERTS)),
    GATED("smallthinker-3b", CONFIG("PowerInfer/SmallThinker-3B-Preview"), 36, 2048, 11008, 16, 2, 128, 151936, TIED,
          BIAS), /* made from Qwen2.5-3B */
    GATED("smollm2-135m", CONFIG("HuggingFaceTB/SmolLM2-135M"), 30, 576, 1536, 9, 3, 64, 49152, TIED),
};

/* From BT_DIMS_OTHERS_BY_NAME on a field counts where it is neither null nor false, 0 or empty; the first ones have
 * rules of their own (dims_config.c). */
const bt_dims_other bt_dims_others[] = {
    {"model_type", "none", "the architecture is not known here, and its layers are priced as Llama's"},
    {"layer_types", "upper", "layers without attention over all positions are priced as layers with it"},
    {"word_embed_proj_dim", "upper", "the output matrix is priced as wide as the layers"},
    {"cross_attention_layers", "upper", "layers that attend to an image are priced as attending to the text"},
    {"attention_chunk_size", "upper", "attention and KV are priced over all positions"},
    {"index_topk", "upper", "attention is priced over all positions, not those that an index chooses"},
    {"num_kv_shared_layers", "upper", "KV is priced in every layer"},
    {"interleave_moe_layer_step", "none", "experts are priced in every layer"},
    {"is_encoder_decoder", "none", "the encoder is not priced"},
    {NULL, NULL, NULL},
};
// clang-format on

static const known *find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(name, table[i].dims.name)) return &table[i];
    return NULL;
}

const bt_dims *bt_dims_at(size_t i) { return i < sizeof table / sizeof *table ? &table[i].dims : NULL; }

const bt_dims *bt_dims_find(const char *name)
{
    const known *k = find(name);
    return k ? &k->dims : NULL;
}

const char *bt_dims_source(const char *name)
{
    const known *k = find(name);
    return k ? k->source : NULL;
}

/* Queries, the latent with the part of keys that is rotated, and what is made of it. */
static size_t latent_matrices(bt_dims_matrix *ret, const bt_dims *s)
{
    const uint32_t query = s->heads * (s->plain_dim + s->latent_rope);
    size_t n = 0;
    if (s->query_rank) ret[n++] = (bt_dims_matrix){s->hidden, s->query_rank, false};
    ret[n++] = (bt_dims_matrix){s->query_rank ? s->query_rank : s->hidden, query, false};
    ret[n++] = (bt_dims_matrix){s->hidden, s->latent_rank + s->latent_rope, false};
    ret[n++] = (bt_dims_matrix){s->latent_rank, s->heads * (s->plain_dim + s->value_dim), false};
    ret[n++] = (bt_dims_matrix){s->heads * s->value_dim, s->hidden, true};
    return n;
}

static size_t attention_matrices(bt_dims_matrix *ret, const bt_dims *s)
{
    const uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    size_t n = 0;
    ret[n++] = (bt_dims_matrix){s->hidden, q, false};
    ret[n++] = (bt_dims_matrix){s->hidden, kv, false};
    ret[n++] = (bt_dims_matrix){s->hidden, kv, false};
    ret[n++] = (bt_dims_matrix){q, s->hidden, true};
    return n;
}

size_t bt_dims_matrices(bt_dims_matrix ret[BT_DIMS_MATRICES], const bt_dims *s)
{
    size_t n = s->latent_rank ? latent_matrices(ret, s) : attention_matrices(ret, s);
    if (s->ffn_matrices == 3) ret[n++] = (bt_dims_matrix){s->hidden, s->ffn, false};
    ret[n++] = (bt_dims_matrix){s->hidden, s->ffn, false};
    ret[n++] = (bt_dims_matrix){s->ffn, s->hidden, true};
    return n;
}

uint64_t bt_dims_body(const bt_dims *s)
{
    bt_dims_matrix m[BT_DIMS_MATRICES];
    const size_t n = bt_dims_matrices(m, s);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += (uint64_t)m[i].inputs * m[i].outputs;
    return sum * s->layers;
}

uint64_t bt_dims_head(const bt_dims *s) { return (uint64_t)s->hidden * s->vocab; }

uint64_t bt_dims_idle(const bt_dims *s)
{
    const uint64_t one = (uint64_t)s->ffn_matrices * s->hidden * s->expert_ffn;
    return one * (s->experts - s->experts_used) * s->expert_layers;
}

uint64_t bt_dims_used(const bt_dims *s)
{
    return (uint64_t)s->ffn_matrices * s->hidden * s->expert_ffn * s->experts_used * s->expert_layers;
}

uint64_t bt_dims_weights(const bt_dims *s)
{
    return bt_dims_body(s) + bt_dims_idle(s) + bt_dims_head(s) * (s->has_own_embedding ? 2 : 1);
}

bool bt_dims_global_every(uint32_t *ret, const bt_dims *s)
{
    const uint32_t all = s->layers - s->windowed, every = all ? s->layers / all : 0;
    if (!s->windowed || (all && s->layers / every != all)) return false;
    *ret = every;
    return true;
}

uint64_t bt_dims_kv_bytes(const bt_dims *s, uint32_t elem_bits)
{
    return (uint64_t)2 * s->layers * s->kv_heads * s->head_dim * elem_bits / 8;
}

uint64_t bt_dims_kv_held(const bt_dims *s, uint64_t position_bytes, uint64_t tokens, uint32_t page_tokens)
{
    const uint64_t layer = position_bytes / s->layers, most = s->window + 2 * (uint64_t)page_tokens,
                   seen = tokens < most ? tokens : most;
    return layer * ((s->layers - s->windowed) * tokens + s->windowed * seen);
}

/* ---- fields that prices leave out ---- */

size_t bt_dims_ignored_of(bt_dims_ignored ret[BT_DIMS_IGNORED], const bt_dims *s)
{
    size_t n = 0;
    if (s->experts) {
        bt_dims_ignored *i = &ret[n++];
        *i = (bt_dims_ignored){.field = bt_dims_expert_keys[s->experts_key], .bound = "upper"};
        (void)snprintf(i->effect, sizeof i->effect,
                       "each row of a step reads %" PRIu32 " other experts a layer, until all %" PRIu32
                       " are read",
                       s->experts_used, s->experts);
    }
    if (s->latent_rank) {
        bt_dims_ignored *i = &ret[n++];
        *i = (bt_dims_ignored){.field = "kv_lora_rank", .bound = "none"};
        (void)snprintf(i->effect, sizeof i->effect,
                       "KV is the latent's %" PRIu32 " elements; attention is priced as %" PRIu32
                       " heads of %" PRIu32 ", too many for a prompt, too few for a step",
                       s->latent_rank + s->latent_rope, s->heads, s->head_dim);
    }
    for (size_t k = 0; bt_dims_others[k].field; k++) {
        if (!(s->others & 1u << k)) continue;
        const bt_dims_other *o = &bt_dims_others[k];
        ret[n] = (bt_dims_ignored){.field = o->field, .bound = o->bound};
        (void)snprintf(ret[n++].effect, sizeof ret->effect, "%s", o->effect);
    }
    return n;
}
