/* The effects of a profile's contexts, windows and probes on a package, compiled and run: each test compiles
 * with the field and without, sees the difference in the package and in what was counted, and the same KV as
 * with no limits. Counts are computed again here, position by position. */
#include "npu/compile/compile.h"
#include "base/file.h"
#include "npu/lower/plan.h"
#include "npu/pkg/pkg.h"
#include "npu/price/stage_cost.h"
#include "engine/prefill.h"
#include "tests/helpers/model/engine_kit.h"
#include "tests/helpers/model/npu_kit.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 1024, TOKENS = 700, CALIB = 160 };

typedef struct world {
    engine_kit kit;
    int32_t calib[CALIB], ids[TOKENS];
    char path[64], list[64];
} world;

static int begin(void **state)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->kit = engine_kit_model("qwen3");
    strcpy(w->path, "/tmp/test_devices.XXXXXX");
    strcpy(w->list, "/tmp/test_devices.XXXXXX");
    close(mkstemp(w->path));
    close(mkstemp(w->list));
    engine_kit_ids(w->calib, CALIB, w->kit.model, 21);
    engine_kit_ids(w->ids, TOKENS, w->kit.model, 22);
    *state = w;
    return 0;
}

static int end(void **state)
{
    world *w = *state;
    unlink(w->path);
    unlink(w->list);
    engine_kit_done(&w->kit);
    free(w);
    return 0;
}

/* A device without limits but those of `fields`. */
static bt_profile device(const char *fields)
{
    char json[1024];
    bt_profile p;
    bt_fault f = {""};
    const int n =
        snprintf(json, sizeof json,
                 "{\"name\":\"mine\",\"title\":\"Mine\",\"operators\":{\"linear\":[\"int8\",\"int16\"],"
                 "\"others\":[\"int16\"]}%s%s}",
                 fields[0] ? "," : "", fields);
    if (bt_profile_parse(&p, json, (size_t)n, &f) < 0) fail_msg("%s: %s", fields, f.text);
    return p;
}

static bt_err compile(bt_pkg **ret, const world *w, const char *fields, const char *policy, uint32_t npu_ops,
                      size_t ctx, bt_fault *f)
{
    const bt_profile p = device(fields);
    bt_compile_options o = {.shape_policy = policy, .profile = &p,         .npu_ops = npu_ops,
                            .ctx_tokens = ctx,      .calib_ids = w->calib, .calib_len = CALIB};
    assert_int_equal(bt_recipe_parse(&o.recipe, "w8a8", NULL), BT_OK);
    bt_err e = bt_compile(w->path, w->kit.model, &o, NULL, f);
    return e < 0 ? e : bt_pkg_open(ret, w->path, f);
}

static bt_pkg *made(const world *w, const char *fields, const char *policy, uint32_t npu_ops)
{
    bt_pkg *p = NULL;
    bt_fault f = {""};
    if (compile(&p, w, fields, policy, npu_ops, CTX, &f) < 0) fail_msg("%s: %s", fields, f.text);
    return p;
}

/* The digest of the KV of the first n tokens, and what was counted. */
static uint64_t run(const world *w, const bt_pkg *p, size_t n, bt_report_work *work)
{
    bt_prefill *e = npu_kit_engine(w->kit.model, p, CTX, NULL, NULL, 2);
    bt_kv_view kv = engine_kit_pages(w->kit.model, n, 16, 2);
    bt_fault f = {""};
    float *logits = engine_kit_floats(w->kit.model->hp.vocab);
    if (bt_prefill_run(e, &kv, w->ids, n, 0, NULL, logits, BT_PREFILL_LAST, &f) < 0) fail_msg("%s", f.text);
    free(logits);
    const uint64_t hash = engine_kit_hash(&kv, n);
    *work = bt_prefill_work(e);
    engine_kit_pages_free(&kv);
    bt_prefill_free(e);
    return hash;
}

static uint64_t file_bytes(const bt_pkg *p) { return bt_pkg_header_of(p)->file_bytes; }

