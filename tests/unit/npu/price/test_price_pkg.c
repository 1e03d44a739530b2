/* A package's price: compiled from a small model, its parts computed again here from what its programs say;
 * what a profile's fields add, with and without them. */
#include "npu/price/price_pkg.h"
#include "npu/compile/compile.h"
#include "npu/pkg/pkg_layout.h"
#include "npu/price/stage_cost.h"
#include "tests/helpers/model/engine_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { CTX = 1024, CALIB = 128 };

typedef struct world {
    engine_kit kit;
    int32_t calib[CALIB];
    char path[64];
} world;

static int begin(void **state)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->kit = engine_kit_model("qwen3");
    strcpy(w->path, "/tmp/test_price_pkg.XXXXXX");
    close(mkstemp(w->path));
    engine_kit_ids(w->calib, CALIB, w->kit.model, 21);
    *state = w;
    return 0;
}

static int end(void **state)
{
    world *w = *state;
    unlink(w->path);
    engine_kit_done(&w->kit);
    free(w);
    return 0;
}

#define TIME \
    "\"time\":{\"stack\":\"s\",\"f16_ops_per_us\":1000000,\"memory_bytes_per_us\":10000,\"op_launch_ns\":" \
    "700%s}"

static bt_profile device(const char *fields, const char *in_time)
{
    char json[2048], time[512];
    bt_profile p;
    bt_fault f = {""};
    snprintf(time, sizeof time, TIME, in_time);
    const int n =
        snprintf(json, sizeof json,
                 "{\"name\":\"mine\",\"title\":\"Mine\",\"operators\":{\"linear\":[\"int8\",\"int16\"],"
                 "\"norm\":[\"int8\"],\"rotary\":[\"int8\"],\"sum\":[\"int8\"],"
                 "\"activation\":[\"int8\"],\"rotation\":[\"int16\"]%s},%s}",
                 fields, time);
    if (bt_profile_parse(&p, json, (size_t)n, &f) < 0) fail_msg("%s %s: %s", fields, in_time, f.text);
    return p;
}
#define NO_ATTENTION   ""
#define WITH_ATTENTION ",\"attention\":[\"int8\",\"int16\"]"
#define LIMITS(field)  WITH_ATTENTION "}," field ",\"sources\":{"

static bt_pkg *compiled(const world *w, const bt_profile *p, uint32_t npu_ops)
{
    bt_compile_options o = {.shape_policy = "chunk:128+tail",
                            .profile = p,
                            .npu_ops = npu_ops,
                            .ctx_tokens = CTX,
                            .calib_ids = w->calib,
                            .calib_len = CALIB};
    bt_pkg *pkg = NULL;
    bt_fault f = {""};
    assert_int_equal(bt_recipe_parse(&o.recipe, "w8a8", NULL), BT_OK);
    if (bt_compile(w->path, w->kit.model, &o, NULL, &f) < 0 || bt_pkg_open(&pkg, w->path, &f) < 0)
        fail_msg("%s", f.text);
    return pkg;
}

static const bt_link wire = {.bits_per_us = 1000};

static bt_price_pkg *price_of(const bt_pkg *pkg, const bt_profile *p)
{
    bt_price_pkg *price = NULL;
    bt_fault f = {""};
    const bt_price_pkg_config c = {.pkg = pkg, .npu = p};
    if (bt_price_pkg_new(&price, &c, &f) < 0) fail_msg("%s", f.text);
    return price;
}

/* `tokens` behind `first`, in program order. */
static bt_work_run priced(const bt_pkg *pkg, const bt_profile *p, uint64_t first, uint64_t tokens)
{
    bt_price_pkg *price = price_of(pkg, p);
    const uint32_t layers = bt_pkg_header_of(pkg)->layers;
    const bt_work_prefill d = {.programs = bt_price_pkg_programs(price), .link = wire,
                               .kv = {.layers = layers, .layer_bytes = 1024 / layers}};
    const bt_work_run r =
        bt_work_of_prompt(&d, &(bt_work_prompt){.first = first, .end = first + tokens, .covered = first});
    bt_price_pkg_free(price);
    return r;
}

