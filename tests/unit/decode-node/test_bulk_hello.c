/* The prefill nodes that may send KV to a decode node: those of the same model, KV shape and KV dtype. The
 * refusal names both sides. */
#include "decode-node/brain/brain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static const bt_incarnation SELF = {{2}}, PREFILL = {{3}};

/* The answer of a decode node with KV of `own` to a prefill node with KV of `peer`: WELCOME or REJECT. */
static bt_msg greet(bt_kv_shape own, bt_kv_shape peer)
{
    dc_config c = dc_config_defaults();
    c.self = SELF;
    c.pages_total = 8;
    c.hello.ctx_tokens = 256;
    c.hello.kv = own;
    memcpy(c.hello.model_id, "\x01\x23\x45\x67", 4);
    strcpy(c.hello.kv_endpoint, "tcp://127.0.0.1:1");
    dc_brain *b = NULL;
    assert_int_equal(dc_brain_new(&b, &c, NULL), BT_OK);
    bt_msg hello = {.type = BT_MSG_HELLO, .from = PREFILL};
    hello.u.hello = c.hello;
    hello.u.hello.protocol = BT_PROTOCOL_VERSION;
    hello.u.hello.role = BT_ROLE_PREFILL;
    hello.u.hello.kv = peer;
    const dc_event ev = {.type = DC_EV_BULK, .u.bulk = &hello};
    const dc_actions acts = dc_brain_step(b, &ev, 1000000, &(bt_random){{1, 2}});
    bt_msg answer = {.type = BT_MSG_HELLO};
    for (size_t i = 0; i < acts.len; i++)
        if (acts.items[i].type == DC_DO_SEND_BULK) answer = acts.items[i].u.bulk.msg;
    dc_brain_free(b);
    return answer;
}

static void a_prefill_node_of_the_same_form_of_kv_is_welcome(void **state)
{
    (void)state;
    for (bt_kv_dtype t = BT_KV_F16; t <= BT_KV_INT8; t++)
        assert_int_equal(greet((bt_kv_shape){30, 3, 64, t, 0, 0}, (bt_kv_shape){30, 3, 64, t, 0, 0}).type,
                         BT_MSG_WELCOME);
}

static void a_mismatch_of_kv_is_refused_with_both_forms(void **state)
{
    (void)state;
    bt_msg m = greet((bt_kv_shape){30, 3, 64, BT_KV_F16, 0, 0}, (bt_kv_shape){30, 3, 64, BT_KV_INT8, 0, 0});
    assert_int_equal(m.type, BT_MSG_REJECT);
    assert_int_equal(m.u.reject.code, BT_EFORMAT);
    assert_string_equal(
        m.u.reject.text,
        "model 01234567.. with 30x3x64 KV of int8, but this node has 01234567.. with 30x3x64 of f16");
    m = greet((bt_kv_shape){30, 3, 64, BT_KV_INT8, 0, 0}, (bt_kv_shape){30, 3, 64, BT_KV_F32, 0, 0});
    assert_string_equal(
        m.u.reject.text,
        "model 01234567.. with 30x3x64 KV of f32, but this node has 01234567.. with 30x3x64 of int8");
    m = greet((bt_kv_shape){30, 3, 64, BT_KV_INT8, 0, 0}, (bt_kv_shape){30, 3, 32, BT_KV_INT8, 0, 0});
    assert_string_equal(
        m.u.reject.text,
        "model 01234567.. with 30x3x32 KV of int8, but this node has 01234567.. with 30x3x64 of int8");
    m = greet((bt_kv_shape){30, 3, 64, BT_KV_F16, 0, 0}, (bt_kv_shape){30, 3, 64, BT_KV_F16, 512, 6});
    assert_string_equal(m.u.reject.text,
                        "model 01234567.. with 30x3x64 KV of f16, a window of 512, global every 6, "
                        "but this node has 01234567.. with 30x3x64 of f16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefill_node_of_the_same_form_of_kv_is_welcome),
        cmocka_unit_test(a_mismatch_of_kv_is_refused_with_both_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
