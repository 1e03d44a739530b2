/* The layout of a profile, from the compiler to the executor: packages of profiles that differ from
 * hexagon-v75 in one field differ as the field says, and compute the same bits. */
#include "npu/lower/plan.h"
#include "engine/prefill.h"
#include "npu/compile/compile.h"
#include "npu/lower/lower.h"
#include "npu/pkg/pkg_layout.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"

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
static uint32_t index_of(const bt_pkg *p) { return (uint32_t)(program_of(p) - bt_pkg_programs(p)); }
static const bt_pkg_inst *code_of(const bt_pkg *p) { return bt_pkg_code(p, index_of(p)); }
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
    return bt_plan_row_padding(program_of(p), code_of(p), bt_pkg_plan(p, index_of(p)));
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
    assert_true(bt_plan_on_chip(lines, &total, p, index_of(p), CTX) > 0);
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

/* With inputs as host has them. One whose linears write 8 bits computes others: test_compiled_linear.c has
 * those. */
static void every_built_in_profile_computes_the_bits_of_host(void **state)
{
    (void)state;
    size_t compared = 0;
    world w = begin("llama");
    bt_pkg *host = package(&w, NULL, BT_PKG_OPS_LINEAR, "w8a8");
    const bits should = run(&w, host, NULL, NULL);
    for (size_t i = 0; bt_profile_name(i); i++) {
        bt_profile p;
        assert_int_equal(bt_profile_load(&p, bt_profile_name(i), NULL), BT_OK);
        if (p.companion || p.output_bits == 8) continue; /* nothing is compiled for it; or other numbers */
        bt_pkg *pkg = package(&w, &p, BT_PKG_OPS_LINEAR, "w8a8:no-asym");
        const bits is = run(&w, pkg, NULL, NULL);
        assert_same(&w, &is, &should);
        compared++;
        free(is.logits);
        bt_pkg_close(pkg);
    }
    assert_true(compared >= 15);
    free(should.logits);
    bt_pkg_close(host);
    end(&w);
}

/* ---- figures by hand ---- */

/* The sum over the programs that a prompt of 75 runs: 32, 32 and the tail of 11 in 16 rows; all logits. */
static void is_counted_apart(const world *w, const bt_profile *p)
{
    bt_pkg *pkg = package(w, p, BT_PKG_OPS_LINEAR, "w8a8");
    const bt_pkg_header *h = bt_pkg_header_of(pkg);
    uint64_t should = 0;
    for (int i = 0; i < 3; i++) {
        const bt_pkg_row *r;
        assert_int_equal(bt_pkg_find_row(&r, pkg, 1, i < 2 ? 32 : 16, N, NULL), BT_OK);
        const bt_pkg_program *g = &bt_pkg_programs(pkg)[r->program[BT_PKG_OUT_ALL]];
        const uint64_t padding =
            bt_plan_tile_padding(&h->layout, g, bt_pkg_code(pkg, r->program[BT_PKG_OUT_ALL]));
        /* q: 96 x 96 is 120 x 120, 32 rows are 48 and 16 are 24; and so on for all seven, and the output
         * matrix */
        const uint64_t rows = i < 2 ? 32 : 16, tall = i < 2 ? 48 : 24;
        const uint64_t layer = tall * (120 * 120 * 2 + 2 * 40 * 120 + 2 * 200 * 120 + 120 * 200) -
                               rows * (96 * 96 * 2 + 2 * 32 * 96 + 2 * 172 * 96 + 96 * 172);
        assert_int_equal(padding, 3 * layer + tall * 400 * 120 - rows * 384 * 96);
        should += padding;
    }
    const bits is = run(w, pkg, NULL, NULL);
    assert_int_equal(is.work.tile_padding_macs, should);
    assert_int_equal(is.work.rows, 80);
    free(is.logits);
    bt_pkg_close(pkg);
}

static void a_run_counts_the_padding_of_tiles_apart_from_that_of_prompts(void **state)
{
    (void)state;
    world w = begin("llama");
    bt_profile p = v75();
    p.tile_rows = p.tile_cols = 40;
    p.tile_input_rows = 24;
    is_counted_apart(&w, &p);
    p.op[BT_OP_LINEAR] = BT_PROFILE_FLOAT16;
    is_counted_apart(&w, &p);
    p = v75();
    p.tile_rows = p.tile_cols = p.tile_input_rows = 0;
    bt_pkg *pkg = package(&w, &p, BT_PKG_OPS_LINEAR, "w8a8");
    const bits is = run(&w, pkg, NULL, NULL);
    assert_int_equal(is.work.tile_padding_macs, 0);
    free(is.logits);
    bt_pkg_close(pkg);
    end(&w);
}