static bool same_programs(const bt_pkg *a, uint32_t pa, const bt_pkg *b, uint32_t pb)
{
    const bt_pkg_program *x = &bt_pkg_programs(a)[pa], *y = &bt_pkg_programs(b)[pb];
    return x->insts == y->insts && x->places == y->places && x->arena_bytes == y->arena_bytes &&
           !memcmp(bt_pkg_code(a, pa), bt_pkg_code(b, pb), x->insts * sizeof(bt_pkg_inst)) &&
           !memcmp(bt_pkg_plan(a, pa), bt_pkg_plan(b, pb), x->places * sizeof(bt_pkg_place));
}

/* ---- contexts ---- */

static void each_static_context_has_programs_of_its_own_that_are_the_same_instructions(void **state)
{
    const world *w = *state;
    for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
        bt_pkg *plain = made(w, "", "chunk:32+tail", ops),
               *own = made(w, "\"static_ctx\":true", "chunk:32+tail", ops);
        assert_int_equal(bt_pkg_header_of(plain)->rows.count, 4);
        assert_int_equal(bt_pkg_header_of(own)->rows.count, 4);
        assert_int_equal(bt_pkg_header_of(plain)->programs.count, 6);
        assert_int_equal(bt_pkg_header_of(own)->programs.count, 12);
        for (uint32_t i = 0; i < 4; i++)
            for (int o = 0; o < BT_PKG_OUTS; o++) {
                const uint32_t a = bt_pkg_rows(plain)[i].program[o], b = bt_pkg_rows(own)[i].program[o];
                assert_int_equal(bt_pkg_programs(plain)[a].ctx, 0);
                assert_int_equal(bt_pkg_programs(own)[b].ctx, bt_pkg_rows(own)[i].ctx);
                if (ops == BT_PKG_OPS_LINEAR) assert_true(same_programs(plain, a, own, b));
            }
        bt_pkg_close(plain);
        bt_pkg_close(own);
    }
}

/* 700 = 21 * 32 + 28, which is padded to 32. Chunks that end within 512 run in that context, later ones in
 * 1024. */
static void masked_columns_are_counted_and_change_no_bit(void **state)
{
    const world *w = *state;
    const bt_hparams *hp = &w->kit.model->hp;
    for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
        bt_pkg *plain = made(w, "", "chunk:32+tail", ops),
               *own = made(w, "\"static_ctx\":true", "chunk:32+tail", ops);
        bt_report_work a, b;
        const uint64_t want = run(w, plain, TOKENS, &a);
        assert_true(run(w, own, TOKENS, &b) == want);
        uint64_t columns = 0;
        for (uint64_t t = 0; t < TOKENS; t++) columns += (t < 512 ? 512 : 1024) - (t + 1);
        assert_int_equal(a.masked_macs, 0);
        /* The companion is not static in its context. */
        const bool on_npu = ops == BT_PKG_OPS_ALL;
        assert_true(b.masked_macs == on_npu * columns * 2 * hp->layers * hp->heads * hp->head_dim);
        assert_true(a.npu_macs == b.npu_macs && a.companion_macs == b.companion_macs && a.rows == b.rows);
        /* One context wastes more than two. */
        FILE *f = fopen(w->list, "w");
        assert_non_null(f);
        fputs("[[16, 1024], [32, 1024]]", f);
        assert_int_equal(fclose(f), 0);
        char policy[96];
        snprintf(policy, sizeof policy, "enumerated:%s", w->list);
        bt_pkg *one = made(w, "\"static_ctx\":true", policy, ops);
        assert_true(run(w, one, TOKENS, &a) == want);
        assert_true(on_npu ? a.masked_macs > b.masked_macs : !a.masked_macs);
        bt_pkg_close(one);
        bt_pkg_close(plain);
        bt_pkg_close(own);
    }
}

/* ---- windows ---- */

enum { WINDOW = 70, CHUNK = 32, SEEN = WINDOW + CHUNK - 1 };

