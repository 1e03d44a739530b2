/* The executor of packages: one result for every chunking, padding, thread count and instruction set; against
 * sums written out. */
#include "engine/prefill.h"
#include "npu/pkg/recipe.h"
#include "npu/run/exec.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/rows.h"
#include "tests/helpers/slow.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CTX = 1024, N = 330, PAGE = 16 }; /* two spans of attention, an odd tail */
static const char *const archs[] = {"llama", "qwen2", "qwen3"};

typedef struct world {
    engine_kit kit;
    int32_t ids[CTX];
    size_t vocab;
} world;

static world begin_kit(engine_kit kit)
{
    world w = {.kit = kit};
    engine_kit_ids(w.ids, CTX, w.kit.model, 11);
    w.vocab = w.kit.model->hp.vocab;
    return w;
}

static world begin(const char *arch) { return begin_kit(engine_kit_model(arch)); }

static void end(world *w) { engine_kit_done(&w->kit); }

static bt_pkg *package(const world *w, const char *recipe, const char *policy)
{
    const npu_kit_options o = {.recipe = recipe, .policy = policy, .ctx_tokens = CTX};
    return npu_kit_package(w->kit.model, &o);
}

static void chunks_threads_and_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    static const char *const policies[] = {"chunk:16",       "chunk:64", "chunk:256",
                                           "chunk:256+tail", "pow2",     "range:7-100"};
    static const char *const recipes[] = {"w8a8",
                                          "w8a16",
                                          "w4a8:a16=down",
                                          "w4a16",
                                          "w8a8:shadow=channel",
                                          "w8a8:shadow=off",
                                          "w4a8:group=32",
                                          "w8a16:group=32",
                                          "w4a16:group=32,awq",
                                          "w4a8:awq,r1"};
    bt_pool *pool[2] = {NULL, NULL};
    assert_int_equal(bt_pool_new(&pool[1], 2, NULL), BT_OK);
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        const bool has_groups = strstr(recipes[r], "group"); /* they divide 160 */
        world w = has_groups ? begin_kit(engine_kit_model_ffn(archs[r % 3], 160)) : begin(archs[r % 3]);
        float *first[2] = {engine_kit_floats(w.vocab), engine_kit_floats(w.vocab)},
              *logits = engine_kit_floats(w.vocab);
        uint64_t hash[2] = {0};
        for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
            bt_pkg *pkg = package(&w, recipes[r], policies[i]);
            for (size_t k = 0; k < bt_kernels_table_len; k++) {
                const bool is_ref = k == bt_kernels_table_len - 1;
                if (!rows_usable(&bt_kernels_table[k]) || (is_ref && i != r % 3))
                    continue;                               /* the plain kernels are slow */
                for (uint32_t elem = 0; elem < 2; elem++) { /* int8 and f16 */
                    bt_prefill *p = npu_kit_engine(w.kit.model, pkg, CTX, bt_kernels_table[k].isa,
                                                   pool[(i + r) % 2], elem + 1);
                    bt_kv_view kv = engine_kit_pages(w.kit.model, N + 40, PAGE, elem + 1);
                    assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, NULL, logits, BT_PREFILL_LAST, NULL),
                                     BT_OK);
                    if (!hash[elem]) {
                        hash[elem] = engine_kit_hash(&kv, N);
                        memcpy(first[elem], logits, w.vocab * sizeof **first);
                    }
                    assert_true(engine_kit_hash(&kv, N) == hash[elem]);
                    assert_true(engine_kit_untouched(&kv, N, N + 40));
                    assert_memory_equal(first[elem], logits, w.vocab * sizeof **first);
                    assert_int_equal(bt_prefill_work(p).compilations, 0);
                    engine_kit_pages_free(&kv);
                    bt_prefill_free(p);
                }
            }
            bt_pkg_close(pkg);
        }
        free(first[0]);
        free(first[1]);
        free(logits);
        end(&w);
    }
    bt_pool_free(pool[1]);
}

/* One prompt of 1,000 tokens: chunks of 16 to 256, 32 against 32 n, one graph of 1,024, a tail; both kernels,
 * one thread and two. */
