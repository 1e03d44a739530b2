/* One layer with the widths of an 8B model (dim 4,096, ffn 14,336, 32 heads over 8, 128,256 tokens), random
 * weights: converted, compiled and run. The best kernels give the bits of the plain ones, whatever the rows
 * beside them, and the float engine is near the oracle. Takes 4 GB of memory and 5 GB of disk for a minute:
 * make test-wide. */
#include "base/file.h"
#include "base/rng.h"
#include "engine/decode.h"
#include "engine/prefill.h"
#include "kv/kv_pages.h"
#include "npu/compile/needs.h"
#include "tests/helpers/model/sketch_kit.h"
#include "tests/helpers/temp_folder.h"
#include "tests/helpers/model/tiny_gguf.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum {
    DIM = 4096,
    FFN = 14336,
    HEADS = 32,
    KV_HEADS = 8,
    HEAD = 128,
    VOCAB = 128256,
    Q4_0 = 2,
    ROWS = 5,
    CALIB = 32
};

static char dir[TEMP_FOLDER_BYTES];
static bt_model *model;
static bt_pool *pool;

typedef struct tensor {
    const char *name;
    uint64_t k, n; /* n 1: a vector of ones in f32 */
} tensor;
static const tensor tensors[] = {
    {"token_embd.weight", DIM, VOCAB},
    {"blk.0.attn_norm.weight", DIM, 1},
    {"blk.0.attn_q.weight", DIM, DIM},
    {"blk.0.attn_k.weight", DIM, KV_HEADS *HEAD},
    {"blk.0.attn_v.weight", DIM, KV_HEADS *HEAD},
    {"blk.0.attn_output.weight", DIM, DIM},
    {"blk.0.ffn_norm.weight", DIM, 1},
    {"blk.0.ffn_gate.weight", DIM, FFN},
    {"blk.0.ffn_up.weight", DIM, FFN},
    {"blk.0.ffn_down.weight", FFN, DIM},
    {"output_norm.weight", DIM, 1},
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static uint64_t bytes_of(const tensor *t) { return t->n == 1 ? t->k * 4 : t->k / 32 * 18 * t->n; }

/* Blocks of Q4_0: a scale near 1 / (4.6 sqrt(dim)), random codes. */
static void write_tensor(FILE *f, const tensor *t, uint64_t *seed)
{
    static const float one = 1;
    const uint64_t bytes = bytes_of(t);
    for (uint64_t i = 0; t->n == 1 && i < t->k; i++) assert_int_equal(fwrite(&one, 4, 1, f), 1);
    for (uint64_t i = 0; t->n > 1 && i < bytes / 18; i++) {
        uint8_t block[18] = {0, 0x1b}; /* 0.0034 */
        for (int j = 0; j < 2; j++) {
            const uint64_t r = bt_rng_u64(0x22, (*seed)++);
            memcpy(block + 2 + 8 * j, &r, 8);
        }
        assert_int_equal(fwrite(block, sizeof block, 1, f), 1);
    }
}

static void write_model(const char *path)
{
    size_t len;
    uint64_t seed = 1;
    tiny_gguf *w = tiny_gguf_new(3, 0);
    tiny_gguf_str(w, "general.architecture", "llama");
    tiny_gguf_str(w, "general.name", "wide");
    tiny_gguf_u32(w, "llama.block_count", 1);
    tiny_gguf_u32(w, "llama.context_length", 1024);
    tiny_gguf_u32(w, "llama.embedding_length", DIM);
    tiny_gguf_u32(w, "llama.feed_forward_length", FFN);
    tiny_gguf_u32(w, "llama.attention.head_count", HEADS);
    tiny_gguf_u32(w, "llama.attention.head_count_kv", KV_HEADS);
    tiny_gguf_u32(w, "llama.rope.dimension_count", HEAD);
    tiny_gguf_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    tiny_gguf_f32(w, "llama.rope.freq_base", 500000.0f);
    for (size_t i = 0; i < TENSORS; i++) {
        const uint64_t dims[] = {tensors[i].k, tensors[i].n};
        tiny_gguf_tensor(w, tensors[i].name, tensors[i].n == 1 ? 0 : Q4_0, dims, tensors[i].n == 1 ? 1 : 2,
                         NULL, 0);
        tiny_gguf_skip(w, bytes_of(&tensors[i]));
    }
    uint8_t *head = tiny_gguf_finish(w, &len);
    FILE *f = fopen(path, "wbe");
    assert_non_null(f);
    assert_int_equal(fwrite(head, 1, len, f), len);
    for (size_t i = 0; i < TENSORS; i++) write_tensor(f, &tensors[i], &seed);
    assert_int_equal(fclose(f), 0);
    free(head);
}

static int setup(void **state)
{
    (void)state;
    char path[300];
    bt_fault f = {""};
    if (!temp_folder_new(dir) || setenv("BATON_CACHE_DIR", dir, 1) < 0) return -1;
    snprintf(path, sizeof path, "%s/wide.gguf", dir);
    write_model(path);
    if (bt_model_open(&model, path, &f) < 0) fprintf(stderr, "%s\n", f.text);
    return model ? bt_pool_new(&pool, 0, NULL) : -1;
}

static int teardown(void **state)
{
    (void)state;
    bt_pool_free(pool);
    bt_model_close(model);
    return temp_folder_remove(dir);
}

static const int32_t *ids(void)
{
    static int32_t id[CALIB];
    for (size_t i = 0; i < CALIB; i++) id[i] = (int32_t)(bt_rng_u64(7, i) % VOCAB);
    id[0] = VOCAB - 1; /* the embedding's last row */
    return id;
}

typedef struct room {
    bt_kv_pages *pages;
    bt_kv_seq seq;
    bt_kv_view kv;
} room;

static void open_room(room *r, uint32_t elem_bytes)
{
    *r = (room){0};
    assert_int_equal(bt_kv_pages_new(&r->pages, 1, KV_HEADS, HEAD, elem_bytes, 64, 64, NULL), BT_OK);
    assert_int_equal(bt_kv_pages_reserve(r->pages, &r->seq, ROWS, NULL), BT_OK);
    bt_kv_pages_view(&r->kv, r->pages, &r->seq);
}

static void close_room(room *r)
{
    bt_kv_pages_release(r->pages, &r->seq);
    bt_kv_pages_free(r->pages);
}

/* Logits of all ROWS tokens, brought to the engine so many at a time. */
static float *decode(const char *engine, const char *isa, const char *form, uint32_t elem_bytes,
                     uint32_t at_a_time)
{
    bt_fault f = {""};
    bt_decode *d = NULL;
    room r;
    float *logits = calloc((size_t)ROWS * VOCAB, sizeof *logits);
    const bt_decode_config c = {.engine = engine, .isa = isa,
                                .weights = form,  .kv_elem_bytes = elem_bytes,
                                .pool = pool,     .rows_max = ROWS};
    assert_non_null(logits);
    if (bt_decode_new(&d, model, &c, &f) < 0) fail_msg("%s", f.text);
    open_room(&r, elem_bytes);
    for (uint32_t at = 0; at < ROWS; at += at_a_time) {
        const uint32_t n = ROWS - at < at_a_time ? ROWS - at : at_a_time;
        const bt_decode_seq s = {.kv = &r.kv, .tokens = ids() + at, .count = n, .pos = at, .out = n};
        if (bt_decode_step(d, &s, 1, NULL, logits + (size_t)at * VOCAB, &f) < 0) fail_msg("%s", f.text);
    }
    close_room(&r);
    bt_decode_free(d);
    return logits;
}

static void check_bits(const float *a, const float *b)
{
    for (size_t i = 0; i < (size_t)ROWS * VOCAB; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("row %zu, token %zu: %.9g and %.9g", i / VOCAB, i % VOCAB, (double)a[i], (double)b[i]);
}

static void every_form_has_the_bits_of_the_plain_kernels_however_many_rows(void **state)
{
    (void)state;
    for (int i = 0; bt_weights_forms[i]; i++) {
        float *all = decode("host", NULL, bt_weights_forms[i], 2, ROWS),
              *one = decode("host", NULL, bt_weights_forms[i], 2, 1),
              *plain = decode("host", "ref", bt_weights_forms[i], 2, ROWS);
        check_bits(all, one);
        check_bits(all, plain);
        free(all);
        free(one);
        free(plain);
    }
}

static void the_float_engine_is_near_the_oracle(void **state)
{
    (void)state;
    float *host = decode("host", NULL, "f16", 2, ROWS), *oracle = decode("reference", NULL, NULL, 4, ROWS);
    double apart = 0, square = 0;
    for (size_t i = 0; i < (size_t)ROWS * VOCAB; i++) {
        apart += ((double)host[i] - oracle[i]) * ((double)host[i] - oracle[i]);
        square += (double)oracle[i] * oracle[i];
    }
    print_message("relative distance %.2e\n", sqrt(apart / square));
    assert_true(square > 0 && apart < 1e-6 * square);
    free(host);
    free(oracle);
}

static float *prefill(const bt_pkg *pkg, const char *isa, uint32_t first)
{
    bt_fault f = {""};
    bt_prefill *p = NULL;
    room r;
    float *logits = calloc((size_t)ROWS * VOCAB, sizeof *logits);
    const bt_prefill_config c = {.engine = "npu", .isa = isa, .pkg = pkg, .kv_elem_bytes = 2, .pool = pool};
    assert_non_null(logits);
    if (bt_prefill_new(&p, model, &c, &f) < 0) fail_msg("%s", f.text);
    open_room(&r, 2);
    if (bt_prefill_run(p, &r.kv, ids(), first, 0, NULL, logits, BT_PREFILL_ALL, &f) < 0)
        fail_msg("%s", f.text);
    if (first < ROWS && bt_prefill_run(p, &r.kv, ids() + first, ROWS - first, first, NULL,
                                       logits + (size_t)first * VOCAB, BT_PREFILL_ALL, &f) < 0)
        fail_msg("%s", f.text);
    close_room(&r);
    bt_prefill_free(p);
    return logits;
}

static void a_package_has_the_size_that_was_told_and_the_bits_of_the_plain_kernels(void **state)
{
    (void)state;
    char path[300];
    bt_fault f = {""};
    bt_pkg *p = NULL;
    bt_compile_needs told;
    bt_compile_options o = {.shape_policy = "chunk:16", .calib_ids = ids(), .calib_len = CALIB};
    assert_int_equal(bt_recipe_parse(&o.recipe, NULL, NULL), BT_OK);
    snprintf(path, sizeof path, "%s/wide.bpk", dir);
    if (bt_compile_needs_of(&told, model, &o, bt_pool_threads(pool), &f) < 0) fail_msg("%s", f.text);
    if (bt_compile(path, model, &o, pool, &f) < 0) fail_msg("%s", f.text);
    if (bt_pkg_open_on(&p, path, pool, &f) < 0) fail_msg("%s", f.text);
    assert_int_equal(told.package_bytes, bt_pkg_header_of(p)->file_bytes);
    assert_int_equal(told.arena_bytes, bt_pkg_header_of(p)->arena_bytes);
    float *all = prefill(p, NULL, ROWS), *cut = prefill(p, NULL, 2), *plain = prefill(p, "ref", ROWS);
    check_bits(all, cut);
    check_bits(all, plain);
    free(all);
    free(cut);
    free(plain);
    bt_pkg_close(p);
}

static void its_sketch_is_the_package_byte_for_byte(void **state)
{
    (void)state;
    static const char *const recipes[] = {"w8a8", "w8a16", "w4a8:no-gptq", "w4a16:no-gptq", "w8a8:lut6"};
    const sketch_kit k = {.model = model, .dir = dir, .ids = ids(), .n = CALIB, .pool = pool};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        sketch_kit_check(&k, recipes[i], "hexagon-v75", BT_PKG_OPS_LINEAR, "chunk:256+tail");
        sketch_kit_check(&k, recipes[i], "host", BT_PKG_OPS_ALL, "chunk:256+tail");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_has_the_bits_of_the_plain_kernels_however_many_rows),
        cmocka_unit_test(the_float_engine_is_near_the_oracle),
        cmocka_unit_test(a_package_has_the_size_that_was_told_and_the_bits_of_the_plain_kernels),
        cmocka_unit_test(its_sketch_is_the_package_byte_for_byte),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