static world windowed(const world *of, const char *arch)
{
    world w = *of;
    tiny_gguf_spec s = tiny_gguf_default();
    s.arch = arch;
    s.layers = 7; /* gemma3: the sixth sees all */
    s.ctx = CTX;
    s.window = WINDOW;
    w.kit = engine_kit_of(&s);
    engine_kit_ids(w.calib, CALIB, w.kit.model, 21);
    engine_kit_ids(w.ids, TOKENS, w.kit.model, 22);
    return w;
}

/* Attention of window layers has columns of its own in every static context, and the masked ones are those
 * that rows do not see of them. No bit changes. */
static void window_layers_compute_the_columns_of_window_and_chunk_alone(void **state)
{
    static const char *const archs[] = {"llama", "gemma3"};
    for (size_t a = 0; a < 2; a++) {
        world w = windowed(*state, archs[a]);
        const bt_hparams *hp = &w.kit.model->hp;
        const uint64_t windows = a ? 6 : 7, of_pair = 2ull * hp->heads * hp->head_dim;
        bt_pkg *plain = made(&w, "", "chunk:32+tail", BT_PKG_OPS_ALL),
               *own = made(&w, "\"static_ctx\":true", "chunk:32+tail", BT_PKG_OPS_ALL);
        bt_report_work without, with;
        assert_true(run(&w, plain, TOKENS, &without) == run(&w, own, TOKENS, &with));
        uint64_t masked = 0;
        for (uint64_t t = 0; t < TOKENS; t++)
            masked += windows * (SEEN - (t + 1 < WINDOW ? t + 1 : WINDOW)) +
                      (hp->layers - windows) * ((t < 512 ? 512 : 1024) - (t + 1));
        assert_int_equal(without.masked_macs, 0);
        assert_true(with.masked_macs == masked * of_pair);
        bt_pkg_close(plain);
        bt_pkg_close(own);
        engine_kit_done(&w.kit);
    }
}

/* A chunk's attention of a window layer costs, and takes on the chip, what it does in any context; that of a
 * layer that sees all grows with it. */
static void prices_and_fit_of_window_layers_know_no_context(void **state)
{
    world w = windowed(*state, "gemma3");
    bt_pkg *p = made(&w, "\"static_ctx\":true", "chunk:32+tail", BT_PKG_OPS_ALL);
    const bt_pkg_header *h = bt_pkg_header_of(p);
    bt_profile npu;
    bt_fault f = {""};
    if (bt_profile_load(&npu, "hexagon-v75", &f) < 0) fail_msg("%s", f.text);
    const bt_stage_engines engines = {&npu, &npu, 16};
    uint64_t ns[2][2] = {{0}}, bands[2][2] = {{0}}; /* by context; of window layers, of others */
    for (uint32_t c = 0; c < 2; c++) {
        const bt_pkg_row *row = NULL;
        for (uint32_t i = 0; i < h->rows.count; i++)
            if (bt_pkg_rows(p)[i].seq == CHUNK && bt_pkg_rows(p)[i].ctx == (c ? 1024 : 512))
                row = &bt_pkg_rows(p)[i];
        assert_non_null(row);
        const uint32_t program = row->program[BT_PKG_OUT_NONE];
        const bt_stage_chunk chunk = {.pos = 480, .rows = CHUNK, .ctx = row->ctx};
        for (uint32_t i = 0; i < bt_pkg_programs(p)[program].insts; i++) {
            const bt_pkg_inst *in = &bt_pkg_code(p, program)[i];
            bt_on_chip_op op;
            if (in->op != BT_PKG_INT_ATTENTION) continue;
            const bool is_global = bt_pkg_window(h, in->layer) == 0;
            assert_true(is_global == (in->layer == 5));
            assert_true(bt_plan_on_chip_op(&op, h, bt_pkg_tensors(p), &bt_pkg_programs(p)[program], in,
                                           row->ctx));
            bands[c][is_global] = op.bands;
            ns[c][is_global] = bt_stage_inst_cost(&engines, p, program, in, &chunk).ns;
        }
    }
    assert_true(bands[0][0] == SEEN && bands[1][0] == SEEN && bands[0][1] == 512 && bands[1][1] == 1024);
    assert_true(ns[0][0] == ns[1][0] && ns[0][1] < ns[1][1] && ns[0][0] < ns[0][1]);
    bt_pkg_close(p);
    engine_kit_done(&w.kit);
}

