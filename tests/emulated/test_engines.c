/* Small prompts and their answers by the engines of both nodes, in every form of weights and KV, on every row
 * of the dispatch table: the bits of the plain kernels, and bits written down here, so that two machines or
 * two compilers are compared too. No width of the model is a multiple of 16 but dim, and where groups ask for
 * it ffn. Under an emulator each form runs on every other row, and each row runs half of the forms. */
#include "engine/decode.h"
#include "engine/prefill.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/rows.h"
#include "tests/helpers/slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { PROMPT = 21, STEPS = 5, CTX = 64, N = PROMPT + STEPS };

typedef struct form {
    const char *arch, *weights; /* weights: of the decode engine host */
    const char *recipe;         /* of an npu, on both sides; sparse..: w8a8 with that attention; NULL: host */
    uint32_t npu_ops, kv_elem_bytes;
    uint64_t golden; /* of the answer's tokens, KV and last logits */
    uint32_t ffn;    /* 0: the usual one, which groups of 32 do not divide */
} form;

static const form forms[] = {
    {"llama", "f16", NULL, 0, 2, 0x2c5714c0575c1208, 0},
    {"qwen2", "int8", NULL, 0, 1, 0xb891e2103e62a83b, 0},
    {"qwen3", "int8", NULL, 0, 2, 0xf3fe6f90cf3d58e4, 0},
    {"llama", "fp4", NULL, 0, 1, 0x1b39672935266ee0, 0},
    {"qwen3", NULL, "w8a8", BT_PKG_OPS_LINEAR, 2, 0x74127af2b8ba1203, 0},
    {"llama", NULL, "w8a16", BT_PKG_OPS_ALL, 1, 0x52c5d8addbc7a5f4, 0},
    {"qwen2", NULL, "w4a8:no-gptq,shadow=channel", BT_PKG_OPS_ALL, 2, 0x2639c1201861dd33, 0},
    {"llama", NULL, "w8a8:shadow=off,asym", BT_PKG_OPS_LINEAR, 2, 0xc2a76e0647bd90af, 0},
    {"qwen2", NULL, "w4a8:no-rotate,smooth=0.5,asym", BT_PKG_OPS_ALL, 1, 0xd5035505f8ee23d9, 0},
    {"llama", NULL, "w8a8:group=32,asym", BT_PKG_OPS_ALL, 2, 0x32c44fb74e2c4e1b, 192},
    {"qwen2", NULL, "w4a16:group=32,r4,act-order", BT_PKG_OPS_LINEAR, 2, 0xaa7d1cfcf758765f, 192},
    {"qwen3", NULL, "w8a8:lut6,asym", BT_PKG_OPS_ALL, 2, 0x9be8fe35171e8b7d, 0},
    {"llama", NULL, "w8a16:group=32,lut4", BT_PKG_OPS_LINEAR, 1, 0x8d1bc0b0997694a3, 192},
    {"qwen3", NULL, "sparse:0.3,dense=0", BT_PKG_OPS_LINEAR, 2, 0x10860d75a1a86ba2, 0},
    {"llama", NULL, "sparse:0.3,dense=0,rows=16", BT_PKG_OPS_LINEAR, 1, 0xf0f32035191eab97, 0},
    {"qwen2", NULL, "sparse:0.3,dense=0,rows=4,group", BT_PKG_OPS_LINEAR, 2, 0x331c67f67388c3eb, 0},
    {"granite", "f16", NULL, 0, 2, 0x9e32b9e6c4d8d0e1, 0},
    {"granite", NULL, "w8a8", BT_PKG_OPS_LINEAR, 1, 0x184676204daad6da, 0},
    {"granite", NULL, "w8a16", BT_PKG_OPS_ALL, 2, 0xafb00014414d5894, 0},
    {"smollm3", "int8", NULL, 0, 1, 0xb7acd6375f763f48, 0},
    {"smollm3", NULL, "w4a8:no-gptq", BT_PKG_OPS_ALL, 2, 0xbee3e67c02afac9b, 0},
    {"olmo2", "fp4", NULL, 0, 2, 0x62f782f24610eef0, 0},
    {"olmo2", NULL, "w8a8", BT_PKG_OPS_ALL, 2, 0x8ca860534006718a, 0},
    {"phi3", "fp4", NULL, 0, 1, 0xd1e8d41f14550510, 0},
    {"phi3", NULL, "w8a8:asym", BT_PKG_OPS_LINEAR, 2, 0x56ba221833f7109c, 0},
    {"starcoder2", "int8", NULL, 0, 2, 0xa55cb8bee42399b2, 0},
    {"starcoder2", NULL, "w8a8:no-gptq", BT_PKG_OPS_LINEAR, 1, 0x41d9d48611a6ee6b, 0},
    {"starcoder2", NULL, "w4a16", BT_PKG_OPS_ALL, 2, 0x100124a826f9fb28, 0},
};

