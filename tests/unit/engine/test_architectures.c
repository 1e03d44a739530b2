/* Every architecture of model/arch.h on every engine: all agree with the reference (which tests/unit/ref
 * compares with others), and no cutting, thread, instruction set or order of decoding changes a bit. The
 * parts that make an architecture unlike llama are seen in the answer. */
#include "engine/decode.h"
#include "engine/prefill.h"
#include "model/gguf.h"
#include "npu/compile/compile.h"
#include "npu/pkg/pkg.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"
#include "tests/helpers/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* CASES: every architecture; then those whose files may have a window on all layers. */
enum { CTX = 256, N = 150, PAGE = 16, CASES = TINY_GGUF_ARCHS + 2, WINDOW = 37 };

typedef struct world {
    engine_kit kit;
    int32_t ids[N];
    size_t vocab;
    float *logits, *oracle; /* of the last token */
} world;

/* One prompt; *ret_hash (may be NULL): of its KV. */
static void run(float *logits, const world *w, const bt_prefill_config *config, uint64_t *ret_hash)
{
    bt_fault f = {""};
    bt_prefill *p = NULL;
    if (bt_prefill_new(&p, w->kit.model, config, &f) < 0) fail_msg("%s", f.text);
    bt_kv_view kv = engine_kit_pages(w->kit.model, N, PAGE, bt_prefill_kv_elem_bytes(p));
    if (bt_prefill_run(p, &kv, w->ids, N, 0, NULL, logits, BT_PREFILL_LAST, &f) < 0) fail_msg("%s", f.text);
    if (ret_hash) *ret_hash = engine_kit_hash(&kv, N);
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
}

static world begin(const tiny_gguf_spec *spec)
{
    world w = {.kit = engine_kit_of(spec)};
    engine_kit_ids(w.ids, N, w.kit.model, 17);
    w.vocab = w.kit.model->hp.vocab;
    w.logits = engine_kit_floats(w.vocab);
    w.oracle = engine_kit_floats(w.vocab);
    run(w.oracle, &w, &(bt_prefill_config){.engine = "reference", .threads = 1, .ctx_tokens = CTX}, NULL);
    return w;
}

static void end(world *w)
{
    free(w->logits);
    free(w->oracle);
    engine_kit_done(&w->kit);
}

static tiny_gguf_spec spec_of(int i)
{
    static const bt_arch windowed[CASES - TINY_GGUF_ARCHS] = {BT_ARCH_LLAMA, BT_ARCH_PHI3};
    tiny_gguf_spec s = tiny_gguf_default();
    const bool is_window = i >= TINY_GGUF_ARCHS;
    s.arch = is_window ? bt_arch_of(windowed[i - TINY_GGUF_ARCHS])->name : tiny_gguf_arch(i);
    s.window = is_window || (i < BT_ARCHS && bt_arch_of((bt_arch)i)->windows > 1) ? WINDOW : 0;
    s.layers = 6; /* one of smollm3's is not rotated, one of gemma3's sees all */
    s.ctx = CTX;
    return s;
}

/* The greatest difference against the greatest logit of b. */
static float off(const float *a, const float *b, size_t n)
{
    float top = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        top = fmaxf(top, fabsf(b[i]));
        worst = fmaxf(worst, fabsf(a[i] - b[i]));
    }
    return worst / top;
}

static void host_agrees_with_the_reference_and_nothing_changes_a_bit(void **state)
{
    (void)state;
    static const char *const policies[] = {"chunk:256", "chunk:16", "pow2"};
    for (int a = 0; a < CASES; a++) {
        const tiny_gguf_spec s = spec_of(a);
        world w = begin(&s);
        uint64_t first = 0, hash;
        for (size_t k = 0; k < bt_kernels_table_len; k++) {
            if (!rows_usable(&bt_kernels_table[k])) continue;
            for (size_t i = 0; i < 3; i++) {
                const bt_prefill_config c = {.engine = "host", .isa = bt_kernels_table[k].isa,
                                             .threads = 1 + i, .want.shape_policy = policies[i],
                                             .ctx_tokens = CTX};
                run(w.logits, &w, &c, &hash);
                if (!first) first = hash;
                assert_true(hash == first);
            }
        }
        const float far = off(w.logits, w.oracle, w.vocab);
        print_message("%s: host off by %.5f of the greatest logit\n", s.arch, (double)far);
        assert_true(far <= 0.01f);
        end(&w);
    }
}

