/* Operators of the NPU in 16-bit floats, from the profile to the executor: against a plain forward pass that
 * rounds after every operator, bit for bit; in any mix with integers and with the companion; and where the
 * calibration says that f16 is too small. */
#include "kernels/round16.h"
#include "model/gguf.h"
#include "npu/compile/compile.h"
#include "npu/lower/plan.h"
#include "npu/run/exec.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 64, N = 61, PAGE = 16, CALIB = 128 };

static const bt_op_kind kinds[] = {BT_OP_LINEAR,    BT_OP_RMSNORM, BT_OP_QK_NORM,  BT_OP_ROPE,
                                   BT_OP_ATTENTION, BT_OP_ADD,     BT_OP_SILU_MUL, BT_OP_ROTATE};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct world {
    engine_kit kit;
    int32_t ids[CTX], calib[CALIB];
    size_t vocab;
} world;

static world begin(const char *arch)
{
    world w = {.kit = engine_kit_model(arch)};
    engine_kit_ids(w.ids, CTX, w.kit.model, 21);
    engine_kit_ids(w.calib, CALIB, w.kit.model, 22);
    w.vocab = w.kit.model->hp.vocab;
    return w;
}

/* bits[KINDS]: what the profile has of each kind. */
static bt_profile profile_of(const uint8_t *bits)
{
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, NULL, NULL), BT_OK);
    snprintf(p.name, sizeof p.name, "mix");
    for (size_t k = 0; k < KINDS; k++) p.op[kinds[k]] = bits[k];
    return p;
}

static bt_pkg *package(const world *w, const char *recipe, const bt_profile *profile)
{
    char path[] = "/tmp/baton-float-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    bt_compile_options o = {.shape_policy = "range:1-64", .npu_ops = BT_PKG_OPS_ALL, .ctx_tokens = CTX,
                            .calib_ids = w->calib,        .calib_len = CALIB,        .profile = profile};
    bt_pkg *pkg = NULL;
    bt_fault f = {0};
    assert_int_equal(bt_recipe_parse(&o.recipe, recipe, NULL), BT_OK);
    if (bt_compile(path, w->kit.model, &o, NULL, &f) != BT_OK || bt_pkg_open(&pkg, path, &f) != BT_OK)
        fail_msg("%s: %s", recipe, f.text);
    unlink(path);
    return pkg;
}

/* The prompt in chunks of `chunk` rows, the last one padded; hash of its KV, logits of all rows. */
static uint64_t run(const world *w, const bt_pkg *pkg, size_t chunk, const char *isa, bt_pool *pool,
                    float *logits, bt_exec_stats *stats)
{
    bt_exec *x = NULL;
    bt_fault f = {0};
    const bt_pkg_row *row = NULL;
    if (bt_exec_new(&x, pkg, bt_kernels_select(isa), pool, &f) < 0) fail_msg("%s", f.text);
    assert_int_equal(bt_pkg_find_row(&row, pkg, 1, chunk, CTX, NULL), BT_OK);
    void *arena = engine_kit_alloc(bt_pkg_header_of(pkg)->arena_bytes);
    bt_kv_view kv = engine_kit_pages(w->kit.model, CTX, PAGE, 2);
    float *part = engine_kit_floats(chunk * w->vocab);
    for (size_t at = 0; at < N; at += chunk) {
        const size_t valid = N - at < chunk ? N - at : chunk;
        const bt_exec_seq seq = {.ids = w->ids + at, .kv = &kv, .pos0 = at, .valid = valid};
        const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = chunk, .logits = part, .pad = NAN};
        if (bt_exec_run(x, row, BT_PKG_OUT_ALL, arena, &io, &f) < 0) fail_msg("%s", f.text);
        memcpy(logits + at * w->vocab, part, valid * w->vocab * sizeof *part);
    }
    const uint64_t hash = engine_kit_hash(&kv, N);
    if (stats) *stats = bt_exec_stats_of(x);
    free(part);
    engine_kit_pages_free(&kv);
    free(arena);
    bt_exec_free(x);
    return hash;
}

/* ---- a plain forward pass in f16 or bf16 ---- */