static void the_npus_part_is_its_instructions_one_by_one(void **state)
{
    const world *w = *state;
    const bt_profile p = device(NO_ATTENTION, "");
    bt_pkg *pkg = compiled(w, &p, BT_PKG_OPS_LINEAR);
    const bt_work_run r = priced(pkg, &p, 0, 128);
    const bt_pkg_row *row = bt_pkg_rows(pkg);
    uint32_t program = BT_PKG_NONE;
    uint64_t ns = 0, linears = 0;
    for (uint32_t i = 0; i < bt_pkg_header_of(pkg)->rows.count; i++)
        if (row[i].seq == 128) program = row[i].program[BT_PKG_OUT_NONE];
    const bt_pkg_inst *inst = bt_pkg_code(pkg, program);
    for (uint32_t k = 0; k < bt_pkg_programs(pkg)[program].insts; k++) {
        if (inst[k].unit != BT_PKG_NPU) continue;
        /* 10^6 operations a microsecond, 10^4 bytes; inputs of a byte, as outputs count */
        const uint64_t macs = (uint64_t)inst[k].in_width * inst[k].out_width,
                       planes = inst[k].in1 == BT_PKG_NOWHERE ? 1 : 2;
        const uint64_t compute = (2 * 128 * macs + 999) / 1000, weights = (macs + 9) / 10,
                       passing = (128 * planes * (inst[k].in_width + inst[k].out_width) + 9) / 10;
        ns += 700 + (compute > weights   ? compute > passing ? compute : passing
                     : weights > passing ? weights
                                         : passing);
        linears++;
    }
    assert_true(linears >= 14);
    /* the output matrix of one row is the NPU's too */
    const uint64_t least = ns - linears, tail = r.sum.tail_ns;
    assert_in_range(r.sum.part_ns[BT_PRICE_PKG_NPU], least, ns + linears + tail);
    bt_pkg_close(pkg);
}

static void parts_add_up_to_the_prompt(void **state)
{
    const world *w = *state;
    const bt_profile p = device(NO_ATTENTION, ",\"sync_ns\":5000,\"dispatch_ns\":111,\"first_launch_ns\":13");
    bt_pkg *pkg = compiled(w, &p, BT_PKG_OPS_ALL);
    const bt_work_run r = priced(pkg, &p, 0, 300);
    uint64_t sum = r.sum.first_ns;
    for (int k = 0; k < BT_PRICE_PKG_PARTS; k++) sum += r.sum.part_ns[k];
    assert_int_equal(r.sum.chunks, 3); /* 128, 128, 44 in 64 */
    assert_int_equal(sum, r.sum.ns);
    sum = 0;
    for (int k = 0; k < BT_TERMS; k++) sum += r.sum.term_ns[k];
    assert_int_equal(sum, r.sum.ns);
    assert_int_equal(r.sum.term_ns[BT_TERM_ATTENTION], r.sum.part_ns[BT_OP_ATTENTION]);
    assert_true(r.sum.term_ns[BT_TERM_FIXED] >= r.sum.part_ns[BT_PRICE_PKG_SYNC] + 3 * 111);
    assert_int_equal(r.sum.term_ns[BT_TERM_ALL_REDUCE], 0);
    assert_true(r.sum.first_ns > r.sum.lead_ns && r.sum.lead_ns > 0 && r.sum.tail_ns > 0);
    /* attention fell back: it has a price and a wait on each side of it */
    assert_true(r.sum.part_ns[BT_OP_ATTENTION] > 0);
    assert_true(r.sum.part_ns[BT_PRICE_PKG_SYNC] >= 3 * 2 * bt_pkg_header_of(pkg)->layers * 5000);
    bt_pkg_close(pkg);
    /* where the NPU has it, it has none */
    const bt_profile all = device(WITH_ATTENTION, ",\"sync_ns\":5000");
    pkg = compiled(w, &all, BT_PKG_OPS_ALL);
    const bt_work_run whole = priced(pkg, &all, 0, 300);
    assert_int_equal(whole.sum.part_ns[BT_OP_ATTENTION], 0);
    assert_true(whole.sum.term_ns[BT_TERM_ATTENTION] > 0);
    bt_pkg_close(pkg);
}