static void all_experts(tiny_gguf *w, void *ud) { tiny_gguf_u32(w, ud, TINY_GGUF_EXPERTS); }

/* Rows of a model with experts choose all of them. With KV of 8 bits one row may else choose another of two
 * experts whose scores are near. used: room for the key. */
static void choose_all(tiny_gguf_spec *s, char used[64])
{
    if (!tiny_gguf_has_experts(s->arch)) return;
    (void)snprintf(used, 64, "%s.expert_used_count", strcmp(s->arch, "mixtral") != 0 ? s->arch : "llama");
    s->omit = used;
    s->extra = all_experts;
    s->ud = used;
}

/* Rows one by one, then the same rows as drafts of one step, in each form of weights and KV. */
static void decoding_is_near_the_reference_and_drafts_change_no_bit(void **state)
{
    (void)state;
    static const struct {
        const char *weights;
        uint32_t type;
        float f16_kv, int8_kv;
    } forms[] = {{"f16", 1, 0.005f, 0.05f},
                 {"int8", 8, 0.005f, 0.05f},
                 {"fp4", 3, 0.005f, 0.05f},
                 {"fp4", 39, 0.005f, 0.05f}};
    enum { DRAFTS = 10, FORMS = sizeof forms / sizeof *forms };
    for (int i = 0; i < CASES * FORMS * 2; i++) {
        tiny_gguf_spec s = spec_of(i / FORMS / 2);
        const size_t form = (size_t)i % FORMS;
        const uint32_t elem = i / FORMS % 2 ? 1 : 2;
        char used[64];
        s.type = forms[form].type;
        if (elem == 1) choose_all(&s, used);
        world w = begin(&s);
        bt_fault f = {""};
        bt_decode *d = NULL;
        const bt_decode_config c = {.engine = "host", .weights = forms[form].weights, .kv_elem_bytes = elem,
                                    .rows_max = DRAFTS, .ctx_tokens = CTX};
        if (bt_decode_new(&d, w.kit.model, &c, &f) < 0) fail_msg("%s", f.text);
        bt_kv_view one = engine_kit_pages(w.kit.model, N, PAGE, elem),
                   many = engine_kit_pages(w.kit.model, N, PAGE, elem);
        float *last = engine_kit_floats(w.vocab);
        for (size_t pos = 0; pos < N; pos++) {
            const bt_decode_seq q = {.kv = &one, .pos = pos, .tokens = &w.ids[pos], .count = 1, .out = 1};
            assert_int_equal(bt_decode_step(d, &q, 1, NULL, w.logits, &f), BT_OK);
        }
        for (size_t pos = 0; pos < N; pos += DRAFTS) {
            const bt_decode_seq q = {.kv = &many, .pos = pos, .tokens = &w.ids[pos], .count = DRAFTS,
                                     .out = 1};
            assert_int_equal(bt_decode_step(d, &q, 1, NULL, last, &f), BT_OK);
        }
        assert_memory_equal(w.logits, last, w.vocab * sizeof *last);
        assert_true(engine_kit_hash(&one, N) == engine_kit_hash(&many, N));
        const float far = off(w.logits, w.oracle, w.vocab);
        print_message("%s, %s, KV of %u bytes: off by %.5f of the greatest logit\n", s.arch,
                      forms[form].weights, elem, (double)far);
        assert_true(far <= (elem == 2 ? forms[form].f16_kv : forms[form].int8_kv));
        free(last);
        engine_kit_pages_free(&one);
        engine_kit_pages_free(&many);
        bt_decode_free(d);
        end(&w);
    }
}