typedef struct plain {
    const bt_model *m;
    const bt_kernels *ref;
    bt_round16 form;
    float *cos, *sin;
    bt_kv_view kv;
} plain;

static float rounded(float x, bt_round16 form)
{
    int e;
    if (!isfinite(x) || x == 0) return x;
    (void)frexp(fabs((double)x), &e);
    const double unit = form == BT_ROUND16_F16 ? fmax(ldexp(1, e - 11), ldexp(1, -24)) : ldexp(1, e - 8);
    return (float)(nearbyint((double)x / unit) * unit);
}

static void all_rounded(float *x, size_t n, bt_round16 form)
{
    for (size_t i = 0; i < n; i++) x[i] = rounded(x[i], form);
}

static float *vector(const plain *p, uint32_t layer, bt_weight weight, size_t n)
{
    float *v = engine_kit_floats(n);
    bt_model_row_f32(v, bt_weight_tensor(p->m, layer, weight), 0);
    all_rounded(v, n, p->form);
    return v;
}

static void norm(const plain *p, float *y, const float *x, uint32_t layer, bt_weight w, size_t t, size_t k)
{
    float *v = vector(p, layer, w, k);
    p->ref->rmsnorm(y, k, x, k, v, p->m->hp.rms_eps, t, k);
    all_rounded(y, t * k, p->form);
    free(v);
}

/* One fma chain an output; the weights in the form, then as f16 holds them. */
static void linear(const plain *p, float *y, const float *x, uint32_t layer, bt_weight w, size_t t)
{
    const bt_gguf_tensor *from = bt_weight_tensor(p->m, layer, w);
    const size_t k = from->dim[0], n = from->dim[1];
    float *row = engine_kit_floats(k);
    for (size_t o = 0; o < n; o++) {
        bt_model_row_f32(row, from, o);
        if (p->form == BT_ROUND16_BF16) all_rounded(row, k, p->form);
        all_rounded(row, k, BT_ROUND16_F16);
        for (size_t r = 0; r < t; r++) {
            float sum = 0;
            for (size_t i = 0; i < k; i++) sum = fmaf(row[i], x[r * k + i], sum);
            y[r * n + o] = rounded(sum, p->form);
        }
    }
    free(row);
}

static void rope(const plain *p, float *x, size_t heads)
{
    const bt_hparams *hp = &p->m->hp;
    const size_t width = heads * hp->head_dim, angles = hp->rope_dims / 2;
    for (size_t r = 0; r < N; r++)
        p->ref->rope(x + r * width, heads, hp->head_dim, hp->rope_dims, p->cos + r * angles,
                     p->sin + r * angles, hp->rope_neox);
    all_rounded(x, N * width, p->form);
}

static void attend(const plain *p, float *x, float *n, uint32_t layer)
{
    const bt_hparams *hp = &p->m->hp;
    const size_t q_width = hp->heads * hp->head_dim, kv_width = hp->kv_heads * hp->head_dim;
    float *q = engine_kit_floats(N * q_width), *k = engine_kit_floats(N * kv_width),
          *v = engine_kit_floats(N * kv_width), *a = engine_kit_floats(N * q_width),
          *o = engine_kit_floats(N * hp->dim);
    void *scratch = engine_kit_alloc(bt_attn_scratch_bytes(hp->head_dim));
    norm(p, n, x, layer, BT_WEIGHT_ATTN_NORM, N, hp->dim);
    linear(p, q, n, layer, BT_WEIGHT_Q, N);
    linear(p, k, n, layer, BT_WEIGHT_K, N);
    linear(p, v, n, layer, BT_WEIGHT_V, N);
    norm(p, q, q, layer, BT_WEIGHT_Q_NORM, N * hp->heads, hp->head_dim);
    norm(p, k, k, layer, BT_WEIGHT_K_NORM, N * hp->kv_heads, hp->head_dim);
    rope(p, q, hp->heads);
    rope(p, k, hp->kv_heads);
    p->ref->kv_store(&p->kv, layer, 0, N, k, v, kv_width);
    p->ref->attn(a, q_width, q, q_width, &p->kv, layer, N, 0, hp->heads, 0, hp->heads,
                 &(bt_attn_rule){.scale = 1.0f / sqrtf((float)hp->head_dim)}, scratch);
    all_rounded(a, N * q_width, p->form);
    linear(p, o, a, layer, BT_WEIGHT_O, N);
    p->ref->add(x, o, N * hp->dim);
    all_rounded(x, N * hp->dim, p->form);
    free(q), free(k), free(v), free(a), free(o), free(scratch);
}

