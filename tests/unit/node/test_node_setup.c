/* The facts that a node tells of itself, and the number of tokens that its memory holds, for each form of KV.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "node/node_setup.h"

/* The shape of smollm2; nothing else of a model is looked at. */
static bt_model smollm2(void)
{
    return (bt_model){.hp = {.layers = 30, .kv_heads = 3, .head_dim = 64, .ctx = 8192}, .name = "SmolLM2"};
}

static void memory_holds_whole_pages_of_tokens(void **state)
{
    (void)state;
    static const struct {
        uint32_t elem_bytes;
        bt_kv_dtype dtype;
        const char *class;
        uint64_t tokens;
    } c[] = {
        {2, BT_KV_F16, "decode host f16 kv=f16 kernels=", 46592},   /* 2^30 / 23,040 in 64s */
        {4, BT_KV_F32, "decode host f16 kv=f32 kernels=", 23296},   /* / 46,080 */
        {1, BT_KV_INT8, "decode host f16 kv=int8 kernels=", 90368}, /* / 11,880 */
    };
    const bt_model m = smollm2();
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        const bt_node_setup s = {.role = BT_ROLE_DECODE,
                                 .node_id = "d",
                                 .engine = "host",
                                 .weights = "f16",
                                 .model = &m,
                                 .kv_elem_bytes = c[i].elem_bytes,
                                 .ctx_tokens = 8192,
                                 .kv_memory_bytes = 1 << 30};
        bt_node_pages p;
        bt_msg_hello h;
        assert_int_equal(bt_node_setup_pages(&p, &s, NULL), BT_OK);
        assert_int_equal(bt_kv_pages_total(p.memory.all), c[i].tokens / 64);
        assert_int_equal(p.total, c[i].tokens / 64);
        assert_null(p.memory.windows);
        assert_int_equal(bt_node_setup_hello(&h, &s, p.total, NULL), BT_OK);
        assert_int_equal(h.kv.window, 0);
        assert_int_equal(h.kv_capacity_tokens, c[i].tokens);
        assert_int_equal(h.kv.dtype, c[i].dtype);
        if (strncmp(h.exactness, c[i].class, strlen(c[i].class)) != 0) fail_msg("%s", h.exactness);
        bt_kv_memory_free(&p.memory);
    }
}

/* 6 layers, 1 of which sees all, in 1,000 pages of all layers. */
static void window_layers_get_the_pages_that_their_windows_take_and_the_others_the_rest(void **state)
{
    (void)state;
    bt_model m = smollm2();
    m.hp.layers = 6;
    m.hp.window = 512;
    m.hp.global_every = 6;
    bt_node_setup s = {.role = BT_ROLE_DECODE,
                       .node_id = "d",
                       .engine = "host",
                       .weights = "f16",
                       .model = &m,
                       .kv_elem_bytes = 2,
                       .ctx_tokens = 8192,
                       .kv_memory_bytes = bt_kv_token_bytes(2, 6, m.hp.kv_heads, m.hp.head_dim) * 64 * 1000};
    const struct {
        size_t sequences;
        uint32_t every, total, windows;
    } c[] = {
        {0, 6, 1000, 1000},                        /* rows stay as long as others */
        {4, 6, 1000 + 5 * (1000 - 128), 128},      /* one sequence of the greatest length */
        {32, 6, 1000 + 5 * (1000 - 448), 32 * 14}, /* 8 pages of window, 4 of growth, 2 of edges */
        {100, 6, 1000, 1000},                      /* never more than the others */
        {32, 0, 32 * 128, 1000},                   /* no layer sees all: their pages take no memory */
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        bt_node_pages p;
        bt_msg_hello h;
        s.sequences = c[i].sequences;
        s.growth_tokens = 256;
        m.hp.global_every = c[i].every;
        assert_int_equal(bt_node_setup_pages(&p, &s, NULL), BT_OK);
        assert_int_equal(p.total, c[i].total);
        assert_int_equal(p.windows, c[i].windows);
        assert_int_equal(bt_kv_pages_total(p.memory.windows), c[i].windows);
        if (c[i].every) assert_int_equal(bt_kv_pages_total(p.memory.all), c[i].total);
        else assert_null(p.memory.all);
        assert_int_equal(bt_node_setup_hello(&h, &s, p.total, NULL), BT_OK);
        assert_int_equal(h.kv.window, 512);
        assert_int_equal(h.kv.global_every, c[i].every);
        bt_kv_memory_free(&p.memory);
    }
}