static void a_thousand_tokens_have_the_same_bytes_however_they_are_cut(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *isa;
    } cases[] = {
        {"max-pad", NULL},     {"chunk:16", NULL},   {"chunk:32", "avx2"},     {"chunk:64", NULL},
        {"chunk:128", "auto"}, {"chunk:256", "ref"}, {"chunk:256+tail", NULL}, {"chunk:1000", NULL},
    };
    enum { LONG = 1000 };
    bt_pool *pool = NULL;
    assert_int_equal(bt_pool_new(&pool, 2, NULL), BT_OK);
    world w = begin("llama");
    float *first = engine_kit_floats(LONG * w.vocab), *logits = engine_kit_floats(LONG * w.vocab);
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!rows_select(cases[i].isa)) continue;
        bt_pkg *pkg = package(&w, "w8a8", cases[i].policy);
        bt_prefill *p = npu_kit_engine(w.kit.model, pkg, CTX, cases[i].isa, i % 2 ? pool : NULL, 2);
        bt_kv_view kv = engine_kit_pages(w.kit.model, CTX, PAGE, 2);
        assert_int_equal(bt_prefill_run(p, &kv, w.ids, LONG, 0, NULL, logits, BT_PREFILL_ALL, NULL), BT_OK);
        if (i == 0) {
            hash = engine_kit_hash(&kv, LONG);
            memcpy(first, logits, LONG * w.vocab * sizeof *first);
            assert_int_equal(bt_prefill_work(p).rows, CTX);
        }
        assert_true(engine_kit_hash(&kv, LONG) == hash);
        assert_memory_equal(first, logits, LONG * w.vocab * sizeof *first);
        assert_true(engine_kit_untouched(&kv, LONG, CTX));
        engine_kit_pages_free(&kv);
        bt_prefill_free(p);
        bt_pkg_close(pkg);
    }
    free(first);
    free(logits);
    bt_pool_free(pool);
    end(&w);
}

/* ---- one row of the table by hand ---- */

typedef struct bench {
    bt_pkg *pkg;
    bt_exec *exec;
    uint8_t *arena;
    const bt_pkg_row *row;
} bench;

static bench bench_new(const world *w, const char *recipe, const char *policy, size_t seq, size_t end_tokens)
{
    bench b = {.pkg = package(w, recipe, policy)};
    assert_int_equal(bt_exec_new(&b.exec, b.pkg, bt_kernels_select(NULL), NULL, NULL), BT_OK);
    assert_int_equal(bt_pkg_find_row(&b.row, b.pkg, 1, seq, end_tokens, NULL), BT_OK);
    const size_t bytes = (size_t)bt_pkg_header_of(b.pkg)->arena_bytes;
    b.arena = engine_kit_alloc(bytes);
    memset(b.arena, 0xff, bytes); /* NaN wherever nothing is written */
    return b;
}

static void bench_done(bench *b)
{
    bt_exec_free(b->exec);
    free(b->arena);
    bt_pkg_close(b->pkg);
}

static void nothing_in_padding_changes_a_bit_and_guard_slots_stay(void **state)
{
    (void)state;
    static const float pads[] = {0, 1e30f, -3, INFINITY, NAN, 0.37f};
    static const char *const recipes[] = {"w8a8", "w8a16", "w4a8"};
    enum { VALID = 21, ROWS = 64 };
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a]);
        float *first = engine_kit_floats(VALID * w.vocab), *logits = engine_kit_floats(VALID * w.vocab);
        uint64_t hash = 0;
        for (size_t i = 0; i < sizeof pads / sizeof *pads; i++) {
            bench b = bench_new(&w, recipes[a], "chunk:64", ROWS, VALID);
            bt_kv_view kv = engine_kit_pages(w.kit.model, ROWS, PAGE, 2);
            const bt_exec_seq seq = {.ids = w.ids, .kv = &kv, .valid = VALID};
            const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = ROWS, .logits = logits, .pad = pads[i]};
            assert_int_equal(bt_exec_run(b.exec, b.row, BT_PKG_OUT_ALL, b.arena, &io, NULL), BT_OK);
            if (i == 0) {
                hash = engine_kit_hash(&kv, VALID);
                memcpy(first, logits, VALID * w.vocab * sizeof *first);
                for (size_t v = 0; v < VALID * w.vocab; v++) assert_true(isfinite(first[v]));
            }
            assert_true(engine_kit_hash(&kv, VALID) == hash);
            assert_true(engine_kit_untouched(&kv, VALID, ROWS));
            assert_memory_equal(first, logits, VALID * w.vocab * sizeof *first);
            engine_kit_pages_free(&kv);
            bench_done(&b);
        }
        free(first);
        free(logits);
        end(&w);
    }
}

/* K and V of a position, every head of every layer. */
static bool is_stored(const bt_kv_view *kv, size_t pos)
{
    for (size_t l = 0; l < kv->layers; l++)
        for (int is_v = 0; is_v < 2; is_v++)
            for (size_t g = 0; g < kv->kv_heads; g++) {
                const uint8_t *row = bt_kv_view_row(kv, l, is_v, pos, g);
                for (size_t i = 0; i < kv->head_bytes; i += 2)
                    if (row[i] == 0xff && row[i + 1] == 0xff) return false;
            }
    return true;
}

