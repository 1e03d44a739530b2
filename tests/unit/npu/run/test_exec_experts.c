/* Experts on the NPU: one result for every chunking, thread count and instruction set, padding to an expert's
 * programs counted, scales of experts that the calibration chose rarely, and with --npu-ops all every integer
 * against loops. The sums with --npu-ops linear are in test_exec.c. */
#include "npu/compile/compile.h"
#include "engine/prefill.h"
#include "npu/run/exec_steps.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/model/tiny_gguf.h"
#include "tests/helpers/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 256, N = 150, PAGE = 16 };

static bt_pkg *package(const bt_model *m, uint32_t npu_ops, const char *policy, size_t calib)
{
    char path[] = "/tmp/baton-experts-XXXXXX";
    int32_t ids[CTX];
    const int fd = mkstemp(path);
    bt_pkg *pkg = NULL;
    bt_fault f = {""};
    bt_compile_options o = {.shape_policy = policy, .npu_ops = npu_ops, .ctx_tokens = CTX, .calib_ids = ids,
                            .calib_len = calib};
    assert_true(fd >= 0);
    close(fd);
    engine_kit_ids(ids, CTX, m, 12);
    assert_int_equal(bt_recipe_parse(&o.recipe, "w8a8:asym,clip=max", NULL), BT_OK);
    if (bt_compile(path, m, &o, NULL, &f) != BT_OK || bt_pkg_open(&pkg, path, &f) != BT_OK)
        fail_msg("%s", f.text);
    unlink(path);
    return pkg;
}

static void chunks_threads_and_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    static const char *const policies[] = {"chunk:16", "chunk:64", "chunk:64+tail:1", "pow2", "range:7-100"};
    bt_pool *pool[2] = {NULL, NULL};
    assert_int_equal(bt_pool_new(&pool[1], 2, NULL), BT_OK);
    static const char *const archs[] = {"mixtral", "gpt-oss", "qwen3moe", "gpt-oss"};
    for (uint32_t turn = 0; turn < sizeof archs / sizeof *archs; turn++) {
        const uint32_t ops = turn < 2 ? BT_PKG_OPS_LINEAR : BT_PKG_OPS_ALL;
        engine_kit kit = engine_kit_model(archs[turn]);
        const size_t vocab = kit.model->hp.vocab;
        float *first = engine_kit_floats(vocab), *logits = engine_kit_floats(vocab);
        int32_t ids[N];
        uint64_t hash = 0;
        engine_kit_ids(ids, N, kit.model, 11);
        for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
            bt_pkg *pkg = package(kit.model, ops, policies[i], CTX);
            for (size_t k = 0; k < bt_kernels_table_len; k++) {
                if (!rows_usable(&bt_kernels_table[k])) continue;
                bt_prefill *p =
                    npu_kit_engine(kit.model, pkg, CTX, bt_kernels_table[k].isa, pool[(i + k) % 2], 2);
                bt_kv_view kv = engine_kit_pages(kit.model, N, PAGE, 2);
                assert_int_equal(bt_prefill_run(p, &kv, ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL),
                                 BT_OK);
                if (!hash) {
                    hash = engine_kit_hash(&kv, N);
                    memcpy(first, logits, vocab * sizeof *first);
                }
                assert_true(engine_kit_hash(&kv, N) == hash);
                assert_memory_equal(first, logits, vocab * sizeof *first);
                engine_kit_pages_free(&kv);
                bt_prefill_free(p);
            }
            bt_pkg_close(pkg);
        }
        free(first);
        free(logits);
        engine_kit_done(&kit);
    }
    bt_pool_free(pool[1]);
}

static void all_experts(tiny_gguf *w, void *ud) { tiny_gguf_u32(w, ud, TINY_GGUF_EXPERTS); }