static void sessions_and_spilled_bytes_have_their_price(void **state)
{
    const world *w = *state;
    const bt_profile plain = device(WITH_ATTENTION, "");
    bt_pkg *pkg = compiled(w, &plain, BT_PKG_OPS_LINEAR);
    const bt_work_run r = priced(pkg, &plain, 0, 128);
    assert_true(!r.sum.spill_ns && !r.sum.part_ns[BT_PRICE_PKG_SESSIONS]);
    bt_pkg_close(pkg);
    const bt_profile chip = device(LIMITS("\"on_chip_bytes\":2048"), "");
    pkg = compiled(w, &chip, BT_PKG_OPS_LINEAR);
    const bt_work_run s = priced(pkg, &chip, 0, 128);
    assert_true(s.sum.spill_ns > 0);
    assert_in_range(s.sum.part_ns[BT_PRICE_PKG_NPU], r.sum.part_ns[BT_PRICE_PKG_NPU] + s.sum.spill_ns - 100,
                    r.sum.part_ns[BT_PRICE_PKG_NPU] + s.sum.spill_ns + 100);
    bt_pkg_close(pkg);
    /* a window that no two layers fit into: switches, each with its price */
    const bt_profile window = device(LIMITS("\"map_window_bytes\":600000,\"session_switch_ns\":4321"), "");
    pkg = compiled(w, &window, BT_PKG_OPS_LINEAR);
    const bt_work_run t = priced(pkg, &window, 0, 128);
    assert_true(t.sum.part_ns[BT_PRICE_PKG_SESSIONS] > 0);
    assert_int_equal(t.sum.part_ns[BT_PRICE_PKG_SESSIONS] % 4321, 0);
    bt_pkg_close(pkg);
}

static void what_is_kept_is_not_priced_and_the_wire_hides_behind_chunks(void **state)
{
    const world *w = *state;
    const bt_profile p = device(WITH_ATTENTION, "");
    bt_pkg *pkg = compiled(w, &p, BT_PKG_OPS_LINEAR);
    const bt_work_run all = priced(pkg, &p, 0, 256), rest = priced(pkg, &p, 128, 128),
                      none = priced(pkg, &p, 256, 0);
    assert_int_equal(rest.sum.chunks, 1);
    assert_true(rest.sum.ns < all.sum.ns);
    assert_true(!none.sum.ns && !none.transfer_ns && !none.exposed_ns);
    /* 256 positions of 1,024 bytes at 1 Gbit/s */
    const uint32_t layers = bt_pkg_header_of(pkg)->layers;
    assert_in_range(all.transfer_ns, 256 * (1024 / layers * layers) * 8 - 2 * layers,
                    256 * 1024 * 8 + 2 * layers);
    assert_true(all.exposed_ns <= all.transfer_ns);
    bt_pkg_close(pkg);
}

static void an_unknown_companion_is_refused(void **state)
{
    const world *w = *state;
    bt_fault f = {""};
    const bt_profile p = device(WITH_ATTENTION, ""),
                     odd = device(WITH_ATTENTION, ",\"companion\":\"adreno-75\""),
                     slow = device(WITH_ATTENTION, ",\"companion\":\"host\"");
    bt_pkg *pkg = compiled(w, &p, BT_PKG_OPS_LINEAR);
    bt_price_pkg *price = NULL;
    bt_price_pkg_config c = {.pkg = pkg, .npu = &odd};
    assert_int_equal(bt_price_pkg_new(&price, &c, &f), BT_EARG);
    assert_non_null(strstr(f.text,
                           "field 'time', 'companion': no profile 'adreno-75'; did you mean 'adreno-750'"));
    c.npu = &slow;
    assert_int_equal(bt_price_pkg_new(&price, &c, &f), BT_EARG);
    assert_non_null(strstr(f.text, "'companion': 'host' has no time"));
    bt_pkg_close(pkg);
}