/* FNV-1a */
static uint64_t hash_on(uint64_t h, const void *bytes, size_t len)
{
    for (const unsigned char *p = bytes, *const end = p + len; p < end; p++) h = (h ^ *p) * 0x100000001b3u;
    return h;
}

static int32_t best(const float *logits, size_t n)
{
    size_t top = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[top]) top = i;
    return (int32_t)top;
}

/* The prompt by the prefill engine, then the likeliest token over and over by the decode engine. */
static uint64_t answer(const engine_kit *kit, const form *f, const bt_pkg *pkg, const char *isa)
{
    const size_t vocab = kit->model->hp.vocab;
    const bt_decode_config dc = {
        .engine = pkg ? "npu" : "host",    .isa = isa,       .weights = f->weights, .pkg = pkg,
        .kv_elem_bytes = f->kv_elem_bytes, .ctx_tokens = CTX};
    bt_fault fault = {""};
    bt_decode *d = NULL;
    bt_prefill *p = NULL;
    const bt_prefill_config pc = {.engine = dc.engine,
                                  .isa = isa,
                                  .want.shape_policy = "chunk:16+tail",
                                  .pkg = pkg,
                                  .kv_elem_bytes = f->kv_elem_bytes,
                                  .threads = 1,
                                  .ctx_tokens = CTX};
    if (bt_prefill_new(&p, kit->model, &pc, &fault) < 0 || bt_decode_new(&d, kit->model, &dc, &fault) < 0)
        fail_msg("%s", fault.text);
    assert_string_equal(bt_decode_isa(d), isa);
    bt_kv_view kv = engine_kit_pages(kit->model, N, 16, f->kv_elem_bytes);
    float *logits = engine_kit_floats(vocab);
    int32_t ids[PROMPT];
    engine_kit_ids(ids, PROMPT, kit->model, 31);
    assert_int_equal(bt_prefill_run(p, &kv, ids, PROMPT, 0, NULL, logits, BT_PREFILL_LAST, NULL), BT_OK);
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t pos = PROMPT; pos < N; pos++) {
        const int32_t token = best(logits, vocab);
        const bt_decode_seq one = {.kv = &kv, .pos = pos, .tokens = &token, .count = 1, .out = 1};
        h = hash_on(h, &token, sizeof token);
        assert_int_equal(bt_decode_step(d, &one, 1, NULL, logits, NULL), BT_OK);
    }
    const uint64_t stored = engine_kit_hash(&kv, N);
    h = hash_on(hash_on(h, &stored, sizeof stored), logits, vocab * sizeof *logits);
    free(logits);
    engine_kit_pages_free(&kv);
    bt_decode_free(d);
    bt_prefill_free(p);
    return h;
}

static void answers_have_their_golden_bits_on_every_row(void **state)
{
    (void)state;
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const form *f = &forms[i];
        engine_kit kit = f->ffn ? engine_kit_model_ffn(f->arch, f->ffn) : engine_kit_model(f->arch);
        bt_pkg *pkg = !f->recipe ? NULL
                      : !strncmp(f->recipe, "sparse", 6)
                          ? npu_kit_sparse(kit.model, f->recipe, "chunk:16+tail:1", CTX)
                          : npu_kit_compiled(kit.model, f->recipe, f->npu_ops, "chunk:16+tail:1", CTX);
        for (size_t k = 0; k < bt_kernels_table_len; k++) {
            if (!rows_usable(&bt_kernels_table[k]) || (slow_run() && (i + k) % 2)) continue;
            const uint64_t got = answer(&kit, f, pkg, bt_kernels_table[k].isa);
            print_message("%s %s, KV of %u bytes, %s: %016llx\n", f->arch, pkg ? f->recipe : f->weights,
                          f->kv_elem_bytes, bt_kernels_table[k].isa, (unsigned long long)got);
            wrong += got != f->golden;
        }
        bt_pkg_close(pkg);
        engine_kit_done(&kit);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers_have_their_golden_bits_on_every_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