/* Where rows choose all experts, each has the rows of the chunk: 64, 64, and 22 in the program of 32. */
static void padding_to_the_programs_of_experts_is_counted(void **state)
{
    (void)state;
    tiny_gguf_spec s = tiny_gguf_default();
    char used[] = "qwen3moe.expert_used_count";
    s.arch = "qwen3moe";
    s.omit = used;
    s.extra = all_experts;
    s.ud = used;
    engine_kit kit = engine_kit_of(&s);
    const uint64_t experts = (uint64_t)kit.model->hp.layers * TINY_GGUF_EXPERTS;
    bt_pkg *pkg = package(kit.model, BT_PKG_OPS_LINEAR, "chunk:64", CTX);
    bt_prefill *p = npu_kit_engine(kit.model, pkg, CTX, NULL, NULL, 2);
    bt_kv_view kv = engine_kit_pages(kit.model, N, PAGE, 2);
    float *logits = engine_kit_floats(kit.model->hp.vocab);
    int32_t ids[N];
    engine_kit_ids(ids, N, kit.model, 11);
    assert_int_equal(bt_prefill_run(p, &kv, ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL), BT_OK);
    assert_int_equal(bt_prefill_work(p).expert_rows, experts * N);
    assert_int_equal(bt_prefill_work(p).expert_padding_rows, experts * (32 - N % 64));
    free(logits);
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
    bt_pkg_close(pkg);
    engine_kit_done(&kit);
}