static void another_context_costs_less_than_two_hundredths_of_the_file(void **state)
{
    const world *w = *state;
    FILE *f = fopen(w->list, "w");
    assert_non_null(f);
    fputs("[[16, 1024], [32, 1024]]", f);
    assert_int_equal(fclose(f), 0);
    char policy[96];
    snprintf(policy, sizeof policy, "enumerated:%s", w->list);
    for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
        bt_pkg *one = made(w, "\"static_ctx\":true", policy, ops),
               *two = made(w, "\"static_ctx\":true", "chunk:32+tail", ops);
        assert_true((double)file_bytes(two) < 1.02 * (double)file_bytes(one));
        assert_true(file_bytes(two) > file_bytes(one));
        bt_pkg_close(one);
        bt_pkg_close(two);
    }
}

/* ---- sessions ---- */

/* The switches that a device would make, instruction by instruction: every NPU instruction in a session that
 * is mapped. */
static uint32_t count_switches(const bt_pkg *p, uint32_t program, uint32_t cost_ns)
{
    const bt_pkg_inst *i = bt_pkg_code(p, program);
    const uint32_t layers = bt_pkg_header_of(p)->layers;
    uint32_t n = 0, mapped = UINT32_MAX, part = 0;
    for (uint32_t k = 0; k < bt_pkg_programs(p)[program].insts; k++) {
        if (i[k].op == BT_PKG_SESSION) {
            assert_int_equal(i[k].params, cost_ns);
            mapped = i[k].arg;
            n++;
            continue;
        }
        part = i[k].layer != UINT32_MAX ? i[k].layer : part == 0 && k < 4 ? 0 : layers;
        if (i[k].unit != BT_PKG_NPU) continue;
        assert_true(mapped < bt_pkg_header_of(p)->sessions.count);
        assert_in_range(part, bt_pkg_sessions(p)[mapped].first_layer, bt_pkg_sessions(p)[mapped].last_layer);
    }
    return n;
}

/* The smallest window that holds every part alone: what the refusal proposes. */
static uint64_t smallest_window(const world *w, uint32_t ops)
{
    bt_fault f = {""};
    bt_pkg *p = NULL;
    unsigned long long bytes = 0;
    assert_int_equal(compile(&p, w, "\"map_window_bytes\":4096", "chunk:32+tail", ops, CTX, &f), BT_ELIMIT);
    const char *at = strstr(f.text, "the smallest window that would do is ");
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen("the smallest window that would do is "), "%llu", &bytes), 1);
    return bytes;
}

static void a_window_splits_the_program_and_each_switch_is_counted_with_its_cost(void **state)
{
    const world *w = *state;
    enum { COST_NS = 250000 };
    for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
        char fields[128];
        bt_report_work a, b;
        const uint64_t window = smallest_window(w, ops);
        snprintf(fields, sizeof fields, "\"map_window_bytes\":%" PRIu64 ",\"session_switch_ns\":%d", window,
                 COST_NS);
        bt_pkg *plain = made(w, "", "chunk:32+tail", ops), *split = made(w, fields, "chunk:32+tail", ops);
        const bt_pkg_session *s = bt_pkg_sessions(split);
        const uint32_t n = bt_pkg_header_of(split)->sessions.count;
        assert_int_equal(bt_pkg_header_of(plain)->sessions.count, 1);
        assert_true(n >= 2);
        for (uint32_t i = 0; i < n; i++) assert_true(s[i].mapped_bytes <= window);
        for (uint32_t i = 0; i < bt_pkg_header_of(split)->programs.count; i++) {
            const bool reaches_head =
                bt_pkg_programs(split)[i].out > 0 || s[n - 1].first_layer < w->kit.model->hp.layers;
            assert_int_equal(count_switches(split, i, COST_NS), reaches_head ? n : n - 1);
        }
        /* 700 tokens: 21 chunks of 32 without logits, one of 28 rows in 32 with them. The first session is
           mapped when the package is loaded. */
        const uint64_t want = run(w, plain, TOKENS, &a);
        assert_true(run(w, split, TOKENS, &b) == want);
        const uint64_t chunks = b.rows / 32,
                       each = s[n - 1].first_layer < w->kit.model->hp.layers ? n : n - 1;
        assert_int_equal(b.rows % 32, 0);
        assert_int_equal(a.session_switches, 0);
        assert_true(b.session_switches == (chunks - 1) * each + n - 1);
        assert_true(b.session_switch_ns == b.session_switches * COST_NS);
        bt_pkg_close(plain);
        bt_pkg_close(split);
        /* one byte less is refused, with the layer and both numbers */
        bt_fault f = {""};
        bt_pkg *p = NULL;
        snprintf(fields, sizeof fields, "\"map_window_bytes\":%" PRIu64, window - 1);
        assert_int_equal(compile(&p, w, fields, "chunk:32+tail", ops, CTX, &f), BT_ELIMIT);
        snprintf(fields, sizeof fields, "%" PRIu64, window);
        assert_non_null(strstr(f.text, fields));
    }
}