static void feed(const plain *p, float *x, float *n, uint32_t layer)
{
    const bt_hparams *hp = &p->m->hp;
    float *gate = engine_kit_floats(N * hp->ffn), *up = engine_kit_floats(N * hp->ffn),
          *d = engine_kit_floats(N * hp->dim);
    norm(p, n, x, layer, BT_WEIGHT_FFN_NORM, N, hp->dim);
    linear(p, gate, n, layer, BT_WEIGHT_GATE, N);
    linear(p, up, n, layer, BT_WEIGHT_UP, N);
    p->ref->silu_mul(gate, gate, up, N * hp->ffn);
    all_rounded(gate, N * hp->ffn, p->form);
    linear(p, d, gate, layer, BT_WEIGHT_DOWN, N);
    p->ref->add(x, d, N * hp->dim);
    all_rounded(x, N * hp->dim, p->form);
    free(gate), free(up), free(d);
}

/* logits[N, vocab]; the hash of KV. */
static uint64_t forward(const world *w, bt_round16 form, float *logits)
{
    const bt_hparams *hp = &w->kit.model->hp;
    const size_t angles = CTX * (hp->rope_dims / 2);
    plain p = {w->kit.model,
               bt_kernels_select("ref"),
               form,
               engine_kit_floats(angles),
               engine_kit_floats(angles),
               engine_kit_pages(w->kit.model, CTX, PAGE, 2)};
    float *x = engine_kit_floats(N * hp->dim), *n = engine_kit_floats(N * hp->dim);
    bt_model_rope_table(p.cos, p.sin, p.m, 0, CTX);
    all_rounded(p.cos, angles, form);
    all_rounded(p.sin, angles, form);
    for (size_t r = 0; r < N; r++) bt_model_row_f32(x + r * hp->dim, p.m->embed, (size_t)w->ids[r]);
    all_rounded(x, N * hp->dim, form);
    for (uint32_t l = 0; l < hp->layers; l++) {
        attend(&p, x, n, l);
        feed(&p, x, n, l);
    }
    norm(&p, n, x, 0, BT_WEIGHT_OUT_NORM, N, hp->dim);
    linear(&p, logits, n, 0, BT_WEIGHT_OUTPUT, N);
    const uint64_t hash = engine_kit_hash(&p.kv, N);
    engine_kit_pages_free(&p.kv);
    free(p.cos), free(p.sin), free(x), free(n);
    return hash;
}

/* All in floats, but for the moves: KV and logits are those of the plain pass, however the prompt is cut. */
static void floats_are_a_plain_pass_that_rounds_after_every_operator(void **state)
{
    (void)state;
    static const size_t chunks[] = {64, N, 26, 7};
    world w = begin("qwen3");
    float *want = engine_kit_floats(N * w.vocab), *got = engine_kit_floats(N * w.vocab);
    for (int form = BT_ROUND16_F16; form < BT_ROUND16_FORMS; form++) {
        uint8_t bits[KINDS];
        bt_exec_stats s;
        memset(bits, form == BT_ROUND16_F16 ? BT_PROFILE_FLOAT16 : BT_PROFILE_BFLOAT16, sizeof bits);
        bt_profile p = profile_of(bits);
        const uint64_t hash = forward(&w, (bt_round16)form, want);
        for (int laid_out = 0; laid_out < 2; laid_out++) {
            if (laid_out) p.last_axis_align_bytes = 256, p.query_slice_rows = 9, p.attention_heads_max = 2;
            if (laid_out) p.output_parts = 3, p.on_chip_bytes = 4096, p.map_window_bytes = 400000;
            bt_pkg *pkg = package(&w, "w8a8:no-rotate", &p);
            assert_int_equal(bt_pkg_header_of(pkg)->fallbacks.count, 0);
            assert_int_equal(bt_pkg_header_of(pkg)->float_form, form);
            assert_true(!laid_out || bt_pkg_header_of(pkg)->sessions.count > 1); /* f16 matrices are mapped */
            for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
                assert_true(run(&w, pkg, chunks[c], c ? NULL : "ref", NULL, got, &s) == hash);
                assert_memory_equal(got, want, N * w.vocab * sizeof *got);
                assert_true(s.npu_float_macs == s.npu_macs && s.npu_macs > 0 && !s.companion_macs);
            }
            bt_pkg_close(pkg);
        }
    }
    free(want);
    free(got);
    engine_kit_done(&w.kit);
}