/* A package's rows by chunks and by single tokens of the decode engine. */
static void packages_are_near_the_reference_and_nothing_changes_a_bit(void **state)
{
    (void)state;
    static const struct {
        const char *recipe;
        uint32_t ops, kv_elem_bytes;
        float most;
    } rows[] = {{"w8a16", BT_PKG_OPS_LINEAR, 2, 0.06f},
                {"w8a8", BT_PKG_OPS_LINEAR, 1, 0.25f},
                {"w8a16:no-rotate", BT_PKG_OPS_ALL, 2, 0.06f},
                {"w8a8:smooth=0.5", BT_PKG_OPS_ALL, 1, 0.25f}};
    for (int a = 0; a < CASES; a++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            tiny_gguf_spec s = spec_of(a);
            char used[64];
            if (rows[r].kv_elem_bytes == 1) choose_all(&s, used);
            world w = begin(&s);
            uint64_t hash[2];
            float far = 0;
            for (int i = 0; i < 2; i++) {
                bt_pkg *pkg = npu_kit_compiled(w.kit.model, rows[r].recipe, rows[r].ops,
                                               i ? "chunk:64+tail:1" : "chunk:16", CTX);
                const bt_prefill_config c = {.engine = "npu", .pkg = pkg, .threads = 1 + (size_t)i,
                                             .kv_elem_bytes = rows[r].kv_elem_bytes, .ctx_tokens = CTX};
                run(w.logits, &w, &c, &hash[i]);
                bt_pkg_close(pkg);
                far = off(w.logits, w.oracle, w.vocab);
            }
            print_message("%s, %s%s: off by %.4f of the greatest logit\n", s.arch, rows[r].recipe,
                          rows[r].ops ? " all" : "", (double)far);
            assert_true(hash[0] == hash[1]);
            assert_true(far <= rows[r].most);
            end(&w);
        }
}

static void sparse_attention_is_the_same_however_prompts_are_cut(void **state)
{
    (void)state;
    for (int a = 0; a < BT_ARCHS; a++) {
        const tiny_gguf_spec s = spec_of(a);
        if (s.window) continue; /* the next test */
        world w = begin(&s);
        uint64_t hash[2];
        for (int i = 0; i < 2; i++) {
            bt_pkg *pkg =
                npu_kit_sparse(w.kit.model, "sparse:0.5,dense=0", i ? "chunk:64+tail:1" : "chunk:16", CTX);
            const bt_prefill_config c = {.engine = "npu", .pkg = pkg, .threads = 1, .ctx_tokens = CTX};
            run(w.logits, &w, &c, &hash[i]);
            bt_pkg_close(pkg);
        }
        assert_true(hash[0] == hash[1]);
        end(&w);
    }
}

static void two_experts(tiny_gguf *w, void *ud)
{
    (void)ud;
    tiny_gguf_u32(w, "qwen3moe.expert_used_count", 2);
}

static void sparse_attention_is_refused_where_layers_have_a_window(void **state)
{
    (void)state;
    const tiny_gguf_spec s = spec_of(BT_ARCH_GEMMA3);
    engine_kit kit = engine_kit_of(&s);
    bt_compile_options o = {.ctx_tokens = CTX, .shape_policy = "chunk:16"};
    bt_pkg *pkg = NULL;
    bt_fault f = {""};
    assert_int_equal(bt_recipe_parse(&o.recipe, "w8a8", &f), BT_OK);
    assert_int_equal(bt_attention_parse(&o.attention, "sparse:0.5", &f), BT_OK);
    assert_int_equal(bt_compile_sketch(&pkg, kit.model, &o, &f), BT_EARG);
    assert_non_null(strstr(f.text, "window of 37"));
    engine_kit_done(&kit);
}