static void a_step_writes_its_own_kv_rows_and_no_other_byte_moves(void **state)
{
    (void)state;
    const size_t steps = slow_run() ? 100 : 1000;
    world w = begin("llama");
    bench b = bench_new(&w, "w8a8", "chunk:1", 1, CTX);
    bt_kv_view kv[2] = {engine_kit_pages(w.kit.model, CTX, PAGE, 2),
                        engine_kit_pages(w.kit.model, CTX, PAGE, 2)};
    const uint8_t *row[2];
    float *logits = engine_kit_floats(w.vocab);
    for (size_t s = 0; s < 2; s++) row[s] = bt_kv_view_row(&kv[s], 2, 1, 0, 0);
    uint64_t sessions[2];
    for (size_t i = 0; i < steps; i++)
        for (size_t s = 0; s < 2; s++) { /* two sessions in turns */
            const bt_exec_seq seq = {.ids = &w.ids[(i + s * 7) % CTX], .kv = &kv[s], .pos0 = i, .valid = 1};
            const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = 1, .logits = logits};
            /* a look at all rows takes long */
            const uint64_t earlier = i % 50 ? 0 : engine_kit_hash(&kv[s], i);
            assert_int_equal(bt_exec_run(b.exec, b.row, BT_PKG_OUT_NONE, b.arena, &io, NULL), BT_OK);
            assert_true(is_stored(&kv[s], i) && engine_kit_untouched(&kv[s], i + 1, i + 2));
            assert_true(i % 50 || engine_kit_hash(&kv[s], i) == earlier);
            assert_true(bt_kv_view_row(&kv[s], 2, 1, 0, 0) == row[s]);
        }
    for (size_t s = 0; s < 2; s++) {
        sessions[s] = engine_kit_hash(&kv[s], steps);
        assert_true(engine_kit_untouched(&kv[s], steps, CTX));
    }
    for (size_t s = 0; s < 2; s++) { /* alone, each gives the same bytes */
        bt_kv_view alone = engine_kit_pages(w.kit.model, CTX, PAGE, 2);
        for (size_t i = 0; i < steps; i++) {
            const bt_exec_seq seq = {.ids = &w.ids[(i + s * 7) % CTX], .kv = &alone, .pos0 = i, .valid = 1};
            const bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = 1};
            assert_int_equal(bt_exec_run(b.exec, b.row, BT_PKG_OUT_NONE, b.arena, &io, NULL), BT_OK);
        }
        assert_true(engine_kit_hash(&alone, steps) == sessions[s]);
        engine_kit_pages_free(&alone);
        engine_kit_pages_free(&kv[s]);
    }
    assert_true(sessions[0] != sessions[1]);
    free(logits);
    bench_done(&b);
    end(&w);
}

static void work_is_counted_without_padding(void **state)
{
    (void)state;
    world w = begin("qwen2");
    const bt_hparams *hp = &w.kit.model->hp;
    const uint64_t q = hp->heads * hp->head_dim, kv_width = hp->kv_heads * hp->head_dim, n = 40, pos0 = 100;
    const uint64_t layer = 2 * q * hp->dim + 2 * kv_width * hp->dim + 3ull * hp->dim * hp->ffn;
    const uint64_t pairs = n * pos0 + n * (n + 1) / 2;
    for (int fall_back = 0; fall_back < 2; fall_back++) {
        const npu_kit_options o = {.policy = "chunk:64", .ctx_tokens = CTX, .fall_back = fall_back};
        bt_pkg *pkg = npu_kit_package(w.kit.model, &o);
        bt_prefill *p = npu_kit_engine(w.kit.model, pkg, CTX, NULL, NULL, 2);
        bt_kv_view kv = engine_kit_pages(w.kit.model, CTX, PAGE, 2);
        float *logits = engine_kit_floats(w.vocab);
        assert_int_equal(bt_prefill_run(p, &kv, w.ids, pos0, 0, NULL, logits, BT_PREFILL_LAST, NULL), BT_OK);
        const bt_report_work a = bt_prefill_work(p);
        assert_int_equal(bt_prefill_run(p, &kv, w.ids, n, pos0, NULL, logits, BT_PREFILL_LAST, NULL), BT_OK);
        const bt_report_work b = bt_prefill_work(p);
        const uint64_t up = fall_back ? n * hp->layers * hp->dim * hp->ffn : 0;
        assert_int_equal(b.npu_macs - a.npu_macs,
                         n * hp->layers * layer - up + (uint64_t)hp->dim * hp->vocab);
        assert_int_equal(b.companion_macs - a.companion_macs, up + hp->layers * 2 * pairs * q);
        assert_true(b.shadow_entries > a.shadow_entries);
        assert_int_equal(bt_prefill_work(p).rows, 64 * 3);
        free(logits);
        engine_kit_pages_free(&kv);
        bt_prefill_free(p);
        bt_pkg_close(pkg);
    }
    end(&w);
}