static void a_window_and_static_contexts_go_together(void **state)
{
    const world *w = *state;
    char fields[128];
    bt_report_work a, b;
    const uint64_t window = smallest_window(w, BT_PKG_OPS_ALL);
    snprintf(fields, sizeof fields, "\"map_window_bytes\":%" PRIu64 ",\"static_ctx\":true", window);
    bt_pkg *plain = made(w, "", "chunk:32+tail", BT_PKG_OPS_ALL),
           *both = made(w, fields, "chunk:32+tail", BT_PKG_OPS_ALL);
    const uint64_t want = run(w, plain, TOKENS, &a);
    assert_true(run(w, both, TOKENS, &b) == want);
    assert_true(b.session_switches > 0 && b.session_switch_ns == 0 && b.masked_macs > 0);
    bt_pkg_close(plain);
    bt_pkg_close(both);
}

/* ---- the built-in devices ---- */

static uint64_t run_on(const world *w, const char *name, uint32_t npu_ops, uint32_t *ret_ops)
{
    bt_profile p;
    bt_pkg *pkg = NULL;
    bt_fault f = {""};
    bt_report_work work;
    assert_int_equal(bt_profile_load(&p, name, NULL), BT_OK);
    bt_compile_options o = {
        .shape_policy = "chunk:64+tail", .profile = &p,     .npu_ops = npu_ops, .ctx_tokens = CTX,
        .calib_ids = w->calib,           .calib_len = CALIB};
    assert_int_equal(bt_recipe_parse(&o.recipe, "w8a8:no-asym", NULL), BT_OK);
    if (bt_compile(w->path, w->kit.model, &o, NULL, &f) < 0 || bt_pkg_open(&pkg, w->path, &f) < 0)
        fail_msg("%s: %s", name, f.text);
    *ret_ops = bt_pkg_header_of(pkg)->npu_ops;
    assert_int_equal(bt_pkg_programs(pkg)[0].ctx != 0, p.static_ctx);
    const uint64_t hash = run(w, pkg, TOKENS, &work);
    assert_int_equal(work.masked_macs != 0, p.static_ctx && npu_ops == BT_PKG_OPS_ALL);
    bt_pkg_close(pkg);
    return hash;
}

static void linears_in_integers_give_the_bits_of_host_on_every_device(void **state)
{
    const world *w = *state;
    uint32_t ops;
    const uint64_t want = run_on(w, "host", BT_PKG_OPS_LINEAR, &ops);
    for (size_t i = 0; bt_profile_name(i); i++) {
        bt_profile p;
        assert_int_equal(bt_profile_load(&p, bt_profile_name(i), NULL), BT_OK);
        if (p.companion) continue;
        if (run_on(w, p.name, BT_PKG_OPS_LINEAR, &ops) != want) fail_msg("%s", p.name);
        assert_int_equal(ops, BT_PKG_OPS_LINEAR);
    }
}