static void a_row_of_one_element_takes_32_times_its_bytes(void **state) /* AC-g2 */
{
    (void)state;
    const bt_hparams hp = {.arch = BT_ARCH_LLAMA, .layers = 1,    .dim = 32,  .ffn = 1, .heads = 2,
                           .kv_heads = 1,         .head_dim = 16, .vocab = 33};
    const bt_pkg_layout layout = {.last_axis_align_bytes = 64};
    uint8_t on_npu[64];
    uint32_t params[64];
    bt_graph *graph;
    bt_lower_in in = {.on_npu = on_npu, .params = params, .layout = &layout, .seq = 9};
    bt_lowered l;
    size_t gates = 0;
    memset(params, 0, sizeof params);
    bt_recipe recipe;
    assert_int_equal(bt_recipe_parse(&recipe, "w8a8:no-rotate", NULL), BT_OK);
    in.recipe = &recipe;
    assert_int_equal(bt_graph_build(&graph, &hp, NULL, NULL), BT_OK);
    in.graph = graph;
    assert_true(graph->ops <= sizeof on_npu);
    for (size_t i = 0; i < graph->ops; i++) on_npu[i] = bt_op_infos[graph->op[i].kind].class != BT_CLASS_EDGE;
    assert_int_equal(bt_lower(&l, &in, NULL), BT_OK);
    for (size_t i = 0; i < l.insts; i++) {
        assert_int_equal(l.inst[i].in_stride % 64, 0);
        if (l.inst[i].op != BT_PKG_INT_LINEAR || l.inst[i].out_width != 1) continue;
        gates++; /* gate and up: one element of s16 */
        assert_int_equal(l.inst[i].out_stride, 32 * 2);
        assert_int_equal(l.inst[i].in_stride, 64);
    }
    assert_int_equal(gates, 2);
    bt_lower_done(&l);
    bt_graph_free(graph);
}

static void the_state_of_a_published_model_has_the_published_dimensions(void **state)
{
    (void)state;
    bt_pkg_header h = {.layers = 10, .kv_heads = 8, .head_dim = 80,
                       .layout = {.state_pow2 = 1, .state_multiple = 32}};
    const uint64_t published[4] = {20, 8, 512, 128};
    bt_plan_state s;
    assert_int_equal(bt_plan_state_of(&s, &h, 512, NULL), BT_OK);
    assert_memory_equal(s.rounded, published, sizeof published);
    assert_int_equal(s.payload_bytes, 20 * 8 * 512 * 80 * 2);
    assert_int_equal(s.bytes, 20 * 8 * 512 * 128 * 2);
    h.layout = (bt_pkg_layout){.state_multiple = 128};
    h.head_dim = 64;
    assert_int_equal(bt_plan_state_of(&s, &h, 1000, NULL), BT_OK);
    assert_int_equal(s.bytes, 20 * 8 * 1000 * 128 * 2);
}

/* 96 x 96 over 32 rows, 8 bits: 3 bands of 32 x 96 bytes, one unit of 32 rows of 128 bytes (planes), outputs
 * of 32 x 32 x 4. A chip that holds one band and the unit keeps the unit; with rows one by one, the weights
 * stay. */