/* ---- against floats and against sums written out ---- */

static void sixteen_bit_inputs_stay_near_the_float_engine_and_eight_bit_ones_not_far(void **state)
{
    (void)state;
    static const struct {
        const char *recipe;
        float worst;
    } cases[] = {{"w8a16", 0.08f}, {"w8a8", 0.25f}};
    for (size_t a = 0; a < 3; a++) {
        world w = begin(archs[a]);
        bt_prefill *host = npu_kit_engine(w.kit.model, NULL, CTX, NULL, NULL, 2);
        float *want = engine_kit_floats(N * w.vocab), *got = engine_kit_floats(N * w.vocab);
        bt_kv_view kv = engine_kit_pages(w.kit.model, N, PAGE, 2);
        assert_int_equal(bt_prefill_run(host, &kv, w.ids, N, 0, NULL, want, BT_PREFILL_ALL, NULL), BT_OK);
        for (size_t c = 0; c < 2; c++) {
            bt_pkg *pkg = package(&w, cases[c].recipe, NULL);
            bt_prefill *p = npu_kit_engine(w.kit.model, pkg, CTX, NULL, NULL, 2);
            double apart = 0, all = 0;
            assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, NULL, got, BT_PREFILL_ALL, NULL), BT_OK);
            for (size_t i = 0; i < N * w.vocab; i++) {
                apart += (double)(got[i] - want[i]) * (double)(got[i] - want[i]);
                all += (double)want[i] * (double)want[i];
            }
            print_message("%s, %s: logits off by %.4f of their size\n", archs[a], cases[c].recipe,
                          sqrt(apart / all));
            assert_true(sqrt(apart / all) < (double)cases[c].worst);
            bt_prefill_free(p);
            bt_pkg_close(pkg);
        }
        free(want);
        free(got);
        engine_kit_pages_free(&kv);
        bt_prefill_free(host);
        end(&w);
    }
}

/* One of the matrices of a linear of the package, for rows x[t, k], from its tables alone: one sum after the
 * other. */
static void plain_matrix(const bt_pkg *pkg, uint32_t layer, bt_weight weight, uint32_t expert, const float *x,
                         size_t t, float *y)
{
    const uint32_t layers = bt_pkg_header_of(pkg)->layers;
    const bt_pkg_tensor *m = &bt_pkg_tensors(pkg)[bt_pkg_tensor_index(layers, layer, weight)];
    const bt_pkg_site *s = &bt_pkg_sites(pkg)[m->site];
    const bt_pkg_expert *of = bt_pkg_expert_of(pkg, layer, s->kind, expert);
    const size_t panels = (m->n + 15) / 16;
    const float *scale = bt_pkg_const_at(pkg, m->oscale), *bias = bt_pkg_const_at(pkg, m->bias),
                inv_scale = of ? of->inv_scale : s->inv_scale;
    const uint8_t *bytes = bt_pkg_const_at(pkg, m->panels), *hot = bt_pkg_const_at(pkg, s->hot);
    const int limit = s->bits == 16 ? 32639 : 127;
    scale += expert * panels * 16;
    bytes += expert * panels * bt_int_panel_bytes(m->k, m->bits);
    for (size_t r = 0; r < t; r++)
        for (size_t n = 0; n < m->n; n++) {
            int64_t sum = 0;
            for (size_t k = 0; k < m->k; k++) {
                int64_t q = (int64_t)rintf(x[r * m->k + k] * inv_scale);
                const int64_t inside = q > limit ? limit : q < -limit ? -limit : q;
                if (s->shadow == BT_SHADOW_OFF || (hot && !hot[k])) q = inside;
                sum += q * bt_int_packed_at(bytes, n, k, m->k, m->bits);
            }
            y[r * m->n + n] = (float)sum * scale[n] + (bias ? bias[expert * m->n + n] : 0);
        }
}

static void plain_linear(const bt_pkg *pkg, uint32_t layer, bt_weight weight, const float *x, size_t t,
                         float *y)
{
    plain_matrix(pkg, layer, weight, 0, x, t, y);
}

typedef struct plain { /* a run by the ref kernels and plain_linear, whole prompt at once */
    const bt_pkg *pkg;
    const bt_pkg_header *h;
    const bt_model *model;
    const bt_kernels *k;
    size_t t;
} plain;