/* Seven sequences of 8,192 tokens would fit with all their rows. */
static void a_swap_store_has_room_for_the_rows_of_windows_that_are_left(void **state)
{
    (void)state;
    bt_model m = smollm2();
    m.hp.layers = 6;
    m.hp.window = 512;
    m.hp.global_every = 6;
    bt_node_setup s = {.model = &m, .kv_elem_bytes = 2, .ctx_tokens = 8192, .sequences = 32,
                       .growth_tokens = 256};
    const uint64_t page = bt_kv_token_bytes(2, 6, m.hp.kv_heads, m.hp.head_dim) * 64, bytes = 1000 * page;
    bt_node_pages p = {.total = 0};
    assert_int_equal(bt_node_setup_swap(&p, &s, bytes, NULL), BT_OK);
    assert_int_equal(p.windows, 32 * 10); /* 8 pages of window, 2 of edges */
    assert_int_equal(p.total, 1000 + 5 * (1000 - 320));
    assert_true(p.total >= 32 * 8192 / 64);
    assert_int_equal(p.total * bt_kv_pages_page_bytes(p.memory.all) +
                         p.windows * bt_kv_pages_page_bytes(p.memory.windows),
                     bytes);
    bt_kv_memory_free(&p.memory);
    s.ctx_tokens = 131072; /* one sequence may be longer than the windows of all that leave */
    s.sequences = 4;
    assert_int_equal(bt_node_setup_swap(&p, &s, bytes, NULL), BT_OK);
    assert_int_equal(p.windows, 4 * 10);
    assert_int_equal(p.total, 1000 + 5 * (1000 - 40));
    bt_kv_memory_free(&p.memory);
    p = (bt_node_pages){.total = 0};
    assert_int_equal(bt_node_setup_swap(&p, &s, page - 1, NULL), BT_OK);
    assert_int_equal(p.total + p.windows, 0);
    assert_null(p.memory.all);
    m.hp.window = 0;
    assert_int_equal(bt_node_setup_swap(&p, &s, bytes, NULL), BT_OK);
    assert_int_equal(p.total, 1000);
    assert_int_equal(p.windows, 0);
    bt_kv_memory_free(&p.memory);
}

static void memory_for_less_than_the_longest_sequence_is_refused_with_what_it_takes(void **state)
{
    (void)state;
    const bt_model m = smollm2();
    bt_node_setup s = {.role = BT_ROLE_PREFILL,
                       .node_id = "p",
                       .engine = "host",
                       .weights = "f16",
                       .model = &m,
                       .kv_elem_bytes = 2,
                       .ctx_tokens = 8192,
                       .kv_memory_bytes = 97320960}; /* 8,192 tokens of int8 */
    bt_node_pages p;
    bt_fault f = {""};
    assert_int_equal(bt_node_setup_pages(&p, &s, &f), BT_EARG);
    assert_string_equal(f.text, "--kv-memory holds 4224 tokens, but the longest sequence has 8192: give "
                                "188743680 bytes or more, or choose a "
                                "smaller --ctx-size; --kv-dtype int8 would hold 8192");
    bt_model windows = m;
    windows.hp.window = 512;
    bt_node_setup of_windows = s;
    of_windows.model = &windows;
    assert_int_equal(bt_node_setup_pages(&p, &of_windows, &f), BT_EARG);
    assert_non_null(strstr(f.text, "has 8192, which count in all layers: give 188743680 bytes"));
    s.kv_elem_bytes = 1;
    s.ctx_tokens = 8256; /* a page more: nothing smaller is left to advise */
    assert_int_equal(bt_node_setup_pages(&p, &s, &f), BT_EARG);
    assert_string_equal(f.text, "--kv-memory holds 8192 tokens, but the longest sequence has 8256: give "
                                "98081280 bytes or more, or choose a "
                                "smaller --ctx-size");
    s.ctx_tokens = 8192;
    assert_int_equal(bt_node_setup_pages(&p, &s, &f), BT_OK);
    bt_kv_memory_free(&p.memory);
}