static void every_operator_in_integers_gives_the_bits_of_host_on_each_hexagon(void **state)
{
    const world *w = *state;
    static const char *const names[] = {"hexagon-v73", "hexagon-v75", "hexagon-v79", "hexagon-x-elite"};
    uint32_t ops;
    const uint64_t want = run_on(w, "host", BT_PKG_OPS_ALL, &ops);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (run_on(w, names[i], BT_PKG_OPS_ALL, &ops) != want) fail_msg("%s", names[i]);
        assert_int_equal(ops, BT_PKG_OPS_ALL);
    }
}

/* ---- shapes ---- */

static void a_refused_shape_has_no_row_and_its_chunks_run_in_the_next(void **state) /* AC-a1 */
{
    const world *w = *state;
    static const char fields[] = "\"static_ctx\":true,\"refused_shapes\":[[16,512],[32,1024]]";
    bt_pkg *plain = made(w, "", "chunk:64+tail", BT_PKG_OPS_LINEAR),
           *less = made(w, fields, "chunk:64+tail", BT_PKG_OPS_LINEAR);
    const bt_pkg_row *row = NULL;
    bt_fault f = {""};
    bt_report_work a, b;
    assert_int_equal(bt_pkg_header_of(plain)->rows.count, 6);
    assert_int_equal(bt_pkg_header_of(less)->rows.count, 4);
    assert_int_equal(bt_pkg_find_row(&row, less, 1, 16, 20, NULL), BT_OK);
    assert_int_equal(row->ctx, 1024);
    assert_int_equal(bt_pkg_find_row(&row, less, 1, 32, 600, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "the nearest has batch 1, seq 32, ctx 512"));
    for (size_t n = 1; n <= TOKENS; n += 43) {
        const uint64_t want = run(w, plain, n, &a);
        assert_true(run(w, less, n, &b) == want);
        assert_true(b.rows >= a.rows);
    }
    bt_pkg_close(plain);
    bt_pkg_close(less);
}

/* Rows for 512 positions in a package for 1,024. */
static void a_prompt_that_no_shape_holds_is_refused_before_anything_is_computed(void **state) /* AC-a1 */
{
    const world *w = *state;
    char policy[96];
    FILE *file = fopen(w->list, "w");
    assert_non_null(file);
    fputs("[[16, 512], [32, 512]]", file);
    assert_int_equal(fclose(file), 0);
    snprintf(policy, sizeof policy, "enumerated:%s", w->list);
    bt_pkg *p = made(w, "", policy, BT_PKG_OPS_LINEAR);
    bt_prefill *e = npu_kit_engine(w->kit.model, p, CTX, NULL, NULL, 2);
    bt_kv_view kv = engine_kit_pages(w->kit.model, TOKENS, 16, 2);
    float *logits = engine_kit_floats(w->kit.model->hp.vocab);
    bt_fault f = {""};
    assert_int_equal(bt_prefill_run(e, &kv, w->ids, 513, 0, NULL, logits, BT_PREFILL_LAST, &f), BT_ELIMIT);
    if (!strstr(f.text, "ctx 513; the nearest has batch 1, seq 16, ctx 512")) fail_msg("%s", f.text);
    assert_true(engine_kit_untouched(&kv, 0, TOKENS));
    assert_int_equal(bt_prefill_work(e).rows, 0);
    assert_int_equal(bt_prefill_run(e, &kv, w->ids, 512, 0, NULL, logits, BT_PREFILL_LAST, &f), BT_OK);
    assert_int_equal(bt_prefill_run(e, &kv, w->ids + 512, 1, 512, NULL, logits, BT_PREFILL_LAST, &f),
                     BT_ELIMIT);
    free(logits);
    engine_kit_pages_free(&kv);
    bt_prefill_free(e);
    bt_pkg_close(p);
}

static bt_err compile_list(const world *w, const char *json, bt_fault *f)
{
    char policy[96];
    bt_pkg *p = NULL;
    FILE *file = fopen(w->list, "w");
    assert_non_null(file);
    fputs(json, file);
    assert_int_equal(fclose(file), 0);
    snprintf(policy, sizeof policy, "enumerated:%s", w->list);
    const bt_err e = compile(&p, w, "", policy, BT_PKG_OPS_LINEAR, CTX, f);
    bt_pkg_close(p);
    return e;
}