static const float *norm_of(const plain *p, uint32_t layer, bt_weight w)
{
    return bt_pkg_const_at(p->pkg,
                           bt_pkg_tensors(p->pkg)[bt_pkg_tensor_index(p->h->layers, layer, w)].panels);
}

/* One norm of t rows of the residual stream; that of starcoder2 goes by mean and variance. */
static void plain_norm(const plain *p, uint32_t layer, bt_weight w, float *y, const float *x)
{
    const size_t d = p->h->dim;
    (p->h->arch == BT_ARCH_STARCODER2 ? p->k->layernorm : p->k->rmsnorm)(y, d, x, d, norm_of(p, layer, w),
                                                                         p->h->rms_eps, p->t, d);
}

/* Every fourth layer of smollm3 has no rotary embedding; the norms of hunyuan-dense stand behind it. */
static void plain_heads(const plain *p, uint32_t layer, bt_weight norm, float *x, size_t heads)
{
    const bt_pkg_header *h = p->h;
    const size_t table = bt_pkg_rope_at(h, layer);
    const float *cos = (const float *)bt_pkg_const_at(p->pkg, h->rope_cos) + table,
                *sin = (const float *)bt_pkg_const_at(p->pkg, h->rope_sin) + table;
    const size_t d = h->head_dim, half = h->rope_dims / 2;
    const size_t parts = h->arch == BT_ARCH_OLMO2 ? 1 : heads, width = heads * d / parts; /* of its norm */
    const bool is_turned = h->arch == BT_ARCH_HUNYUAN_DENSE;
    if (h->flags & BT_PKG_FLAG_QK_NORM && !is_turned)
        p->k->rmsnorm(x, width, x, width, norm_of(p, layer, norm), h->rms_eps, p->t * parts, width);
    for (size_t r = 0; r < p->t && !(h->arch == BT_ARCH_SMOLLM3 && layer % 4 == 3); r++)
        p->k->rope(x + r * heads * d, heads, d, h->rope_dims, cos + r * half, sin + r * half,
                   (h->flags & BT_PKG_FLAG_NEOX) != 0);
    if (is_turned)
        p->k->rmsnorm(x, width, x, width, norm_of(p, layer, norm), h->rms_eps, p->t * parts, width);
}

/* The input of a block; the norms of olmo2 stand behind the blocks. */
static void plain_begin(const plain *p, uint32_t layer, bt_weight norm, float *n, const float *x)
{
    const size_t d = p->h->dim;
    if (p->h->arch == BT_ARCH_OLMO2) memcpy(n, x, p->t * d * sizeof *n);
    else plain_norm(p, layer, norm, n, x);
}

static void plain_add(const plain *p, uint32_t layer, bt_weight norm, bt_weight post, float *x, float *n)
{
    const bt_hparams *hp = &p->model->hp;
    if (hp->arch == BT_ARCH_OLMO2) plain_norm(p, layer, norm, n, n);
    if (hp->arch == BT_ARCH_GEMMA2 || hp->arch == BT_ARCH_GEMMA3) plain_norm(p, layer, post, n, n);
    for (size_t i = 0; i < p->t * hp->dim; i++)
        x[i] = hp->times.add > 0 ? fmaf(hp->times.add, n[i], x[i]) : x[i] + n[i];
}

/* The expert whose score is the greatest of those below `before`, in the order of scores, the lower number
 * first among equals; before NULL: of all. */
static uint32_t next_expert(const float *score, uint32_t experts, const uint32_t *before)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t e = 0; e < experts; e++) {
        const bool is_left =
            !before || score[e] < score[*before] || (score[e] == score[*before] && e > *before);
        if (is_left && (best == UINT32_MAX || score[e] > score[best])) best = e;
    }
    return best;
}

