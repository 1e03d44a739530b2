/* What a node says of itself, and how many tokens its memory holds, for each form of KV. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "node/node_setup.h"

/* The shape of smollm2; nothing else of a model is looked at. */
static bt_model smollm2(void) { return (bt_model){.hp = {.layers = 30, .kv_heads = 3, .head_dim = 64, .ctx = 8192}, .name = "SmolLM2"}; }

static void memory_holds_whole_pages_of_tokens(void **state)
{
    (void)state;
    static const struct { uint32_t elem_bytes; bt_kv_dtype dtype; const char *class; uint64_t tokens; } c[] = {
        {2, BT_KV_F16, "decode host f16 kv=f16 kernels=", 46592},           /* 2^30 / 23,040 in 64s */
        {4, BT_KV_F32, "decode host f16 kv=f32 kernels=", 23296},           /* / 46,080 */
        {1, BT_KV_INT8, "decode host f16 kv=int8 kernels=", 90368},         /* / 11,880 */
    };
    const bt_model m = smollm2();
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        const bt_node_setup s = {.role = BT_ROLE_DECODE, .node_id = "d", .engine = "host", .weights = "f16", .model = &m,
                                 .kv_elem_bytes = c[i].elem_bytes, .ctx_tokens = 8192, .kv_memory_bytes = 1 << 30};
        bt_kv_pages *p = NULL;
        bt_msg_hello h;
        assert_int_equal(bt_node_setup_pages(&p, &s, NULL), BT_OK);
        assert_int_equal(bt_kv_pages_total(p), c[i].tokens / 64);
        assert_int_equal(bt_node_setup_hello(&h, &s, p, NULL), BT_OK);
        assert_int_equal(h.kv_capacity_tokens, c[i].tokens);
        assert_int_equal(h.kv.dtype, c[i].dtype);
        if (strncmp(h.exactness, c[i].class, strlen(c[i].class)) != 0) fail_msg("%s", h.exactness);
        bt_kv_pages_free(p);
    }
}

static void memory_for_less_than_the_longest_sequence_is_refused_with_what_it_takes(void **state)
{
    (void)state;
    const bt_model m = smollm2();
    bt_node_setup s = {.role = BT_ROLE_PREFILL, .node_id = "p", .engine = "host", .weights = "f16", .model = &m,
                       .kv_elem_bytes = 2, .ctx_tokens = 8192, .kv_memory_bytes = 97320960};    /* 8,192 tokens of int8 */
    bt_kv_pages *p = NULL;
    bt_fault f = {""};
    assert_int_equal(bt_node_setup_pages(&p, &s, &f), BT_EARG);
    assert_string_equal(f.text, "--kv-memory holds 4224 tokens, the longest sequence has 8192: it takes 188743680 bytes, or choose a "
                                "smaller --ctx-size");
    s.kv_elem_bytes = 1;
    assert_int_equal(bt_node_setup_pages(&p, &s, &f), BT_OK);
    bt_kv_pages_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_holds_whole_pages_of_tokens),
        cmocka_unit_test(memory_for_less_than_the_longest_sequence_is_refused_with_what_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
