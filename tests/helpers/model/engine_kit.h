#ifndef TESTS_ENGINE_KIT_H
#define TESTS_ENGINE_KIT_H
#include <stddef.h>
#include <stdint.h>
#include "kernels/kernels.h"
#include "kernels/kv_view.h"
#include "model/model.h"
#include "tests/helpers/model/tiny_gguf.h"

/* The common part of the tests of graph, npu and the engines: small models of each architecture, pages, hashes.
 * Failures of the kit itself abort the test program. */
typedef struct engine_kit {
    bt_model *model;
    uint8_t *bytes;
} engine_kit;

/* Any small model. */
engine_kit engine_kit_of(const tiny_gguf_spec *spec);
/* 3 layers, 5 of smollm3, dim 96, 6 heads over 2 kv heads, an odd ffn of 172, vocabulary 384, context 1024. qwen3 has
 * head_dim 24. */
engine_kit engine_kit_model(const char *arch);
/* The same with ffn inputs of down: 172 have no Hadamard matrix, 176 have. */
engine_kit engine_kit_model_ffn(const char *arch, uint32_t ffn);
void engine_kit_done(engine_kit *k);

/* Pages of one sequence, each an exact-size heap block in falling order, all bytes 0xff: every row that
 * nobody stored is NaN. page_tokens as given. */
bt_kv_view engine_kit_pages(const bt_model *m, size_t tokens, size_t page_tokens, uint32_t elem_bytes);
void engine_kit_pages_free(bt_kv_view *v);
/* Hash of K and V rows of positions [0, tokens); whatever the paging. */
uint64_t engine_kit_hash(const bt_kv_view *v, size_t tokens);
/* Whether every byte of positions [from, to) is still 0xff. */
int engine_kit_untouched(const bt_kv_view *v, size_t from, size_t to);

/* ids[n] inside the vocabulary, from a seed. */
void engine_kit_ids(int32_t *ids, size_t n, const bt_model *m, uint32_t seed);
/* 64-byte aligned, at least `bytes`; free() it. */
void *engine_kit_alloc(size_t bytes);
float *engine_kit_floats(size_t n);
#endif