/* Every row alone through the experts that it chooses: f[t, dim] to y[t, dim]. */
static void plain_experts(const plain *p, uint32_t layer, const float *f, float *y)
{
    const bt_pkg_header *h = p->h;
    const size_t d = h->dim;
    const float *router = (const float *)bt_pkg_const_at(p->pkg, h->routers) + (size_t)layer * h->experts * d,
                *bias = h->router_bias ? (const float *)bt_pkg_const_at(p->pkg, h->router_bias) +
                                             (size_t)layer * h->experts
                                       : NULL;
    float *score = engine_kit_floats(h->experts), *weight = engine_kit_floats(h->experts),
          *gate = engine_kit_floats(h->ffn), *up = engine_kit_floats(h->ffn), *out = engine_kit_floats(d);
    for (size_t r = 0; r < p->t; r++, f += d, y += d) {
        uint32_t last = 0;
        float sum = 0, top = 0;
        p->k->dots(score, f, router, h->experts, d);
        for (uint32_t e = 0; bias && e < h->experts; e++) score[e] += bias[e];
        for (uint32_t e = 0; e < h->experts; e++) weight[e] = -1;
        for (uint32_t u = 0; u < h->experts_used; u++) {
            last = next_expert(score, h->experts, u ? &last : NULL);
            if (!u) top = score[last];
            weight[last] = bt_exp1(score[last] - top);
        }
        for (uint32_t e = 0; e < h->experts; e++) sum += weight[e] >= 0 ? weight[e] : 0;
        memset(y, 0, d * sizeof *y);
        for (uint32_t e = 0; e < h->experts; e++) {
            if (weight[e] < 0) continue;
            plain_matrix(p->pkg, layer, BT_WEIGHT_GATE, e, f, 1, gate);
            plain_matrix(p->pkg, layer, BT_WEIGHT_UP, e, f, 1, up);
            (h->arch == BT_ARCH_GPT_OSS ? p->k->clamp_mul : p->k->silu_mul)(gate, gate, up, h->ffn);
            plain_matrix(p->pkg, layer, BT_WEIGHT_DOWN, e, gate, 1, out);
            for (size_t i = 0; i < d; i++) y[i] = fmaf(weight[e] / sum, out[i], y[i]);
        }
    }
    free(score);
    free(weight);
    free(gate);
    free(up);
    free(out);
}

static void plain_feed_forward(const plain *p, uint32_t l, const float *f, float *y)
{
    const bt_pkg_header *h = p->h;
    if (h->experts) {
        plain_experts(p, l, f, y);
        return;
    }
    float *gate = engine_kit_floats(p->t * h->ffn), *up = engine_kit_floats(p->t * h->ffn);
    plain_linear(p->pkg, l, BT_WEIGHT_UP, f, p->t, up);
    if (h->arch == BT_ARCH_STARCODER2) {
        p->k->gelu(up, up, p->t * h->ffn);
    } else {
        plain_linear(p->pkg, l, BT_WEIGHT_GATE, f, p->t, gate);
        const bool is_gemma =
            h->arch == BT_ARCH_GEMMA || h->arch == BT_ARCH_GEMMA2 || h->arch == BT_ARCH_GEMMA3;
        (is_gemma ? p->k->gelu_mul : p->k->silu_mul)(up, gate, up, p->t * h->ffn);
    }
    plain_linear(p->pkg, l, BT_WEIGHT_DOWN, up, p->t, y);
    free(gate);
    free(up);
}

static void plain_layer(const plain *p, uint32_t l, float *x, const bt_kv_view *kv)
{
    const bt_pkg_header *h = p->h;
    const size_t t = p->t, q_width = h->heads * h->head_dim, kv_width = h->kv_heads * h->head_dim;
    float *n = engine_kit_floats(t * h->dim), *q = engine_kit_floats(t * q_width),
          *k = engine_kit_floats(t * kv_width), *v = engine_kit_floats(t * kv_width),
          *a = engine_kit_floats(t * q_width), *d = engine_kit_floats(t * h->dim);
    void *scratch = engine_kit_alloc(bt_attn_scratch_bytes(h->head_dim));
    plain_begin(p, l, BT_WEIGHT_ATTN_NORM, n, x);
    plain_linear(p->pkg, l, BT_WEIGHT_Q, n, t, q);
    plain_linear(p->pkg, l, BT_WEIGHT_K, n, t, k);
    plain_linear(p->pkg, l, BT_WEIGHT_V, n, t, v);
    plain_heads(p, l, BT_WEIGHT_Q_NORM, q, h->heads);
    plain_heads(p, l, BT_WEIGHT_K_NORM, k, h->kv_heads);
    bt_kernels_select("ref")->kv_store(kv, l, 0, t, k, v, kv_width);
    p->k->attn(a, q_width, q, q_width, kv, l, t, 0, h->heads, 0, h->heads,
               &(bt_attn_rule){bt_hparams_scores(&p->model->hp), bt_hparams_window(&p->model->hp, l),
                               p->model->hp.score_cap,
                               h->sinks ? (const float *)bt_pkg_const_at(p->pkg, h->sinks) + l * h->heads
                                        : NULL},
               scratch);
    plain_linear(p->pkg, l, BT_WEIGHT_O, a, t, n);
    plain_add(p, l, BT_WEIGHT_ATTN_NORM, BT_WEIGHT_ATTN_POST_NORM, x, n);
    plain_begin(p, l, BT_WEIGHT_FFN_NORM, n, x);
    plain_feed_forward(p, l, n, d);
    plain_add(p, l, BT_WEIGHT_FFN_NORM, BT_WEIGHT_FFN_POST_NORM, x, d);
    free(n);
    free(q);
    free(k);
    free(v);
    free(a);
    free(d);
    free(scratch);
}