static void enumerated_shapes_are_matched_by_index(void **state) /* AC-g1 */
{
    const world *w = *state;
    char json[4096] = "[";
    bt_fault f = {""};
    for (int i = 1; i <= 129; i++) snprintf(json + strlen(json), 16, "%s%d", i > 1 ? "," : "", i);
    strcat(json, "]");
    assert_int_equal(compile_list(w, json, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "at most 128 are allowed"));
    assert_int_equal(compile_list(w, "{\"a\":[16,32],\"b\":[16]}", &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "they are matched by index"));
    assert_int_equal(compile_list(w, "{\"a\":[16,32],\"b\":[[32,512],[16,512]]}", &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "shapes are matched by index"));
    assert_int_equal(compile_list(w, "{\"a\":[16,32],\"b\":[[16,512],[32,1024]]}", &f), BT_OK);
    bt_pkg *p = NULL;
    const bt_pkg_row *row = NULL;
    assert_int_equal(bt_pkg_open(&p, w->path, NULL), BT_OK);
    assert_int_equal(bt_pkg_header_of(p)->rows.count, 2);
    assert_int_equal(bt_pkg_find_row(&row, p, 1, 32, 1024, NULL), BT_OK);
    assert_int_equal(bt_pkg_find_row(&row, p, 1, 16, 600, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "the nearest has batch 1, seq 16, ctx 512"));
    bt_pkg_close(p);
}

static void what_no_plan_can_satisfy_is_refused_before_anything_is_computed(void **state)
{
    const world *w = *state;
    static const char *const bad[][3] = {
        {"\"max_rows\":20", "chunk:32+tail", "--shape-policy chunk:16+tail"},
        {"\"range_shapes\":false", "range:1-48", "--shape-policy chunk:48"},
        {"\"max_shapes\":3", "chunk:32+tail", "--shape-policy chunk:32 has 2"},
        {"\"static_ctx\":true,\"refused_shapes\":[[32,512],[32,1024]]", "chunk:32",
         "--shape-policy chunk:64"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_fault f = {""};
        bt_pkg *p = NULL;
        assert_int_equal(compile(&p, w, bad[i][0], bad[i][1], BT_PKG_OPS_LINEAR, CTX, &f), BT_EARG);
        if (!strstr(f.text, bad[i][2])) fail_msg("%s: %s", bad[i][0], f.text);
        bt_pkg_close(made(w, bad[i][0],
                          i == 0   ? "chunk:16+tail"
                          : i == 1 ? "chunk:48"
                          : i == 2 ? "chunk:32"
                                   : "chunk:64",
                          BT_PKG_OPS_LINEAR));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_static_context_has_programs_of_its_own_that_are_the_same_instructions),
        cmocka_unit_test(masked_columns_are_counted_and_change_no_bit),
        cmocka_unit_test(window_layers_compute_the_columns_of_window_and_chunk_alone),
        cmocka_unit_test(prices_and_fit_of_window_layers_know_no_context),
        cmocka_unit_test(another_context_costs_less_than_two_hundredths_of_the_file),
        cmocka_unit_test(a_window_splits_the_program_and_each_switch_is_counted_with_its_cost),
        cmocka_unit_test(a_window_and_static_contexts_go_together),
        cmocka_unit_test(linears_in_integers_give_the_bits_of_host_on_every_device),
        cmocka_unit_test(every_operator_in_integers_gives_the_bits_of_host_on_each_hexagon),
        cmocka_unit_test(a_refused_shape_has_no_row_and_its_chunks_run_in_the_next),
        cmocka_unit_test(a_prompt_that_no_shape_holds_is_refused_before_anything_is_computed),
        cmocka_unit_test(enumerated_shapes_are_matched_by_index),
        cmocka_unit_test(what_no_plan_can_satisfy_is_refused_before_anything_is_computed),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