static void an_engines_reports_become_messages_and_what_is_too_much_is_summed(void **state)
{
    (void)state;
    enum { KINDS = BT_MSG_MAX_FALLBACKS + 3 };
    bt_report_fallback list[KINDS];
    for (uint32_t i = 0; i < KINDS; i++) list[i] = (bt_report_fallback){"rope", "not in profile", i + 1};
    bt_report_engine about = {.name = "npu",     .quant = "w8a8",  .shape_policy = "pow2",
                              .profile = "host", .fallback = list, .fallbacks = 2};
    bt_msg_engine m = bt_node_setup_engine(&about);
    assert_string_equal(m.name, "npu");
    assert_string_equal(m.quant, "w8a8");
    assert_string_equal(m.shape_policy, "pow2");
    assert_string_equal(m.profile, "host");
    assert_int_equal(m.fallbacks_len, 2);
    assert_string_equal(m.fallbacks[1].op, "rope");
    assert_string_equal(m.fallbacks[1].why, "not in profile");
    assert_int_equal(m.fallbacks[1].count, 2);
    about.fallbacks = KINDS;
    m = bt_node_setup_engine(&about);
    assert_int_equal(m.fallbacks_len, BT_MSG_MAX_FALLBACKS);
    assert_string_equal(m.fallbacks[BT_MSG_MAX_FALLBACKS - 2].op, "rope");
    assert_string_equal(m.fallbacks[BT_MSG_MAX_FALLBACKS - 1].op, "others");
    assert_int_equal(m.fallbacks[BT_MSG_MAX_FALLBACKS - 1].count, 16 + 17 + 18 + 19);
    enum { FIELDS = sizeof(bt_report_work) / sizeof(uint64_t) };
    uint64_t was[FIELDS], is[FIELDS], so_far[FIELDS];
    for (uint64_t i = 0; i < FIELDS; i++) was[i] = i + 1, is[i] = 11 * (i + 1), so_far[i] = 100;
    bt_report_work before, after, sum;
    memcpy(&before, was, sizeof before);
    memcpy(&after, is, sizeof after);
    memcpy(&sum, so_far, sizeof sum);
    bt_report_work_add(&sum, &before, &after);
    memcpy(so_far, &sum, sizeof sum);
    for (uint64_t i = 0; i < FIELDS; i++)
        assert_int_equal(so_far[i], 100 + 10 * (i + 1)); /* none is left out */
    sum = (bt_report_work){.rows = 110,
                           .npu_macs = 120,
                           .companion_macs = 130,
                           .tile_padding_macs = 140,
                           .shadow_entries = 150,
                           .compilations = 160,
                           .masked_macs = 170,
                           .session_switches = 180,
                           .session_switch_ns = 190,
                           .npu_int16_macs = 200,
                           .npu_float_macs = 210,
                           .expert_rows = 220,
                           .expert_padding_rows = 230};
    const bt_msg_work w = bt_node_setup_work(&sum);
    assert_true(w.rows == 110 && w.npu_macs == 120 && w.companion_macs == 130 && w.shadow_entries == 150 &&
                w.compilations == 160 && w.masked_macs == 170 && w.session_switches == 180 &&
                w.session_switch_ns == 190 && w.tile_padding_macs == 140 && w.npu_int16_macs == 200 &&
                w.npu_float_macs == 210 && w.expert_rows == 220 && w.expert_padding_rows == 230);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window_layers_get_the_pages_that_their_windows_take_and_the_others_the_rest),
        cmocka_unit_test(memory_holds_whole_pages_of_tokens),
        cmocka_unit_test(an_engines_reports_become_messages_and_what_is_too_much_is_summed),
        cmocka_unit_test(a_swap_store_has_room_for_the_rows_of_windows_that_are_left),
        cmocka_unit_test(memory_for_less_than_the_longest_sequence_is_refused_with_what_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
