/* Known models' sizes, from their published configurations. */
#include "device/dims.h"

#include <string.h>

/* name, layers, hidden, ffn, heads, KV heads, head_dim, vocabulary, matrices of the feed-forward block,
 * biases of q, k and v, norms of q and k */
static const bt_dims table[] = {
    {"chatglm2-6b", 28, 4096, 13696, 32, 2, 128, 65024, 3, true, false, 0},
    {"gemma-2b", 18, 2048, 16384, 8, 1, 256, 256000, 3, false, false, 0},
    {"gpt-j-6b", 28, 4096, 16384, 16, 16, 256, 50400, 2, false, false, 0},
    {"gpt-3-175b", 96, 12288, 49152, 96, 96, 128, 50257, 2, false, false, 0},
    {"internlm3-8b", 48, 4096, 10240, 32, 2, 128, 128512, 3, false, false, 0},
    {"llama-2-7b", 32, 4096, 11008, 32, 32, 128, 32000, 3, false, false, 0},
    {"llama-2-70b", 80, 8192, 28672, 64, 8, 128, 32000, 3, false, false, 0},
    {"llama-3.1-8b", 32, 4096, 14336, 32, 8, 128, 128256, 3, false, false, 0},
    {"llama-3.1-70b", 80, 8192, 28672, 64, 8, 128, 128256, 3, false, false, 0},
    {"llama-3.2-1b", 16, 2048, 8192, 32, 8, 64, 128256, 3, false, false, 0},
    {"llama-3.2-3b", 28, 3072, 8192, 24, 8, 128, 128256, 3, false, false, 0},
    {"mistral-7b", 32, 4096, 14336, 32, 8, 128, 32000, 3, false, false, 0},
    {"phi-2", 32, 2560, 10240, 32, 32, 80, 51200, 2, false, false, 0},
    {"qwen1.5-1.8b", 24, 2048, 5504, 16, 16, 128, 151936, 3, true, false, 0},
    {"qwen2-0.5b", 24, 896, 4864, 14, 2, 64, 151936, 3, true, false, 0},
    {"qwen2.5-3b", 36, 2048, 11008, 16, 2, 128, 151936, 3, true, false, 0},
    {"qwen3-0.6b", 28, 1024, 3072, 16, 8, 128, 151936, 3, false, true, 0},
    {"smallthinker-3b", 36, 2048, 11008, 16, 2, 128, 151936, 3, true, false, 0}, /* made from Qwen2.5-3B */
    {"smollm2-135m", 30, 576, 1536, 9, 3, 64, 49152, 3, false, false, 0},
};

const bt_dims *bt_dims_at(size_t i) { return i < sizeof table / sizeof *table ? &table[i] : NULL; }

const bt_dims *bt_dims_find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(name, table[i].name)) return &table[i];
    return NULL;
}

size_t bt_dims_matrices(bt_dims_matrix ret[BT_DIMS_MATRICES], const bt_dims *s)
{
    const uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    size_t n = 0;
    ret[n++] = (bt_dims_matrix){s->hidden, q, false};
    ret[n++] = (bt_dims_matrix){s->hidden, kv, false};
    ret[n++] = (bt_dims_matrix){s->hidden, kv, false};
    ret[n++] = (bt_dims_matrix){q, s->hidden, true};
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

uint64_t bt_dims_kv_bytes(const bt_dims *s, uint32_t elem_bits)
{
    return (uint64_t)2 * s->layers * s->kv_heads * s->head_dim * elem_bits / 8;
}