/* ---- mixes ---- */

static double distance(const float *a, const float *b, size_t n)
{
    double apart = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        square += (double)b[i] * b[i];
    }
    return sqrt(apart / square);
}

static const bt_pkg_inst *code_of(const bt_pkg *pkg, uint32_t *insts)
{
    const uint32_t program = bt_pkg_rows(pkg)[0].program[BT_PKG_OUT_ALL];
    *insts = bt_pkg_programs(pkg)[program].insts;
    return bt_pkg_code(pkg, program);
}

/* Each kind of operator is where its bits say: companion none, integers, or floats. */
static void check_units(const bt_pkg *pkg, const uint8_t *bits)
{
    static const struct {
        bt_pkg_op integer, floats;
    } of[KINDS] = {{BT_PKG_LINEAR, BT_PKG_LINEAR_F16},       {BT_PKG_INT_RMSNORM, BT_PKG_RMSNORM},
                   {BT_PKG_INT_QK_NORM, BT_PKG_QK_NORM},     {BT_PKG_INT_ROPE, BT_PKG_ROPE},
                   {BT_PKG_INT_ATTENTION, BT_PKG_ATTENTION}, {BT_PKG_INT_ADD, BT_PKG_ADD},
                   {BT_PKG_INT_SILU_MUL, BT_PKG_SILU_MUL},   {BT_PKG_INT_ROTATE, BT_PKG_ROTATE}};
    uint32_t insts;
    const bt_pkg_inst *inst = code_of(pkg, &insts);
    for (uint32_t i = 0; i < insts; i++)
        for (size_t k = 0; k < KINDS; k++) {
            const bool in_integers = bits[k] & (BT_PROFILE_INT8 | BT_PROFILE_INT16);
            if (k + 1 == KINDS && inst[i].arg != 2) continue; /* R1; changes of unit */
            if (inst[i].op == of[k].integer) assert_true(in_integers);
            if (inst[i].op != of[k].floats) continue;
            assert_false(in_integers);
            assert_int_equal(inst[i].unit, bits[k] ? BT_PKG_NPU_FLOAT : BT_PKG_COMPANION);
        }
}

/* 60 of the 3^8 ways to give each kind of operator to the companion, to integers or to floats. */
static void any_mix_of_integers_floats_and_companion(void **state)
{
    (void)state;
    enum { MIXES = 60 };
    world w = begin("qwen3");
    float *want = engine_kit_floats(N * w.vocab),
          *got[2] = {engine_kit_floats(N * w.vocab), engine_kit_floats(N * w.vocab)};
    bt_prefill *host = npu_kit_engine(w.kit.model, NULL, CTX, NULL, NULL, 2);
    bt_kv_view kv = engine_kit_pages(w.kit.model, N, PAGE, 2);
    assert_int_equal(bt_prefill_run(host, &kv, w.ids, N, 0, NULL, want, BT_PREFILL_ALL, NULL), BT_OK);
    engine_kit_pages_free(&kv);
    bt_prefill_free(host);
    bt_pool *pool = NULL;
    assert_int_equal(bt_pool_new(&pool, 3, NULL), BT_OK);
    double worst[2] = {0, 0};
    uint32_t random = 12345;
    for (int mix = 0; mix < MIXES; mix++) {
        const int bf16 = mix % 2;
        uint8_t bits[KINDS];
        for (size_t k = 0; k < KINDS; k++) {
            random = random * 1664525 + 1013904223;
            const uint32_t what = (random >> 24) % 3;
            bits[k] = what == 0   ? 0
                      : what == 1 ? BT_PROFILE_INT8 | BT_PROFILE_INT16
                      : bf16      ? BT_PROFILE_BFLOAT16
                                  : BT_PROFILE_FLOAT16;
        }
        const bt_profile p = profile_of(bits);
        bt_pkg *pkg = package(&w, mix % 3 ? "w8a16:no-gptq" : "w8a16:no-gptq,no-r2", &p);
        check_units(pkg, bits);
        const uint64_t hash = run(&w, pkg, N, NULL, NULL, got[0], NULL);
        assert_true(run(&w, pkg, 16, NULL, pool, got[1], NULL) == hash);
        assert_memory_equal(got[0], got[1], N * w.vocab * sizeof(float));
        assert_true(run(&w, pkg, 23, "ref", NULL, got[1], NULL) == hash);
        assert_memory_equal(got[0], got[1], N * w.vocab * sizeof(float));
        worst[bf16] = fmax(worst[bf16], distance(got[0], want, N * w.vocab));
        bt_pkg_close(pkg);
    }
    printf("%d mixes, the farthest from the float engine: %.4f with f16, %.4f with bf16\n", MIXES, worst[0],
           worst[1]);
    assert_true(worst[0] < 0.05 && worst[1] < 0.05);
    bt_pool_free(pool);
    free(want), free(got[0]), free(got[1]);
    engine_kit_done(&w.kit);
}

