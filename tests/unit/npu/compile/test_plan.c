/* What a profile says of layout, from the compiler to the executor: packages of profiles that differ from
 * hexagon-v75 in one field differ as the field says, and compute the same bits. */
#include "npu/compile/plan.h"
#include "engine/prefill.h"
#include "npu/compile/compile.h"
#include "npu/pkg/layout.h"
#include "tests/helpers/engine_kit.h"
#include "tests/helpers/npu_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 500, N = 75, CALIB = 300 };

typedef struct world {
    engine_kit kit;
    int32_t calib[CALIB], ids[N];
} world;

static world begin(const char *arch)
{
    world w = {.kit = engine_kit_model(arch)};
    engine_kit_ids(w.calib, CALIB, w.kit.model, 21);
    engine_kit_ids(w.ids, N, w.kit.model, 22);
    return w;
}
static void end(world *w) { engine_kit_done(&w->kit); }

static bt_profile v75(void)
{
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, "hexagon-v75", NULL), BT_OK);
    return p;
}

static bt_err try_compile(bt_pkg **ret, const world *w, const bt_profile *profile, uint32_t npu_ops,
                          const char *recipe, bt_fault *f)
{
    char path[] = "/tmp/baton-plan-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    bt_compile_options o = {.shape_policy = "chunk:32+tail", .npu_ops = npu_ops, .ctx_tokens = CTX,
                            .calib_ids = w->calib,           .calib_len = CALIB, .profile = profile};
    assert_int_equal(bt_recipe_parse(&o.recipe, recipe, NULL), BT_OK);
    bt_err e = bt_compile(path, w->kit.model, &o, NULL, f);
    if (e == BT_OK) e = bt_pkg_open(ret, path, f);
    unlink(path);
    return e;
}

static bt_pkg *package(const world *w, const bt_profile *profile, uint32_t npu_ops, const char *recipe)
{
    bt_pkg *pkg = NULL;
    bt_fault f = {""};
    if (try_compile(&pkg, w, profile, npu_ops, recipe, &f) < 0) fail_msg("%s: %s", recipe, f.text);
    return pkg;
}

/* Rows of KV and the logits of every position. */
typedef struct bits {
    uint64_t kv;
    float *logits;
    bt_report_work work;
} bits;

static bits run(const world *w, const bt_pkg *pkg, bt_pool *pool, const char *isa)
{
    const size_t vocab = w->kit.model->hp.vocab;
    bits b = {.logits = engine_kit_floats(N * vocab)};
    bt_prefill *p = npu_kit_engine(w->kit.model, pkg, CTX, isa, pool, 2);
    bt_kv_view kv = engine_kit_pages(w->kit.model, N, 16, 2);
    assert_int_equal(bt_prefill_run(p, &kv, w->ids, N, 0, NULL, b.logits, BT_PREFILL_ALL, NULL), BT_OK);
    b.kv = engine_kit_hash(&kv, N);
    b.work = bt_prefill_work(p);
    engine_kit_pages_free(&kv);
    bt_prefill_free(p);
    return b;
}

static void assert_same(const world *w, const bits *a, const bits *b)
{
    assert_true(a->kv == b->kv);
    assert_memory_equal(a->logits, b->logits, N * w->kit.model->hp.vocab * sizeof *a->logits);
    assert_int_equal(a->work.npu_macs, b->work.npu_macs);
    assert_int_equal(a->work.companion_macs, b->work.companion_macs);
}

/* The program of 32 rows with logits of the last one. */
static const bt_pkg_program *program_of(const bt_pkg *p)
{
    const bt_pkg_row *r;
    assert_int_equal(bt_pkg_find_row(&r, p, 1, 32, 32, NULL), BT_OK);
    return &bt_pkg_programs(p)[r->program[BT_PKG_OUT_LAST]];
}
static const bt_pkg_inst *code_of(const bt_pkg *p) { return bt_pkg_const_at(p, program_of(p)->code); }
static size_t count(const bt_pkg *p, bt_pkg_op op)
{
    size_t n = 0;
    for (uint32_t i = 0; i < program_of(p)->insts; i++) n += code_of(p)[i].op == op;
    return n;
}

/* ---- each field alone ---- */

typedef void change_fn(bt_profile *p);
typedef void look_fn(const bt_pkg *plain, const bt_pkg *changed, uint32_t npu_ops);