static void an_experts_program_is_the_smallest_that_holds_its_rows(void **state)
{
    (void)state;
    static const uint32_t want[][3] = {{64, 0, 0},   {64, 1, 1},     {64, 2, 2},    {64, 3, 4}, {64, 33, 64},
                                       {64, 64, 64}, {100, 65, 100}, {100, 64, 64}, {1, 1, 1}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(bt_pkg_expert_rows(want[i][0], want[i][1]), want[i][2]);
}

/* Every expert has the rows that chose it. One that few chose has its site's numbers, the others their own.
 */
static void experts_that_the_calibration_chose_rarely_have_the_scale_of_all(void **state)
{
    (void)state;
    enum { SHORT = 20 };
    engine_kit kit = engine_kit_model("qwen3moe");
    const bt_hparams *hp = &kit.model->hp;
    for (int is_short = 0; is_short < 2; is_short++) {
        const size_t calib = is_short ? SHORT : CTX;
        bt_pkg *pkg = package(kit.model, BT_PKG_OPS_LINEAR, "chunk:16", calib);
        size_t own = 0, rare = 0;
        for (uint32_t l = 0; l < hp->layers; l++)
            for (uint32_t kind = BT_SITE_UP; kind <= BT_SITE_DOWN; kind++) {
                const bt_pkg_site *site = &bt_pkg_sites(pkg)[bt_pkg_site_index(hp->layers, l, kind)];
                uint64_t rows = 0;
                for (uint32_t e = 0; e < hp->experts; e++) {
                    const bt_pkg_expert *of = bt_pkg_expert_of(pkg, l, kind, e);
                    rows += of->rows;
                    assert_int_equal(of->is_rare, of->rows < BT_PKG_EXPERT_ROWS);
                    if (of->is_rare) assert_true(of->scale == site->scale && of->zero == site->zero);
                    rare += of->is_rare;
                    own += of->scale != site->scale;
                }
                assert_int_equal(rows, calib * hp->experts_used);
            }
        assert_true(is_short ? rare == 2 * (size_t)hp->layers * hp->experts && !own : own > 0);
        bt_pkg_close(pkg);
    }
    engine_kit_done(&kit);
}

/* ---- --npu-ops all, against loops ---- */

enum { T = 19, ROWS = 32 };

typedef struct run {
    bt_pkg *pkg;
    const bt_pkg_header *h;
    const bt_kernels *k; /* of the loops: ref */
    bt_exec_steps *steps;
    bt_exec *exec;
    uint8_t *arena;
    const bt_pkg_inst *code;
    float *x;          /* [T, dim] what the router reads */
    uint32_t *of_copy; /* [T * used]: the row of each copy, by expert, then by row */
    uint32_t *begin;   /* [experts + 1] */
    float *weight;     /* [T, experts]; below 0: not chosen */
} run;

/* The rows of an instruction's value in the arena. */
static const void *at(const run *r, uint64_t offset, uint32_t stride, size_t row)
{
    return r->arena + offset + row * stride;
}

/* Each row chooses the greatest scores, the lower number first; copies lie by expert, then by row. */
static void choose(run *r, uint32_t layer)
{
    const bt_pkg_header *h = r->h;
    const float *router =
        (const float *)bt_pkg_const_at(r->pkg, h->routers) + (size_t)layer * h->experts * h->dim;
    float score[TINY_GGUF_EXPERTS];
    uint32_t copies = 0;
    for (size_t t = 0; t < T; t++) {
        float *weight = r->weight + t * h->experts, top = 0;
        r->k->dots(score, r->x + t * h->dim, router, h->experts, h->dim);
        for (uint32_t e = 0; e < h->experts; e++) weight[e] = -1;
        for (uint32_t u = 0; u < h->experts_used; u++) {
            uint32_t best = UINT32_MAX;
            for (uint32_t e = 0; e < h->experts; e++)
                if (weight[e] < 0 && (best == UINT32_MAX || score[e] > score[best])) best = e;
            if (!u) top = score[best];
            weight[best] = bt_exp1(score[best] - top);
        }
    }
    for (uint32_t e = 0; e < h->experts; e++) {
        r->begin[e] = copies;
        for (uint32_t t = 0; t < T; t++)
            if (r->weight[t * h->experts + e] >= 0) r->of_copy[copies++] = t;
    }
    r->begin[h->experts] = copies;
    assert_int_equal(copies, T * h->experts_used);
}

typedef struct matrix { /* of one expert */
    const bt_pkg_tensor *t;
    const bt_pkg_site *site;
    const bt_pkg_expert *of;
    const uint8_t *panels, *hot;
    size_t first; /* of its outputs, in whole panels */
} matrix;

static matrix matrix_of(const run *r, uint32_t layer, bt_weight w, uint32_t expert)
{
    matrix m = {.t = &bt_pkg_tensors(r->pkg)[bt_pkg_tensor_index(r->h->layers, layer, w)]};
    const size_t panels = (m.t->n + 15) / 16;
    m.site = &bt_pkg_sites(r->pkg)[m.t->site];
    m.of = bt_pkg_expert_of(r->pkg, layer, m.site->kind, expert);
    m.panels = bt_pkg_const_at(r->pkg, m.t->panels);
    m.panels += expert * panels * bt_int_panel_bytes(m.t->k, m.t->bits);
    m.hot = bt_pkg_const_at(r->pkg, m.site->hot);
    m.first = expert * panels * 16;
    return m;
}

/* The sum of inputs, integers in units of the expert's scale, by its weights: what the planes cannot hold
 * comes from the shadow, or is cut. */
static int64_t sum_of(const matrix *m, const int64_t *q, size_t n)
{
    const int64_t most = m->site->bits == 16 ? 32639 : 127, least = m->site->asymmetric ? -128 : -most;
    int64_t sum = 0;
    for (size_t k = 0; k < m->t->k; k++) {
        const int64_t v = q[k] + m->of->zero, inside = v > most ? most : v < least ? least : v;
        const bool is_cut = m->site->shadow == BT_SHADOW_OFF || (m->hot && !m->hot[k]);
        sum += ((is_cut ? inside : v) - m->of->zero) * bt_int_packed_at(m->panels, n, k, m->t->k, m->t->bits);
    }
    return sum;
}

/* floor((sum + bias) * m / 2^s + 1/2), where bias_q has the zero point's part of the planes. */
static int16_t requantised(const run *r, const matrix *m, int64_t sum, size_t n)
{
    const int32_t *mult = (const int32_t *)bt_pkg_const_at(r->pkg, m->t->mult) + m->first;
    const uint8_t *shift = (const uint8_t *)bt_pkg_const_at(r->pkg, m->t->shift) + m->first;
    const int64_t *bias = m->t->bias_q == BT_PKG_NONE ? NULL : bt_pkg_const_at(r->pkg, m->t->bias_q);
    int64_t weights = 0;
    for (size_t k = 0; k < m->t->k; k++) weights += bt_int_packed_at(m->panels, n, k, m->t->k, m->t->bits);
    const __int128 all = sum + m->of->zero * weights + (bias ? bias[m->first + n] : 0),
                   y = (all * mult[n] + ((__int128)1 << (shift[n] - 1))) >> shift[n];
    return (int16_t)(y > BT_INT_MAX16 ? BT_INT_MAX16 : y < -BT_INT_MAX16 ? -BT_INT_MAX16 : y);
}

/* One copy: its gate and up in 16 bits, their product in units of down's input, its output in floats. */
static void plain_copy(const run *r, uint32_t layer, uint32_t expert, const float *x, int16_t *gate,
                       int16_t *up, int32_t *wide, float *out, const bt_pkg_inst *silu)
{
    const bt_pkg_header *h = r->h;
    const matrix g = matrix_of(r, layer, BT_WEIGHT_GATE, expert),
                 u = matrix_of(r, layer, BT_WEIGHT_UP, expert),
                 d = matrix_of(r, layer, BT_WEIGHT_DOWN, expert);
    const bt_pkg_int_params *p =
        (const bt_pkg_int_params *)bt_pkg_const_at(r->pkg, (uint32_t)silu->params) + expert;
    const float *scale = (const float *)bt_pkg_const_at(r->pkg, d.t->oscale) + d.first;
    int64_t q[512];
    assert_true(h->ffn <= 512 && h->dim <= 512 && g.t->out_bits == 16);
    for (size_t k = 0; k < h->dim; k++) q[k] = (int64_t)rintf(x[k] * g.of->inv_scale);
    for (size_t n = 0; n < h->ffn; n++) {
        gate[n] = requantised(r, &g, sum_of(&g, q, n), n);
        up[n] = requantised(r, &u, sum_of(&u, q, n), n);
    }
    r->k->int_silu_mul16(wide, gate, up, h->ffn, (bt_int_mul){p->m[0], p->s[0]},
                         (bt_int_mul){p->m[1], p->s[1]});
    for (size_t k = 0; k < h->ffn; k++) q[k] = wide[k];
    for (size_t n = 0; n < h->dim; n++) out[n] = (float)sum_of(&d, q, n) * scale[n];
}

static uint32_t index_of(const run *r, uint32_t layer, bt_pkg_op op)
{
    uint32_t i = 0;
    while (r->code[i].layer != layer || r->code[i].op != op) i++;
    return i;
}

static void compare_layer(run *r, uint32_t layer)
{
    const bt_pkg_header *h = r->h;
    const uint32_t route = index_of(r, layer, BT_PKG_ROUTE),
                   silu_at = index_of(r, layer, BT_PKG_INT_SILU_MUL),
                   mix_at = index_of(r, layer, BT_PKG_MIX_ROWS);
    const bt_pkg_inst *in = &r->code[route], *silu = &r->code[silu_at], *mix = &r->code[mix_at];
    int16_t *gate = malloc(h->ffn * sizeof *gate), *up = malloc(h->ffn * sizeof *up);
    int32_t *wide = calloc((size_t)T * h->experts_used * h->ffn, sizeof *wide);
    float *y = calloc((size_t)T * h->dim, sizeof *y), *out = malloc(h->dim * sizeof *out);
    assert_true(gate && up && wide && y && out);
    bt_exec_steps_run(r->steps, r->exec, route);
    for (size_t t = 0; t < T; t++)
        memcpy(r->x + t * h->dim, at(r, in->in0, in->in_stride, t), h->dim * sizeof *r->x);
    choose(r, layer);
    bt_exec_steps_run(r->steps, r->exec, silu_at);
    for (uint32_t e = 0; e < h->experts; e++)
        for (uint32_t c = r->begin[e]; c < r->begin[e + 1]; c++) {
            const uint32_t t = r->of_copy[c];
            const float *weight = r->weight + t * h->experts;
            float sum = 0;
            plain_copy(r, layer, e, r->x + t * h->dim, gate, up, wide + (size_t)c * h->ffn, out, silu);
            assert_memory_equal(at(r, silu->in0, silu->in_stride, c), gate, h->ffn * sizeof *gate);
            assert_memory_equal(at(r, silu->in1, silu->in_stride, c), up, h->ffn * sizeof *up);
            for (uint32_t k = 0; k < h->experts; k++) sum += weight[k] >= 0 ? weight[k] : 0;
            for (size_t i = 0; i < h->dim; i++) /* experts ascend */
                y[t * h->dim + i] = fmaf(weight[e] / sum, out[i], y[t * h->dim + i]);
        }
    bt_exec_steps_run(r->steps, r->exec, silu_at + 1);
    for (uint32_t c = 0; c < r->begin[h->experts]; c++)
        assert_memory_equal(at(r, silu->out, silu->out_stride, c), wide + (size_t)c * h->ffn,
                            h->ffn * sizeof *wide);
    bt_exec_steps_run(r->steps, r->exec, mix_at + 1);
    for (size_t t = 0; t < T; t++)
        assert_memory_equal(at(r, mix->out, mix->out_stride, t), y + t * h->dim, h->dim * sizeof *y);
    free(gate);
    free(up);
    free(wide);
    free(y);
    free(out);
}

static void compare(const char *arch, const char *recipe, const char *isa)
{
    engine_kit kit = engine_kit_model(arch);
    int32_t ids[T];
    bt_kv_view kv = engine_kit_pages(kit.model, ROWS, PAGE, 2);
    const bt_exec_seq seq = {.ids = ids, .kv = &kv, .valid = T};
    const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = ROWS};
    const bt_pkg_row *row;
    run r = {.pkg = npu_kit_compiled(kit.model, recipe, BT_PKG_OPS_ALL, "chunk:32", CTX),
             .k = bt_kernels_select("ref")};
    r.h = bt_pkg_header_of(r.pkg);
    assert_int_equal(bt_exec_new(&r.exec, r.pkg, bt_kernels_select(isa), NULL, NULL), BT_OK);
    assert_int_equal(bt_exec_steps_new(&r.steps, r.pkg, NULL), BT_OK);
    assert_int_equal(bt_pkg_find_row(&row, r.pkg, 1, ROWS, ROWS, NULL), BT_OK);
    r.arena = engine_kit_alloc(r.h->arena_bytes);
    r.code = bt_pkg_code(r.pkg, row->program[BT_PKG_OUT_NONE]);
    r.x = engine_kit_floats((size_t)T * r.h->dim);
    r.weight = engine_kit_floats((size_t)T * r.h->experts);
    r.of_copy = calloc((size_t)T * r.h->experts_used, sizeof *r.of_copy);
    r.begin = calloc(r.h->experts + 1, sizeof *r.begin);
    assert_true(r.of_copy && r.begin);
    engine_kit_ids(ids, T, kit.model, 11);
    assert_int_equal(bt_exec_steps_begin(r.steps, r.exec, row, BT_PKG_OUT_NONE, r.arena, &io, NULL), BT_OK);
    for (uint32_t l = 0; l < r.h->layers; l++) compare_layer(&r, l);
    free(r.x);
    free(r.weight);
    free(r.of_copy);
    free(r.begin);
    free(r.arena);
    bt_exec_steps_free(r.steps);
    bt_exec_free(r.exec);
    engine_kit_pages_free(&kv);
    bt_pkg_close(r.pkg);
    engine_kit_done(&kit);
}

/* Gate and up of each copy of a row, their product, and the sum over a row's experts, number by number. */
static void integers_of_experts_are_those_of_loops_over_each_row_alone(void **state)
{
    (void)state;
    static const char *const recipes[] = {"w8a8:no-rotate", "w8a8:asym,no-rotate", "w8a16:no-rotate",
                                          "w4a8:no-rotate,shadow=off", "w8a8:asym,no-rotate,shadow=off"};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        compare(i % 2 ? "mixtral" : "qwen3moe", recipes[i], i % 2 ? "ref" : NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_threads_and_instruction_sets_change_no_bit),
        cmocka_unit_test(padding_to_the_programs_of_experts_is_counted),
        cmocka_unit_test(an_experts_program_is_the_smallest_that_holds_its_rows),
        cmocka_unit_test(experts_that_the_calibration_chose_rarely_have_the_scale_of_all),
        cmocka_unit_test(integers_of_experts_are_those_of_loops_over_each_row_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