static void each_linear_has_the_loop_order_that_moves_least(void **state)
{
    (void)state;
    world w = begin("llama");
    bt_profile p = v75();
    p.on_chip_bytes = 3072 + 4096 + 4096;
    for (int rows = 0; rows < 2; rows++) {
        p.tile_input_rows = rows ? 1 : 32;
        bt_pkg *pkg = package(&w, &p, BT_PKG_OPS_LINEAR, "w8a8");
        const bt_pkg_header *h = bt_pkg_header_of(pkg);
        for (uint32_t i = 0; i < program_of(pkg)->insts; i++) {
            const bt_pkg_inst *n = &code_of(pkg)[i];
            bt_on_chip_op op;
            const bool is_npu = bt_plan_on_chip_op(&op, h, bt_pkg_tensors(pkg), program_of(pkg), n, CTX);
            assert_int_equal(is_npu, n->op == BT_PKG_LINEAR);
            if (!is_npu) continue;
            const bt_on_chip_plan a = bt_on_chip_in_order(&op, p.on_chip_bytes, BT_ON_CHIP_WEIGHTS_STAY),
                                  b = bt_on_chip_in_order(&op, p.on_chip_bytes, BT_ON_CHIP_INPUTS_STAY);
            assert_int_equal(bt_pkg_order_of(n), bt_on_chip_moved(&b) < bt_on_chip_moved(&a)
                                                     ? BT_PKG_ORDER_INPUTS
                                                     : BT_PKG_ORDER_WEIGHTS);
            if (n->tensor != bt_pkg_tensor_index(h->layers, 0, BT_WEIGHT_Q)) continue;
            assert_int_equal(op.bands, 3);
            assert_int_equal(op.band_bytes, 32 * 96);
            assert_int_equal(op.units, rows ? 32 : 1);
            assert_int_equal(op.unit_bytes, rows ? 128 : 32 * 128);
            assert_int_equal(op.output_bytes, rows ? 32 * 4 : 32 * 32 * 4);
            assert_int_equal(a.blocks, rows ? 2 - 1 : 3); /* (11,264 - 128) / 3,200 = 3 bands; (11,264 -
                                                             4,096) / 7,168 */
            assert_int_equal(bt_pkg_order_of(n), rows ? BT_PKG_ORDER_WEIGHTS : BT_PKG_ORDER_INPUTS);
        }
        bt_pkg_close(pkg);
    }
    end(&w);
}

static void slices_beyond_what_a_program_may_have_are_refused_with_the_field(void **state)
{
    (void)state;
    const bt_hparams hp = {.arch = BT_ARCH_LLAMA, .layers = 8,   .dim = 32,  .ffn = 8, .heads = 8,
                           .kv_heads = 1,         .head_dim = 4, .vocab = 33};
    const bt_pkg_layout layout = {.query_slice_rows = 1, .attention_heads_max = 1};
    static uint8_t on_npu[256];
    bt_recipe recipe;
    bt_graph *graph;
    bt_lowered l;
    bt_fault f = {""};
    assert_int_equal(bt_recipe_parse(&recipe, "w8a8:no-rotate", NULL), BT_OK);
    assert_int_equal(bt_graph_build(&graph, &hp, NULL, NULL), BT_OK);
    for (size_t i = 0; i < graph->ops; i++) on_npu[i] = graph->op[i].kind == BT_OP_ATTENTION;
    const bt_lower_in in = {.graph = graph, .on_npu = on_npu, .recipe = &recipe, .layout = &layout,
                            .seq = 1024};
    assert_int_equal(bt_lower(&l, &in, &f), BT_ELIMIT); /* 1,024 rows x 8 heads x 8 layers are 65,536 alone */
    assert_true(strstr(f.text, "query_slice_rows 1") && strstr(f.text, "1024 rows") &&
                strstr(f.text, "65536"));
    bt_graph_free(graph);
}

/* Attention of the companion in slices of rows and heads: the same bits as whole. */
static void float_attention_in_slices_is_attention(void **state) /* AC-g3 */
{
    (void)state;
    static const bt_pkg_layout layouts[] = {
        {.query_slice_rows = 5},
        {.query_slice_rows = 1},
        {.attention_heads_max = 1},
        {.attention_heads_max = 4},
        {.query_slice_rows = 7, .attention_heads_max = 2, .output_parts = 3, .last_axis_align_bytes = 256},
    };
    bt_pool *pool;
    assert_int_equal(bt_pool_new(&pool, 3, NULL), BT_OK);
    world w = begin("qwen2");
    npu_kit_options o = {.policy = "chunk:32+tail", .ctx_tokens = CTX, .fall_back = true};
    bt_pkg *plain = npu_kit_package(w.kit.model, &o);
    const bits should = run(&w, plain, NULL, NULL);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        o.layout = &layouts[i];
        bt_pkg *cut = npu_kit_package(w.kit.model, &o);
        const bt_pkg_header *h = bt_pkg_header_of(cut);
        assert_int_equal(count(cut, BT_PKG_ATTENTION),
                         h->layers * bt_pkg_layout_slices(&h->layout, 32, h->heads));
        assert_int_equal(program_of(cut)->activation_bytes_moved > program_of(plain)->activation_bytes_moved,
                         layouts[i].output_parts > 1); /* slices move what the whole does */
        for (int threads = 0; threads < 2; threads++) {
            const bits is = run(&w, cut, threads ? pool : NULL, threads ? NULL : "ref");
            assert_same(&w, &is, &should);
            free(is.logits);
        }
        bt_pkg_close(cut);
    }
    bt_pkg_close(plain);
    free(should.logits);
    end(&w);
    bt_pool_free(pool);
}

