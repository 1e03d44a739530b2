/* Models, pages and hashes for the tests of graph, npu and the engines. */
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *engine_kit_alloc(size_t bytes)
{
    void *p = aligned_alloc(64, bytes ? (bytes + 63) / 64 * 64 : 64);
    if (!p) abort();
    return p;
}

float *engine_kit_floats(size_t n)
{
    float *f = malloc(n * sizeof *f); /* of the exact size, so that a sanitizer sees one beyond */
    if (!f) abort();
    return f;
}

engine_kit engine_kit_of(const tiny_gguf_spec *spec)
{
    const tiny_model o = tiny_model_open(spec);
    if (o.e < 0) {
        fprintf(stderr, "engine_kit: %s\n", o.fault.text);
        abort();
    }
    return (engine_kit){.model = o.m, .bytes = o.bytes};
}

engine_kit engine_kit_model(const char *arch) { return engine_kit_model_ffn(arch, 172); }

engine_kit engine_kit_model_ffn(const char *arch, uint32_t ffn)
{
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = arch;
    s.layers = strcmp(arch, "smollm3") ? 3 : 5; /* the fourth is not rotated */
    s.dim = 96;
    s.heads = 6;
    s.kv_heads = 2;
    s.head_dim = strcmp(arch, "qwen3") ? 16 : 24;
    s.ffn = ffn;
    s.ctx = 1024;
    s.tied = !strcmp(arch, "qwen2");
    s.rope_freqs = !strcmp(arch, "llama");
    return engine_kit_of(&s);
}

void engine_kit_done(engine_kit *k)
{
    bt_model_close(k->model);
    free(k->bytes);
}

bt_kv_view engine_kit_pages(const bt_model *m, size_t tokens, size_t page_tokens, uint32_t elem_bytes)
{
    const size_t pages = (tokens + page_tokens - 1) / page_tokens;
    bt_kv_view v = {.page_tokens = page_tokens, .tokens_capacity = pages * page_tokens,
                    .elem_bytes = elem_bytes,   .layers = m->hp.layers,
                    .kv_heads = m->hp.kv_heads, .head_dim = m->hp.head_dim};
    v.head_bytes = bt_kv_head_bytes(elem_bytes, v.head_dim);
    v.token_bytes = v.head_bytes * v.kv_heads;
    v.plane_bytes = v.token_bytes * page_tokens;
    v.layer_bytes = 2 * v.plane_bytes;
    uint8_t **page = calloc(pages, sizeof *page);
    if (!page) abort();
    for (size_t i = 0; i < pages; i++) {
        uint8_t **slot = &page[pages - 1 - i]; /* not in the order of addresses */
        *slot = malloc(v.layers * v.layer_bytes);
        if (!*slot) abort();
        memset(*slot, 0xff, v.layers * v.layer_bytes);
    }
    v.page = page;
    return v;
}

void engine_kit_pages_free(bt_kv_view *v)
{
    for (size_t i = 0; i < v->tokens_capacity / v->page_tokens; i++) free(v->page[i]);
    free((void *)v->page);
}

uint64_t engine_kit_hash(const bt_kv_view *v, size_t tokens)
{
    uint64_t h = 1469598103934665603ull;
    for (size_t l = 0; l < v->layers; l++)
        for (int is_v = 0; is_v < 2; is_v++)
            for (size_t t = 0; t < tokens; t++)
                for (size_t g = 0; g < v->kv_heads; g++) {
                    const uint8_t *row = bt_kv_view_row(v, l, is_v, t, g);
                    for (size_t i = 0; i < v->head_bytes; i++) h = (h ^ row[i]) * 1099511628211ull;
                }
    return h;
}

int engine_kit_untouched(const bt_kv_view *v, size_t from, size_t to)
{
    for (size_t l = 0; l < v->layers; l++)
        for (int is_v = 0; is_v < 2; is_v++)
            for (size_t t = from; t < to; t++)
                for (size_t g = 0; g < v->kv_heads; g++)
                    for (size_t i = 0; i < v->head_bytes; i++)
                        if (bt_kv_view_row(v, l, is_v, t, g)[i] != 0xff) return 0;
    return 1;
}

void engine_kit_ids(int32_t *ids, size_t n, const bt_model *m, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = (int32_t)((seed >> 8) % m->hp.vocab);
    }
}