static uint64_t row_padding(const bt_pkg *p)
{
    return bt_plan_row_padding(program_of(p), code_of(p), bt_pkg_const_at(p, program_of(p)->plan));
}
static uint64_t tile_padding(const bt_pkg *p)
{
    return bt_plan_tile_padding(&bt_pkg_header_of(p)->layout, program_of(p), code_of(p));
}
static uint64_t state_bytes(const bt_pkg *p)
{
    bt_plan_state s;
    assert_int_equal(bt_plan_state_of(&s, bt_pkg_header_of(p), CTX, NULL), BT_OK);
    return s.bytes;
}
static uint64_t mapped(const bt_pkg *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->sessions.count; i++)
        sum += bt_pkg_sessions(p)[i].mapped_bytes;
    return sum;
}
static bt_on_chip_plan on_chip(const bt_pkg *p)
{
    bt_plan_line lines[BT_PLAN_MAX_LINES];
    bt_on_chip_plan total;
    assert_true(bt_plan_on_chip(lines, &total, p, program_of(p), CTX) > 0);
    return total;
}

static void align_4096(bt_profile *p) { p->last_axis_align_bytes = 4096; }
static void rows_are_aligned(const bt_pkg *plain, const bt_pkg *changed, uint32_t npu_ops)
{
    (void)npu_ops;
    for (uint32_t i = 0; i < program_of(changed)->insts; i++) {
        const bt_pkg_inst *n = &code_of(changed)[i];
        assert_int_equal(n->in_stride % 4096, 0);
        if (n->out != BT_PKG_NOWHERE) assert_int_equal(n->out_stride % 4096, 0);
    }
    assert_true(row_padding(changed) > row_padding(plain));
    assert_true(program_of(changed)->arena_bytes > program_of(plain)->arena_bytes);
}

static void pow2(bt_profile *p) { p->state_pow2 = true; }
static void multiple_128(bt_profile *p) { p->state_multiple = 128; }
static void the_state_grows(const bt_pkg *plain, const bt_pkg *changed, uint32_t npu_ops)
{
    const uint64_t cost = state_bytes(changed) - state_bytes(plain);
    assert_true(state_bytes(changed) > state_bytes(plain));
    assert_int_equal(mapped(changed) - mapped(plain), npu_ops == BT_PKG_OPS_ALL ? cost : 0);
}

static void slices_of_5(bt_profile *p) { p->query_slice_rows = 5; }
static void slices_of_1(bt_profile *p) { p->query_slice_rows = 1; }
static void heads_of_1(bt_profile *p) { p->attention_heads_max = 1; }
static void heads_of_4(bt_profile *p) { p->attention_heads_max = 4; }
static void attention_is_cut(const bt_pkg *plain, const bt_pkg *changed, uint32_t npu_ops)
{
    const bt_pkg_header *h = bt_pkg_header_of(changed);
    assert_int_equal(count(changed, BT_PKG_ATTENTION), count(plain, BT_PKG_ATTENTION));
    if (npu_ops == BT_PKG_OPS_ALL)
        assert_int_equal(count(changed, BT_PKG_INT_ATTENTION),
                         h->layers * bt_pkg_layout_slices(&h->layout, 32, h->heads));
    else assert_memory_not_equal(&h->layout, &bt_pkg_header_of(plain)->layout, sizeof h->layout);
}

static void parts_8(bt_profile *p) { p->output_parts = 8; }
static void parts_5(bt_profile *p) { p->output_parts = 5; }
static void the_output_matrix_is_cut(const bt_pkg *plain, const bt_pkg *changed, uint32_t npu_ops)
{
    const bt_pkg_header *h = bt_pkg_header_of(changed);
    const uint32_t head = bt_pkg_tensor_index(h->layers, 0, BT_WEIGHT_OUTPUT);
    uint32_t parts = 0, columns = 0;
    (void)npu_ops;
    for (uint32_t i = 0; i < program_of(changed)->insts; i++)
        if (code_of(changed)[i].tensor == head) parts++, columns += code_of(changed)[i].out_width;
    assert_int_equal(parts, h->layout.output_parts);
    assert_int_equal(columns, h->vocab);
    assert_int_equal(h->weights_bytes, bt_pkg_header_of(plain)->weights_bytes);
    assert_int_equal(program_of(changed)->npu_macs, program_of(plain)->npu_macs);
}

static void tiles_128(bt_profile *p) { p->tile_rows = p->tile_cols = 128; }
static void input_tiles_48(bt_profile *p) { p->tile_input_rows = 48; }
static void tiles_cost_more(const bt_pkg *plain, const bt_pkg *changed, uint32_t npu_ops)
{
    (void)npu_ops;
    assert_true(tile_padding(changed) > tile_padding(plain));
    assert_int_equal(program_of(changed)->npu_macs, program_of(plain)->npu_macs);
}

static void chip_of_9000(bt_profile *p) { p->on_chip_bytes = 9000; }
static void chip_of_1024(bt_profile *p) { p->on_chip_bytes = 1024; }
static void operators_spill(const bt_pkg *plain, const bt_pkg *changed, uint32_t npu_ops)
{
    const bt_on_chip_plan a = on_chip(plain), b = on_chip(changed);
    (void)npu_ops;
    assert_int_equal(bt_on_chip_streamed(&a), 0);
    assert_int_equal(bt_on_chip_spilled(&a), 0);
    assert_true(bt_on_chip_streamed(&b) > 0);
    assert_true(bt_on_chip_spilled(&b) > 0);
    assert_true(bt_on_chip_resident(&b) < bt_on_chip_resident(&a));
}