/* A program of 8 rows, instruction by instruction: what a row reads, what it makes, what stays. By hand. */
static void row_by_row_operators_have_all_they_read_and_write_on_the_chip(void **state)
{
    (void)state;
    static const bt_pkg_header h = {.heads = 4, .kv_heads = 2, .head_dim = 16, .rope_dims = 16,
                                    .r2 = {.base = 4, .log2 = 2, .sign = 9}};
    static const bt_pkg_tensor tensors[] = {{.n = 64, .k = 64, .bits = 8}, {.n = 64, .k = 1, .bits = 32}};
    static const bt_pkg_program program = {.seq = 8, .out = 1};
    enum { NO = -1 };
    static const struct {
        uint8_t op;
        bool has_in1;
        int tensor;
        uint32_t arg, in_stride, out_stride;
        uint64_t band, unit, output;
    } of[] = {
        {BT_PKG_INT_ADD, true, 0, 0, 128, 256, 0, 256 + 128, 256}, /* s32 in place += s16 */
        {BT_PKG_INT_SPLIT, true, NO, 0, 256, 64, 0, 256, 64 + 64}, /* s32 to both planes */
        {BT_PKG_INT_SPLIT, false, NO, 0, 256, 64, 0, 256, 64},     /* to one */
        {BT_PKG_INT_SILU_MUL, true, NO, 0, 128, 256, 0, 128 + 128, 256},
        {BT_PKG_INT_RMSNORM, false, 1, 0, 256, 256, 64 * 4, 256, 256},
        {BT_PKG_INT_ROPE, false, NO, 4, 128, 128, 0, 128 + 2 * 8 * 2, 128}, /* 8 cosines, 8 sines */
        {BT_PKG_INT_ROTATE, false, NO, 2, 128, 256, 4 * 4 + 16, 128, 256},  /* a matrix, 16 signs */
        {BT_PKG_INT_ROTATE, false, NO, 0, 128, 256, 0, 128, 256},           /* no rotation */
    };
    for (size_t n = 0; n < sizeof of / sizeof *of; n++) {
        const bt_pkg_inst i = {.op = of[n].op,
                               .unit = BT_PKG_NPU,
                               .tensor = of[n].tensor == NO ? BT_PKG_NONE : (uint32_t)of[n].tensor,
                               .arg = of[n].arg,
                               .in1 = of[n].has_in1 ? 4096 : BT_PKG_NOWHERE,
                               .in_stride = of[n].in_stride,
                               .out_stride = of[n].out_stride};
        bt_on_chip_op op;
        assert_true(bt_plan_on_chip_op(&op, &h, tensors, &program, &i, CTX));
        assert_true(op.bands == 1 && op.units == 8 && !op.is_sum);
        assert_int_equal(op.band_bytes, of[n].band);
        assert_int_equal(op.unit_bytes, of[n].unit);
        assert_int_equal(op.output_bytes, of[n].output);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_field_changes_the_package_and_no_bit_with_float_operators),
        cmocka_unit_test(one_field_changes_the_package_and_no_bit_with_integer_operators),
        cmocka_unit_test(all_fields_together_and_llm_int8_change_no_bit),
        cmocka_unit_test(every_built_in_profile_computes_the_bits_of_host),
        cmocka_unit_test(float_attention_in_slices_is_attention),
        cmocka_unit_test(slices_beyond_what_a_program_may_have_are_refused_with_the_field),
        cmocka_unit_test(a_row_of_one_element_takes_32_times_its_bytes),
        cmocka_unit_test(a_run_counts_the_padding_of_tiles_apart_from_that_of_prompts),
        cmocka_unit_test(the_state_of_a_published_model_has_the_published_dimensions),
        cmocka_unit_test(each_linear_has_the_loop_order_that_moves_least),
        cmocka_unit_test(row_by_row_operators_have_all_they_read_and_write_on_the_chip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