static void compare_with_plain_sums(const char *arch, const char *recipe)
{
    enum { T = 19 };
    world w = begin(arch);
    const bt_model *m = w.kit.model;
    bt_pkg *pkg =
        m->hp.experts ? npu_kit_compiled(m, recipe, BT_PKG_OPS_LINEAR, NULL, CTX) : package(&w, recipe, NULL);
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    const plain p = {pkg, h, m, bt_kernels_select("ref"), T};
    bt_kv_view kv = engine_kit_pages(m, T, PAGE, 2), mine = engine_kit_pages(m, T, PAGE, 2);
    float *x = engine_kit_floats(T * h->dim), *want = engine_kit_floats(T * w.vocab),
          *got = engine_kit_floats(T * w.vocab);
    for (size_t t = 0; t < T; t++) bt_model_row_f32(x + t * h->dim, m->embed, (size_t)w.ids[t]);
    for (size_t i = 0; m->hp.times.embed > 0 && i < T * h->dim; i++) x[i] *= m->hp.times.embed;
    for (uint32_t l = 0; l < h->layers; l++) plain_layer(&p, l, x, &kv);
    plain_norm(&p, UINT32_MAX, BT_WEIGHT_OUT_NORM, x, x);
    plain_linear(pkg, UINT32_MAX, BT_WEIGHT_OUTPUT, x, T, want);
    if (h->arch == BT_ARCH_GEMMA2) p.k->soft_cap(want, 12, T * w.vocab); /* tiny_gguf.c's */
    bt_prefill *engine_of = npu_kit_engine(m, pkg, CTX, NULL, NULL, 2);
    assert_int_equal(bt_prefill_run(engine_of, &mine, w.ids, T, 0, NULL, got, BT_PREFILL_ALL, NULL), BT_OK);
    assert_memory_equal(want, got, T * w.vocab * sizeof *got);
    assert_true(engine_kit_hash(&kv, T) == engine_kit_hash(&mine, T));
    free(x);
    free(want);
    free(got);
    engine_kit_pages_free(&kv);
    engine_kit_pages_free(&mine);
    bt_prefill_free(engine_of);
    bt_pkg_close(pkg);
    end(&w);
}

static void every_bit_is_that_of_sums_written_out_from_the_package(void **state)
{
    (void)state;
    static const char *const recipes[] = {
        "w8a8", "w8a16", "w4a8:a16=down", "w8a8:shadow=channel", "w8a8:shadow=off", "w4a16"};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        compare_with_plain_sums(archs[i % 3], recipes[i]);
}

static void every_architecture_has_the_bits_of_plain_sums(void **state)
{
    (void)state;
    for (int a = 0; a < TINY_GGUF_ARCHS; a++) {
        const bool has_experts = tiny_gguf_has_experts(tiny_gguf_arch(a));
        compare_with_plain_sums(tiny_gguf_arch(a), has_experts ? "w8a8:no-rotate" : "w8a8");
        compare_with_plain_sums(tiny_gguf_arch(a), has_experts ? "w4a16:no-rotate" : "w4a16");
    }
}

/* ---- the contract ---- */

static void single_tokens_and_continued_prompts_agree_with_the_whole(void **state)
{
    (void)state;
    world w = begin("qwen2");
    bt_pkg *pkg = package(&w, "w8a8", NULL);
    bt_prefill *p = npu_kit_engine(w.kit.model, pkg, CTX, NULL, NULL, 2);
    npu_kit_check_cuts(p, w.kit.model, w.ids, N);
    bt_prefill_free(p);
    p = npu_kit_engine(w.kit.model, pkg, CTX, NULL, NULL, 1);
    npu_kit_check_cuts(p, w.kit.model, w.ids, N);
    bt_prefill_free(p);
    bt_pkg_close(pkg);
    end(&w);
}

typedef struct watcher {
    uint32_t next;
    size_t calls, cancel_at;
    atomic_bool cancel;
} watcher;

static void stored(void *ud, uint32_t layer, size_t token_begin, size_t token_count)
{
    watcher *s = ud;
    assert_int_equal(layer, s->next);
    assert_true(token_begin == 0 ? token_count == 256 : token_begin == 256 && token_count == N - 256);
    s->next = (layer + 1) % 3;
    if (++s->calls == s->cancel_at) atomic_store(&s->cancel, true);
}