/* Rows of one prompt that share a chunk with nobody are its own; of several, each sees its own positions. */
static void a_batch_has_the_attention_of_each_prompts_rows(void **state)
{
    const world *w = *state;
    const bt_profile p = device(WITH_ATTENTION, ",\"first_launch_ns\":13");
    bt_pkg *pkg = compiled(w, &p, BT_PKG_OPS_LINEAR);
    bt_price_pkg *price = price_of(pkg, &p);
    const bt_work_programs g = bt_price_pkg_programs(price);
    bt_price_batch s = {0};
    bt_price_batch_add(&s, 640, 128, 0);
    bt_price_sum one = g.batch(g.ud, 128, &s, false, 0), chunk = g.chunk(g.ud, 0, 640, 768, false);
    assert_memory_equal(&one, &chunk, sizeof chunk);
    one = g.batch(g.ud, 128, &s, true, 1);
    chunk = g.chunk(g.ud, 640, 640, 768, true);
    assert_int_equal(one.ns, chunk.ns);
    assert_int_equal(one.first_ns, chunk.first_ns);
    assert_int_equal(one.tail_ns, chunk.tail_ns);
    s = (bt_price_batch){0};
    bt_price_batch_add(&s, 0, 50, 0);
    bt_price_batch_add(&s, 640, 30, 0);
    bt_price_batch_add(&s, 37, 40, 0);
    const bt_price_sum three = g.batch(g.ud, 128, &s, true, 3);
    assert_true(three.ops > g.chunk(g.ud, 0, 0, 128, true).ops &&
                three.ops < g.chunk(g.ud, 0, 640, 768, true).ops + 3 * chunk.ops);
    assert_int_equal(three.first_ns, one.first_ns); /* once */
    bt_price_pkg_free(price);
    bt_pkg_close(pkg);
}

/* A batch of one prompt is its chunk, and each row of several sees its own prompt's window. */
static void a_batch_of_a_model_with_windows_has_each_prompts_window(void **state)
{
    world w = {.kit = engine_kit_model("gemma3")};
    const bt_profile p = device(WITH_ATTENTION, "");
    (void)state;
    strcpy(w.path, "/tmp/test_price_pkg.XXXXXX");
    close(mkstemp(w.path));
    engine_kit_ids(w.calib, CALIB, w.kit.model, 21);
    bt_pkg *pkg = compiled(&w, &p, BT_PKG_OPS_LINEAR);
    const uint32_t window = bt_pkg_header_of(pkg)->window;
    assert_in_range(window, 1, 100);
    bt_price_pkg *price = price_of(pkg, &p);
    const bt_work_programs g = bt_price_pkg_programs(price);
    bt_price_batch s = {0}, all = {0};
    bt_price_batch_add(&s, 640, 128, window);
    const bt_price_sum one = g.batch(g.ud, 128, &s, false, 0), chunk = g.chunk(g.ud, 0, 640, 768, false);
    assert_memory_equal(&one, &chunk, sizeof chunk);
    bt_price_batch_add(&all, 640, 128, 0);
    assert_true(g.batch(g.ud, 128, &all, false, 0).ops > one.ops);
    s = (bt_price_batch){0}; /* each row sees a whole window */
    bt_price_batch_add(&s, 300, 64, window);
    bt_price_batch_add(&s, 640, 64, window);
    assert_int_equal(g.batch(g.ud, 128, &s, false, 0).ops, one.ops);
    s = (bt_price_batch){0}; /* and fewer where prompts begin */
    bt_price_batch_add(&s, 0, 64, window);
    bt_price_batch_add(&s, 640, 64, window);
    assert_true(g.batch(g.ud, 128, &s, false, 0).ops < one.ops);
    bt_price_pkg_free(price);
    bt_pkg_close(pkg);
    unlink(w.path);
    engine_kit_done(&w.kit);
}