static void add_key(tiny_gguf *w, void *ud) { tiny_gguf_f32(w, ud, 0.9f); }

static void each_multiplier_and_each_cap_decides_something(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "granite.attention.scale", "granite.embedding_scale",       "granite.residual_scale",
        "granite.logit_scale",     "gemma.attention.scale",         "gemma3.attention.scale",
        "gemma2.attention.scale",  "gemma2.attn_logit_softcapping", "gemma2.final_logit_softcapping"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bt_arch arch = BT_ARCHS;
        assert_non_null(bt_arch_find(&arch, keys[i], (size_t)(strchr(keys[i], '.') - keys[i])));
        tiny_gguf_spec s = spec_of(arch);
        world w = begin(&s);
        s.extra = add_key;
        s.omit = keys[i];
        s.ud = (void *)(uintptr_t)keys[i];
        world other = begin(&s);
        print_message("%s: %.3f\n", keys[i], (double)off(other.oracle, w.oracle, w.vocab));
        assert_true(off(other.oracle, w.oracle, w.vocab) > 0.02f);
        assert_memory_not_equal(other.kit.model->id, w.kit.model->id, sizeof w.kit.model->id);
        end(&other);
        end(&w);
    }
}

/* A tensor or a key in place of the file's own; n 0: a key of 0.5. */
typedef struct replacement {
    bt_arch arch;
    const char *name;
    uint64_t n, of; /* of zeros, or of sinks that no score comes near */
} replacement;

static void replace(tiny_gguf *w, void *ud)
{
    static float values[96 * TINY_GGUF_EXPERTS];
    const replacement *r = ud;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = strstr(r->name, "sinks") ? -80 : 0;
    if (!r->n) tiny_gguf_f32(w, r->name, 0.5f);
    else
        tiny_gguf_tensor(w, r->name, 0, (uint64_t[]){r->n, r->of}, r->of > 1 ? 2 : 1, values,
                         r->n * r->of * sizeof *values);
}