/* Linears in int8 but for one site in floats, attention in int16, all else in floats: the shares are those of
 * the matrices, counted by hand. */
static void shares_are_counted_by_kind(void **state)
{
    (void)state;
    world w = begin("llama");
    const bt_hparams *hp = &w.kit.model->hp;
    float *logits = engine_kit_floats(N * w.vocab);
    uint8_t bits[KINDS];
    bt_exec_stats s;
    memset(bits, BT_PROFILE_FLOAT16, sizeof bits);
    bits[0] = BT_PROFILE_INT8 | BT_PROFILE_FLOAT16;
    bits[4] = BT_PROFILE_INT16;
    const bt_profile p = profile_of(bits);
    bt_pkg *pkg = package(&w, "w8a8:a16=down", &p);
    (void)run(&w, pkg, 16, NULL, NULL, logits, &s);
    const uint64_t q = hp->heads * hp->head_dim, kv_width = hp->kv_heads * hp->head_dim, dim = hp->dim,
                   in8 = hp->layers * (dim * (q + 2 * kv_width) + q * dim + 2 * dim * hp->ffn) +
                         dim * hp->vocab;
    assert_int_equal(s.npu_float_macs, N * (uint64_t)hp->layers * hp->ffn * dim);
    assert_int_equal(s.npu_int16_macs, 2 * q * hp->layers * (N * (N + 1) / 2));
    assert_int_equal(s.npu_macs, N * in8 + s.npu_float_macs + s.npu_int16_macs);
    assert_int_equal(s.companion_macs, 0);
    bt_pkg_close(pkg);
    free(logits);
    engine_kit_done(&w.kit);
}

/* On the chip a value has 2 bytes, in the arena 4; a program's MACs by kind are its npu_macs. */
static void values_have_two_bytes_on_the_chip(void **state)
{
    (void)state;
    world w = begin("llama");
    const bt_hparams *hp = &w.kit.model->hp;
    uint8_t bits[KINDS];
    uint32_t insts, norms = 0, attentions = 0, rounds = 0;
    memset(bits, BT_PROFILE_FLOAT16, sizeof bits);
    bits[0] = BT_PROFILE_INT8;
    bt_profile p = profile_of(bits);
    p.on_chip_bytes = 1 << 20;
    bt_pkg *pkg = package(&w, "w8a8:no-rotate", &p);
    const bt_pkg_program *g = &bt_pkg_programs(pkg)[bt_pkg_rows(pkg)[0].program[BT_PKG_OUT_ALL]];
    const bt_pkg_inst *inst = code_of(pkg, &insts);
    for (uint32_t i = 0; i < insts; i++) {
        bt_on_chip_op op;
        if (!bt_plan_on_chip_op(&op, bt_pkg_header_of(pkg), bt_pkg_tensors(pkg), g, &inst[i], CTX)) {
            assert_int_equal(inst[i].unit, BT_PKG_COMPANION);
            continue;
        }
        if (inst[i].op == BT_PKG_RMSNORM) {
            assert_true(op.unit_bytes == 2 * hp->dim && op.output_bytes == 2 * hp->dim &&
                        op.band_bytes == 2 * hp->dim);
            assert_int_equal(inst[i].in_stride, 4 * hp->dim);
            norms++;
        }
        if (inst[i].op == BT_PKG_ATTENTION) {
            assert_int_equal(op.unit_bytes, 2 * hp->heads * hp->head_dim);
            attentions++;
        }
        if (inst[i].op == BT_PKG_ROUND16) {
            assert_true(op.unit_bytes == 2 * op.output_bytes);
            assert_int_equal(bt_plan_device_bytes(&bt_pkg_header_of(pkg)->layout, g, &inst[i]) / g->seq,
                             2 * inst[i].out_width);
            rounds++;
        }
    }
    assert_true(norms == 2 * hp->layers + 1 && attentions == hp->layers && rounds > 0);
    const bt_plan_macs m = bt_plan_macs_of(g, inst, bt_pkg_sites(pkg));
    assert_true(m.int8 == g->npu_macs && !m.int16 && !m.floats && !g->companion_macs);
    bt_pkg_close(pkg);
    engine_kit_done(&w.kit);
}