/* A row chooses 3 of 8 experts, others as long as there are any; each expert computes its share of the rows
 * in the smallest of its programs that holds them, 1, 2, 4 .. rows. */
static uint64_t padded_rows(uint64_t *ret_chosen, uint64_t rows)
{
    const uint64_t copies = TINY_GGUF_EXPERTS_USED * rows,
                   chosen = copies < TINY_GGUF_EXPERTS ? copies : TINY_GGUF_EXPERTS;
    uint64_t each = 1;
    while (each * chosen < copies) each *= 2;
    *ret_chosen = chosen;
    return chosen * (each < rows ? each : rows);
}

static void check_experts(const bt_pkg *pkg, const bt_profile *p, const bt_pkg_row *row, uint32_t ops)
{
    const bt_stage_engines engines = {.npu = p, .companion = p, .kv_elem_bits = 16};
    const bt_stage_chunk chunk = {.rows = row->seq, .ctx = row->ctx};
    const uint32_t program = row->program[BT_PKG_OUT_NONE];
    const bt_pkg_inst *inst = bt_pkg_code(pkg, program);
    uint64_t chosen, seen = 0;
    const uint64_t rows = padded_rows(&chosen, row->seq);
    for (uint32_t k = 0; k < bt_pkg_programs(pkg)[program].insts; k++) {
        if (!bt_pkg_is_experts(&inst[k])) continue;
        const bt_stage_inst cost = bt_stage_inst_cost(&engines, pkg, program, &inst[k], &chunk);
        const uint64_t macs = (uint64_t)inst[k].in_width * inst[k].out_width,
                       width = inst[k].in_width + inst[k].out_width;
        /* 10^6 operations a microsecond, 10^4 bytes; weights, inputs and outputs of a byte */
        const uint64_t compute = 2 * rows * macs / 1000, weights = chosen * macs / 10,
                       passing = rows * width / 10, read = weights > passing ? weights : passing,
                       most = compute > read ? compute : read;
        assert_in_range(cost.ns, 700 + most, 700 + most + 2);
        assert_int_equal(cost.ops, 2 * rows * macs);
        assert_int_equal(cost.bytes, chosen * macs + rows * width);
        seen++;
    }
    assert_int_equal(seen, 3 * bt_pkg_header_of(pkg)->layers);
    assert_int_equal(bt_pkg_header_of(pkg)->npu_ops, ops);
}

static void experts_are_the_padded_rows_of_those_that_rows_choose(void **state)
{
    world w = {.kit = engine_kit_model("qwen3moe")};
    const bt_profile p = device(WITH_ATTENTION, "");
    (void)state;
    strcpy(w.path, "/tmp/test_price_pkg.XXXXXX");
    close(mkstemp(w.path));
    engine_kit_ids(w.calib, CALIB, w.kit.model, 21);
    for (uint32_t ops = BT_PKG_OPS_LINEAR; ops <= BT_PKG_OPS_ALL; ops++) {
        bt_pkg *pkg = compiled(&w, &p, ops);
        const uint32_t rows = bt_pkg_header_of(pkg)->rows.count;
        assert_true(rows > 4);
        for (uint32_t i = 0; i < rows; i++) check_experts(pkg, &p, &bt_pkg_rows(pkg)[i], ops);
        bt_pkg_close(pkg);
    }
    unlink(w.path);
    engine_kit_done(&w.kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_npus_part_is_its_instructions_one_by_one, begin, end),
        cmocka_unit_test_setup_teardown(parts_add_up_to_the_prompt, begin, end),
        cmocka_unit_test_setup_teardown(sessions_and_spilled_bytes_have_their_price, begin, end),
        cmocka_unit_test_setup_teardown(what_is_kept_is_not_priced_and_the_wire_hides_behind_chunks, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_batch_has_the_attention_of_each_prompts_rows, begin, end),
        cmocka_unit_test(a_batch_of_a_model_with_windows_has_each_prompts_window),
        cmocka_unit_test_setup_teardown(an_unknown_companion_is_refused, begin, end),
        cmocka_unit_test(experts_are_the_padded_rows_of_those_that_rows_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