static void each_bias_eps_and_sink_decides_something(void **state)
{
    (void)state;
    enum { E = TINY_GGUF_EXPERTS };
    static const replacement all[] = {{BT_ARCH_STARCODER2, "starcoder2.attention.layer_norm_epsilon", 0, 0},
                                      {BT_ARCH_STARCODER2, "output_norm.bias", 64, 1},
                                      {BT_ARCH_STARCODER2, "blk.1.attn_norm.bias", 64, 1},
                                      {BT_ARCH_STARCODER2, "blk.1.ffn_norm.bias", 64, 1},
                                      {BT_ARCH_STARCODER2, "blk.1.attn_q.bias", 64, 1},
                                      {BT_ARCH_STARCODER2, "blk.1.attn_k.bias", 32, 1},
                                      {BT_ARCH_STARCODER2, "blk.1.attn_output.bias", 64, 1},
                                      {BT_ARCH_STARCODER2, "blk.1.ffn_up.bias", 96, 1},
                                      {BT_ARCH_STARCODER2, "blk.1.ffn_down.bias", 64, 1},
                                      {BT_ARCH_GPT_OSS, "blk.1.attn_q.bias", 64, 1},
                                      {BT_ARCH_GPT_OSS, "blk.1.attn_output.bias", 64, 1},
                                      {BT_ARCH_GPT_OSS, "blk.0.attn_sinks.weight", 4, 1},
                                      {BT_ARCH_GPT_OSS, "blk.1.attn_sinks.weight", 4, 1},
                                      {BT_ARCH_GPT_OSS, "blk.1.ffn_gate_inp.bias", E, 1},
                                      {BT_ARCH_GPT_OSS, "blk.1.ffn_gate_exps.bias", 96, E},
                                      {BT_ARCH_GPT_OSS, "blk.1.ffn_up_exps.bias", 96, E},
                                      {BT_ARCH_GPT_OSS, "blk.1.ffn_down_exps.bias", 64, E},
                                      {BT_ARCH_GPT_OSS, "gpt-oss.rope.scaling.factor", 0, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tiny_gguf_spec s = spec_of(all[i].arch);
        world w = begin(&s);
        s.omit = all[i].name;
        s.extra = replace;
        s.ud = (void *)(uintptr_t)&all[i];
        world other = begin(&s);
        if (!(off(other.oracle, w.oracle, w.vocab) > 0.001f)) fail_msg("%s decides nothing", all[i].name);
        assert_memory_not_equal(other.kit.model->id, w.kit.model->id, sizeof w.kit.model->id);
        end(&other);
        end(&w);
    }
}

/* With the same weights as llama: a layer without rotary embedding. */
static void a_layer_without_positions_is_seen_in_the_answer(void **state)
{
    (void)state;
    const tiny_gguf_spec plain = spec_of(BT_ARCH_LLAMA), some = spec_of(BT_ARCH_SMOLLM3);
    world w = begin(&plain), other = begin(&some);
    assert_true(off(other.oracle, w.oracle, w.vocab) > 0.02f);
    end(&other);
    end(&w);
}

/* The last token of a model with one layer does not know the tokens before its window. */
static void rows_outside_a_window_are_not_seen(void **state)
{
    (void)state;
    for (int a = 0; a < CASES; a++) {
        tiny_gguf_spec s = spec_of(a);
        s.layers = 1;
        if (!s.window) continue;
        world w = begin(&s);
        for (size_t i = 0; i < N - WINDOW; i++) w.ids[i] = (w.ids[i] + 1) % 300;
        for (int i = 0; i < 2; i++) {
            run(w.logits, &w, &(bt_prefill_config){.engine = "reference", .threads = 1, .ctx_tokens = CTX},
                NULL);
            assert_int_equal(memcmp(w.logits, w.oracle, w.vocab * sizeof *w.logits) == 0, i == 0);
            w.ids[N - WINDOW] = (w.ids[N - WINDOW] + 1) % 300;
        }
        end(&w);
    }
}

/* The id of a model covers its window. */
static void a_window_is_part_of_the_id(void **state)
{
    (void)state;
    tiny_gguf_spec s = spec_of(TINY_GGUF_ARCHS);
    engine_kit one = engine_kit_of(&s);
    assert_int_equal(one.model->hp.window, WINDOW);
    s.window = WINDOW + 1;
    engine_kit other = engine_kit_of(&s);
    s.window = CTX; /* what all rows see anyway */
    engine_kit all = engine_kit_of(&s);
    s.window = 0;
    engine_kit none = engine_kit_of(&s);
    assert_memory_not_equal(one.model->id, other.model->id, sizeof one.model->id);
    assert_memory_not_equal(one.model->id, none.model->id, sizeof one.model->id);
    assert_memory_equal(all.model->id, none.model->id, sizeof all.model->id);
    engine_kit_done(&none);
    engine_kit_done(&all);
    engine_kit_done(&other);
    engine_kit_done(&one);
}

static bool lists(const bt_pkg *pkg, const char *op, const char *why)
{
    const bt_pkg_fallback *f = bt_pkg_fallbacks(pkg);
    for (uint32_t i = 0; i < bt_pkg_header_of(pkg)->fallbacks.count; i++)
        if (!strcmp(f[i].op, op) && !strcmp(f[i].why, why)) return true;
    return false;
}

/* An operator without a form in integers is the companion's, by name; all else is the NPU's. */
static void what_has_no_form_in_integers_stays_on_the_companion_by_name(void **state)
{
    (void)state;
    for (int a = 0; a < BT_ARCHS; a++) {
        const tiny_gguf_spec s = spec_of(a);
        const bt_arch_info *arch = bt_arch_of((bt_arch)a);
        const bool is_after = arch->norms != BT_ARCH_BEFORE, by_mean = arch->norm == BT_ARCH_MEAN,
                   by_row = arch->qk_norm == BT_ARCH_ROWS, has_caps = arch->scores == BT_ARCH_CAPPED;
        const bool has_experts = tiny_gguf_has_experts(s.arch), has_sinks = arch->scores == BT_ARCH_SINKS,
                   is_clamped = arch->ffn == BT_ARCH_CLAMP, is_scaled = arch->yarn == BT_ARCH_EXACT;
        engine_kit kit = engine_kit_of(&s);
        bt_pkg *pkg = npu_kit_compiled(kit.model, "w8a8", BT_PKG_OPS_ALL, "chunk:16", CTX);
        assert_int_equal(bt_pkg_header_of(pkg)->fallbacks.count, 2 * is_after + 2 * by_mean + by_row +
                                                                     2 * has_caps + 2 * has_experts +
                                                                     has_sinks + is_clamped + is_scaled);
        assert_int_equal(lists(pkg, "rmsnorm", "rows are routed in floats"), has_experts);
        assert_int_equal(lists(pkg, "add", "adds what experts made"), has_experts);
        assert_int_equal(lists(pkg, "rmsnorm", "a norm behind a linear"), is_after);
        assert_int_equal(lists(pkg, "add", "adds what a norm made"), is_after);
        assert_int_equal(lists(pkg, "qk_norm", "a norm of the whole row"), by_row);
        assert_int_equal(lists(pkg, "attention", "soft caps of scores"), has_caps);
        assert_int_equal(lists(pkg, "attention", "sinks of heads"), has_sinks);
        assert_int_equal(lists(pkg, "clamp_mul", "no form in integers"), is_clamped);
        assert_int_equal(lists(pkg, "rope", "cos and sin times 1.13863, integer tables hold up to 1"),
                         is_scaled);
        assert_int_equal(lists(pkg, "soft_cap", "no form in integers"), has_caps);
        assert_int_equal(lists(pkg, "layernorm", "no form in integers"), by_mean);
        assert_int_equal(lists(pkg, "gelu", "no form in integers"), by_mean);
        assert_int_equal(bt_pkg_header_of(pkg)->r1.base != 0, !is_after && arch->biases != BT_ARCH_ALL);
        bt_pkg_close(pkg);
        engine_kit_done(&kit);
    }
}

/* The parts of a fused matrix are the file's own rows. */
static void fused_matrices_are_split_where_they_lie(void **state)
{
    (void)state;
    const tiny_gguf_spec s = spec_of(BT_ARCH_PHI3);
    engine_kit kit = engine_kit_of(&s);
    const bt_layer_tensors *x = &kit.model->layer[1];
    assert_int_equal(x->wq->rows, 64);
    assert_int_equal(x->wk->rows, 32);
    assert_ptr_equal(x->wk->data, x->wq->data + x->wq->bytes);
    assert_ptr_equal(x->wv->data, x->wk->data + x->wk->bytes);
    assert_ptr_equal(x->w_up->data, x->w_gate->data + x->w_gate->bytes);
    assert_int_equal(x->w_up->rows, s.ffn);
    engine_kit_done(&kit);
}

/* The router's rules and the experts of a row are the model's id. */
static void how_many_experts_a_row_has_decides_something(void **state)
{
    (void)state;
    tiny_gguf_spec s = spec_of(BT_ARCH_QWEN3MOE);
    world w = begin(&s);
    s.omit = "qwen3moe.expert_used_count";
    s.extra = two_experts;
    world other = begin(&s);
    assert_true(off(other.oracle, w.oracle, w.vocab) > 0.02f);
    assert_memory_not_equal(other.kit.model->id, w.kit.model->id, sizeof w.kit.model->id);
    end(&other);
    end(&w);
}

/* Bytes that steps of 1 row, and of rows that chose different experts, say that they have read: at least
 * those of a row's experts, at most those of all, and more with more rows. */
static void steps_read_only_the_experts_that_their_rows_chose(void **state)
{
    (void)state;
    enum { ROWS = 16 };
    tiny_gguf_spec s = spec_of(BT_ARCH_QWEN3MOE);
    s.type = 8;
    world w = begin(&s);
    bt_fault f = {""};
    bt_decode *d = NULL;
    const bt_decode_config c = {.engine = "host", .weights = "int8", .rows_max = ROWS, .ctx_tokens = CTX};
    if (bt_decode_new(&d, w.kit.model, &c, &f) < 0) fail_msg("%s", f.text);
    bt_kv_view kv = engine_kit_pages(w.kit.model, N, PAGE, 2);
    const uint64_t one = bt_decode_stats_of(d).weight_bytes,
                   expert = (uint64_t)s.layers * 3 * (s.dim / 16 * (s.ffn / 32) * (32 + 16 * 32));
    uint64_t before = 0;
    for (size_t rows = 1, pos = 0; rows <= ROWS; pos += rows, rows *= 4) {
        const bt_decode_seq q = {.kv = &kv, .pos = pos, .tokens = &w.ids[pos], .count = (uint32_t)rows,
                                 .out = 1};
        assert_int_equal(bt_decode_step(d, &q, 1, NULL, w.logits, &f), BT_OK);
        const uint64_t read = bt_decode_stats_of(d).read_bytes - before;
        before += read;
        if (rows == 1) assert_int_equal(read, one);
        else assert_true(read > one && read <= one + (TINY_GGUF_EXPERTS - TINY_GGUF_EXPERTS_USED) * expert);
    }
    engine_kit_pages_free(&kv);
    bt_decode_free(d);
    end(&w);
}

static void recipes_that_experts_cannot_follow_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const recipes[] = {"w8a8:llm-int8", "w4a16:awq"};
    static const char *const names[] = {"llm-int8", "awq"};
    const tiny_gguf_spec s = spec_of(BT_ARCH_QWEN3MOE);
    engine_kit kit = engine_kit_of(&s);
    for (int i = 0; i < 2; i++) {
        char key[33];
        bt_fault f = {""};
        bt_compile_options o = {.ctx_tokens = CTX};
        assert_int_equal(bt_recipe_parse(&o.recipe, recipes[i], NULL), BT_OK);
        assert_int_equal(bt_compile_key(key, kit.model, &o, &f), BT_EARG);
        assert_non_null(strstr(f.text, names[i]));
        assert_non_null(strstr(f.text, "experts"));
    }
    engine_kit_done(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_agrees_with_the_reference_and_nothing_changes_a_bit),
        cmocka_unit_test(decoding_is_near_the_reference_and_drafts_change_no_bit),
        cmocka_unit_test(packages_are_near_the_reference_and_nothing_changes_a_bit),
        cmocka_unit_test(sparse_attention_is_the_same_however_prompts_are_cut),
        cmocka_unit_test(sparse_attention_is_refused_where_layers_have_a_window),
        cmocka_unit_test(each_multiplier_and_each_cap_decides_something),
        cmocka_unit_test(a_layer_without_positions_is_seen_in_the_answer),
        cmocka_unit_test(rows_outside_a_window_are_not_seen),
        cmocka_unit_test(a_window_is_part_of_the_id),
        cmocka_unit_test(how_many_experts_a_row_has_decides_something),
        cmocka_unit_test(steps_read_only_the_experts_that_their_rows_chose),
        cmocka_unit_test(recipes_that_experts_cannot_follow_are_refused_by_name),
        cmocka_unit_test(each_bias_eps_and_sink_decides_something),
        cmocka_unit_test(what_has_no_form_in_integers_stays_on_the_companion_by_name),
        cmocka_unit_test(fused_matrices_are_split_where_they_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