/* ---- what f16 does not hold ---- */

/* Embedding rows a hundred thousand times as large: the residual stream is, and nothing behind a norm. */
static void a_residual_stream_beyond_f16_stays_with_the_companion(void **state)
{
    (void)state;
    world w = begin("llama");
    const bt_gguf_tensor *embed = w.kit.model->embed;
    float *row = (float *)(uintptr_t)embed->data;
    for (size_t i = 0; i < embed->bytes / sizeof *row; i++) row[i] *= 1e5f;
    for (int form = 0; form < 2; form++) {
        uint8_t bits[KINDS];
        uint32_t insts;
        memset(bits, form ? BT_PROFILE_BFLOAT16 : BT_PROFILE_FLOAT16, sizeof bits);
        const bt_profile p = profile_of(bits);
        bt_pkg *pkg = package(&w, "w8a8:no-rotate", &p);
        const bt_pkg_inst *inst = code_of(pkg, &insts);
        const bt_pkg_fallback *f = bt_pkg_fallbacks(pkg);
        float *logits = engine_kit_floats(N * w.vocab);
        assert_int_equal(bt_pkg_header_of(pkg)->fallbacks.count, form ? 0 : 2);
        for (uint32_t i = 0; i < bt_pkg_header_of(pkg)->fallbacks.count; i++) {
            const char *last = " in the calibration, float16 runs up to 32768";
            assert_int_equal(strncmp(f[i].why, "values up to ", 13), 0);
            assert_true(strtod(f[i].why + 13, NULL) > 32768);
            assert_string_equal(strstr(f[i].why, " in the"), last);
            assert_true(!strcmp(f[i].op, "rmsnorm") || !strcmp(f[i].op, "add"));
            assert_int_equal(f[i].count, 2 * w.kit.model->hp.layers + (f[i].op[0] == 'r'));
        }
        for (uint32_t i = 0; i < insts; i++) {
            const bool stream = inst[i].op == BT_PKG_RMSNORM || inst[i].op == BT_PKG_ADD;
            if (stream) assert_int_equal(inst[i].unit, form ? BT_PKG_NPU_FLOAT : BT_PKG_COMPANION);
            if (inst[i].op == BT_PKG_ROPE || inst[i].op == BT_PKG_SILU_MUL)
                assert_int_equal(inst[i].unit, BT_PKG_NPU_FLOAT);
        }
        (void)run(&w, pkg, N, NULL, NULL, logits, NULL);
        for (size_t i = 0; i < N * w.vocab; i++) assert_true(isfinite(logits[i]));
        free(logits);
        bt_pkg_close(pkg);
    }
    engine_kit_done(&w.kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_a_plain_pass_that_rounds_after_every_operator),
        cmocka_unit_test(any_mix_of_integers_floats_and_companion),
        cmocka_unit_test(shares_are_counted_by_kind),
        cmocka_unit_test(values_have_two_bytes_on_the_chip),
        cmocka_unit_test(a_residual_stream_beyond_f16_stays_with_the_companion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