static const struct {
    const char *what;
    change_fn *change;
    look_fn *look;
} changes[] = {
    {"last_axis_align_bytes", align_4096, rows_are_aligned},
    {"state_pow2", pow2, the_state_grows},
    {"state_multiple", multiple_128, the_state_grows},
    {"query_slice_rows 5", slices_of_5, attention_is_cut},
    {"query_slice_rows 1", slices_of_1, attention_is_cut},
    {"attention_heads_max 1", heads_of_1, attention_is_cut},
    {"attention_heads_max 4", heads_of_4, attention_is_cut},
    {"output_parts 8", parts_8, the_output_matrix_is_cut},
    {"output_parts 5", parts_5, the_output_matrix_is_cut},
    {"tile_rows, tile_cols", tiles_128, tiles_cost_more},
    {"tile_input_rows", input_tiles_48, tiles_cost_more},
    {"on_chip_bytes 9000", chip_of_9000, operators_spill},
    {"on_chip_bytes 1024", chip_of_1024, operators_spill},
};
enum { CHANGES = sizeof changes / sizeof *changes };

static void one_field(const char *arch, uint32_t npu_ops, const char *recipe)
{
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 3, NULL), BT_OK);
    world w = begin(arch);
    bt_profile p = v75(), host;
    bt_pkg *plain = package(&w, &p, npu_ops, recipe);
    const bits should = run(&w, plain, NULL, NULL);
    assert_int_equal(bt_profile_load(&host, NULL, NULL), BT_OK);
    bt_pkg *on_host = package(&w, &host, npu_ops, recipe);
    const bits hosts = run(&w, on_host, NULL, NULL);
    assert_same(&w, &should, &hosts);
    for (size_t i = 0; i < CHANGES; i++) {
        p = v75();
        changes[i].change(&p);
        bt_pkg *changed = package(&w, &p, npu_ops, recipe);
        print_message("%s, %s, %s\n", arch, recipe, changes[i].what);
        assert_memory_not_equal(bt_pkg_header_of(plain)->digest, bt_pkg_header_of(changed)->digest, 16);
        changes[i].look(plain, changed, npu_ops);
        const bits is = run(&w, changed, i % 2 ? pool : NULL, i % 3 ? NULL : "ref");
        assert_same(&w, &is, &should);
        free(is.logits);
        bt_pkg_close(changed);
    }
    bt_pkg_close(plain);
    bt_pkg_close(on_host);
    free(should.logits);
    free(hosts.logits);
    end(&w);
    bt_pool_free(pool);
}

static void one_field_changes_the_package_and_no_bit_with_float_operators(void **state)
{
    (void)state;
    one_field("llama", BT_PKG_OPS_LINEAR, "w8a8");
    one_field("qwen3", BT_PKG_OPS_LINEAR, "w4a16:no-gptq");
}

static void one_field_changes_the_package_and_no_bit_with_integer_operators(void **state) /* AC-g3 */
{
    (void)state;
    one_field("qwen3", BT_PKG_OPS_ALL, "w8a8");
    one_field("qwen2", BT_PKG_OPS_ALL, "w8a16:no-r2");
}

static void all_fields_together_and_llm_int8_change_no_bit(void **state)
{
    (void)state;
    static const char *const recipes[] = {"w8a8", "w8a8:llm-int8,no-rotate", "w8a8:a16=down,shadow=channel"};
    world w = begin("llama");
    for (size_t r = 0; r < 3; r++) {
        bt_profile p = v75();
        bt_pkg *plain = package(&w, &p, BT_PKG_OPS_LINEAR, recipes[r]);
        for (size_t i = 0; i < CHANGES; i++) changes[i].change(&p);
        p.op[BT_OP_LINEAR] = BT_PROFILE_INT8; /* with a16=down, that falls back */
        bt_pkg *all = package(&w, &p, BT_PKG_OPS_LINEAR, recipes[r]);
        p = v75();
        p.op[BT_OP_LINEAR] = BT_PROFILE_INT8;
        bt_pkg *same = package(&w, &p, BT_PKG_OPS_LINEAR, recipes[r]);
        const bits should = run(&w, same, NULL, NULL), is = run(&w, all, NULL, NULL);
        assert_same(&w, &is, &should);
        free(should.logits);
        free(is.logits);
        bt_pkg_close(plain);
        bt_pkg_close(all);
        bt_pkg_close(same);
    }
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_field_changes_the_package_and_no_bit_with_float_operators),
        cmocka_unit_test(one_field_changes_the_package_and_no_bit_with_integer_operators),
        cmocka_unit_test(all_fields_together_and_llm_int8_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