static void cancels_between_layers_and_refuses_what_does_not_fit(void **state)
{
    (void)state;
    bt_fault f;
    world w = begin("llama");
    bt_pkg *pkg = package(&w, "w8a8", NULL);
    bt_prefill *p = npu_kit_engine(w.kit.model, pkg, CTX, NULL, NULL, 2), *none = NULL;
    const npu_kit_options short_one = {.ctx_tokens = 512};
    bt_pkg *shorter = npu_kit_package(w.kit.model, &short_one);
    float *logits = engine_kit_floats(w.vocab);
    bt_kv_view kv = engine_kit_pages(w.kit.model, CTX, PAGE, 2), wide = kv, small = kv;
    for (size_t at = 1; at <= 7; at++) {
        watcher c = {.cancel_at = at};
        const bt_prefill_hooks hooks = {.on_kv = stored, .ud = &c, .cancel = &c.cancel};
        assert_int_equal(bt_prefill_run(p, &kv, w.ids, N, 0, &hooks, logits, BT_PREFILL_LAST, NULL),
                         at < 7 ? BT_ECANCEL : BT_OK);
        assert_int_equal(c.calls, at < 7 ? at : 6);
    }
    assert_int_equal(bt_prefill_run(p, &kv, w.ids, CTX, 1, NULL, logits, BT_PREFILL_LAST, &f), BT_EARG);
    assert_true(strstr(f.text, "1024") != NULL);
    const bt_prefill_config beyond = {.pkg = shorter, .ctx_tokens = CTX, .threads = 1};
    assert_int_equal(bt_prefill_new(&none, w.kit.model, &beyond, &f), BT_EARG);
    assert_true(strstr(f.text, "1024") && strstr(f.text, "512"));
    assert_null(none);
    bt_pkg_close(shorter);
    engine_kit_pages_free(&kv);
    kv = engine_kit_pages(w.kit.model, 64, PAGE, 2);
    wide = small = kv;
    wide.elem_bytes = 4;
    small.tokens_capacity = 16;
    bench b = bench_new(&w, "w8a8", NULL, 32, 32);
    bt_exec_seq seq = {.ids = w.ids, .kv = &kv, .valid = 32};
    const bt_exec_seq good_seq = seq;
    bt_exec_io io = {.seq = &seq, .seqs = 1, .rows = 32, .logits = logits};
    const bt_exec_io good = io;
#define REFUSED(change) \
    do { \
        io = good, seq = good_seq; \
        change; \
        assert_int_equal(bt_exec_run(b.exec, b.row, BT_PKG_OUT_LAST, b.arena, &io, NULL), BT_EARG); \
    } while (0)
    REFUSED(io.logits = NULL);
    REFUSED(io.seqs = 0);
    REFUSED(io.seqs = 2);
    REFUSED(seq.valid = 0);
    REFUSED(seq.valid = 33);
    REFUSED(io.rows = 31);
    REFUSED(io.rows = 33);
    REFUSED(seq.pos0 = SIZE_MAX);
    REFUSED(seq.pos0 = 33);
    REFUSED(seq.kv = &wide);
    REFUSED(seq.kv = &small);
    w.ids[31] = (int32_t)w.vocab;
    REFUSED((void)0);
    assert_int_equal(bt_prefill_run(p, &kv, w.ids, 32, 0, NULL, logits, BT_PREFILL_LAST, NULL), BT_EARG);
    w.ids[31] = -1;
    REFUSED((void)0);
    assert_true(engine_kit_untouched(&kv, 0, 64));
    w.ids[31] = 0;
    io = good, seq = good_seq;
    assert_int_equal(bt_exec_run(b.exec, b.row, BT_PKG_OUT_LAST, b.arena, &io, NULL), BT_OK);
    bench_done(&b);
    free(logits);
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
    bt_pkg_close(pkg);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_threads_and_instruction_sets_change_no_bit),
        cmocka_unit_test(a_thousand_tokens_have_the_same_bytes_however_they_are_cut),
        cmocka_unit_test(nothing_in_padding_changes_a_bit_and_guard_slots_stay),
        cmocka_unit_test(a_step_writes_its_own_kv_rows_and_no_other_byte_moves),
        cmocka_unit_test(work_is_counted_without_padding),
        cmocka_unit_test(sixteen_bit_inputs_stay_near_the_float_engine_and_eight_bit_ones_not_far),
        cmocka_unit_test(every_bit_is_that_of_sums_written_out_from_the_package),
        cmocka_unit_test(every_architecture_has_the_bits_of_plain_sums),
        cmocka_unit_test(single_tokens_and_continued_prompts_agree_with_the_whole),
        cmocka_unit_test(cancels_between_layers_and_refuses_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
