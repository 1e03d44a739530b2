/* The header of a KV block: the layout is the one in the table, and nothing else is let in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kv/kv_header.h"
#include <xxhash.h>

static bt_kv_header sample(void)
{
    bt_kv_header h = {.number = 0x0102030405060708ull,
                      .attempt = 3,
                      .layer = 255,
                      .token_begin = 512,
                      .token_count = 5,
                      .kv_heads = 3,
                      .head_dim = 64,
                      .dtype = 1,
                      .link_epoch = 0x1817161514131211ull,
                      .link_end = 589824,
                      .body_bytes = 2 * 5 * 3 * 64 * 2};
    memset(h.owner, 0xa0, 16);
    memset(h.ticket, 0xa1, 16);
    memset(h.digest, 0xa2, 16);
    memset(h.from, 0xa3, 16);
    memset(h.to, 0xa4, 16);
    return h;
}

static void seal(uint8_t *b)
{
    const uint64_t sum = XXH3_64bits(b, 144);
    for (int i = 0; i < 8; i++) b[144 + i] = (uint8_t)(sum >> (8 * i));
}

static bt_err decode(bt_kv_header *ret, const uint8_t *bytes, size_t len, bt_fault *f)
{
    uint8_t *p = malloc(len ? len : 1);
    assert_non_null(p);
    memcpy(p, bytes, len);
    bt_kv_header before = *ret;
    const bt_err e = bt_kv_header_decode(ret, p, len, f);
    if (e < 0) assert_memory_equal(ret, &before, sizeof before);
    free(p);
    return e;
}

static void the_bytes_are_those_of_the_table(void **state)
{
    (void)state;
    uint8_t want[BT_KV_HEADER_BYTES] = "BTKV";
    want[4] = 2;
    memset(want + 8, 0xa0, 16);
    for (int i = 0; i < 8; i++) want[24 + i] = (uint8_t)(8 - i);
    want[32] = 3;
    want[36] = 255;
    want[41] = 2; /* 512 */
    want[44] = 5;
    want[48] = 3;
    want[52] = 64;
    want[56] = 1;
    want[61] = 0x0f; /* 3840 */
    for (int i = 0; i < 4; i++) memset(want + 64 + 16 * i, 0xa1 + i, 16);
    for (int i = 0; i < 8; i++) want[128 + i] = (uint8_t)(0x11 + i);
    want[138] = 9; /* 589824 */
    seal(want);
    uint8_t got[BT_KV_HEADER_BYTES];
    const bt_kv_header h = sample();
    assert_int_equal(bt_kv_header_encode(got, &h, NULL), BT_OK);
    assert_memory_equal(got, want, sizeof want);
    bt_kv_header out;
    memset(&out, 0, sizeof out);
    assert_int_equal(decode(&out, want, sizeof want, NULL), BT_OK);
    uint8_t again[BT_KV_HEADER_BYTES];
    assert_int_equal(bt_kv_header_encode(again, &out, NULL), BT_OK);
    assert_memory_equal(again, want, sizeof want);
    assert_true(out.number == h.number && out.layer == 255 && out.body_bytes == 3840 && out.to[15] == 0xa4);
}

static void every_changed_bit_and_length_is_refused(void **state)
{
    (void)state;
    uint8_t b[BT_KV_HEADER_BYTES + 1] = {0};
    bt_kv_header h = sample(), out;
    memset(&out, 0x33, sizeof out);
    assert_int_equal(bt_kv_header_encode(b, &h, NULL), BT_OK);
    for (size_t i = 0; i < 8 * BT_KV_HEADER_BYTES; i++) {
        b[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(decode(&out, b, BT_KV_HEADER_BYTES, NULL), BT_EFORMAT);
        b[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t n = 0; n < BT_KV_HEADER_BYTES; n++) assert_int_equal(decode(&out, b, n, NULL), BT_EFORMAT);
    assert_int_equal(decode(&out, b, BT_KV_HEADER_BYTES + 1, NULL), BT_EFORMAT);
}

static void fields_out_of_range_neither_leave_nor_enter(void **state)
{
    (void)state;
    static const struct {
        int at;
        int bytes;
        uint64_t value;
        bt_err want;
        bool in_struct;
    } c[] = {
        {0, 4, 0, BT_EFORMAT, false},       {4, 2, 3, BT_EVERSION, false},
        {6, 2, 1, BT_EFORMAT, false},       {58, 2, 1, BT_EFORMAT, false},
        {32, 4, 0, BT_EFORMAT, true},       {36, 4, 256, BT_EFORMAT, true},
        {40, 4, 8, BT_EFORMAT, true},       {44, 4, 0, BT_EFORMAT, true},
        {44, 4, 4097, BT_EFORMAT, true},    {40, 4, 0xfffffff0, BT_EFORMAT, true},
        {40, 4, 1 << 20, BT_EFORMAT, true}, {48, 4, 0, BT_EFORMAT, true},
        {48, 4, 257, BT_EFORMAT, true},     {52, 4, 0, BT_EFORMAT, true},
        {52, 4, 257, BT_EFORMAT, true},     {56, 2, 0, BT_EFORMAT, true},
        {56, 2, 4, BT_EFORMAT, true},       {56, 2, 3, BT_EFORMAT, true},
        {56, 2, 2, BT_EFORMAT, true},       {60, 4, 3839, BT_EFORMAT, true},
        {60, 4, 0, BT_EFORMAT, true},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        bt_kv_header h = sample(), out;
        memset(&out, 0x33, sizeof out);
        uint8_t b[BT_KV_HEADER_BYTES];
        assert_int_equal(bt_kv_header_encode(b, &h, NULL), BT_OK);
        for (int k = 0; k < c[i].bytes; k++) b[c[i].at + k] = (uint8_t)(c[i].value >> (8 * k));
        seal(b);
        bt_fault f = {""};
        assert_int_equal(decode(&out, b, sizeof b, &f), c[i].want);
        assert_true(f.text[0] != 0);
        if (!c[i].in_struct) continue;
        const uint32_t v = (uint32_t)c[i].value;
        switch (c[i].at) {
        case 32: h.attempt = v; break;
        case 36: h.layer = v; break;
        case 40: h.token_begin = v; break;
        case 44: h.token_count = v; break;
        case 48: h.kv_heads = v; break;
        case 52: h.head_dim = v; break;
        case 56: h.dtype = (uint16_t)v; break;
        default: h.body_bytes = v; break;
        }
        memset(b, 0x44, sizeof b);
        assert_int_equal(bt_kv_header_encode(b, &h, NULL), BT_EARG);
        for (size_t k = 0; k < sizeof b; k++) assert_int_equal(b[k], 0x44);
    }
}

static void nobody_is_all_zero(void **state)
{
    (void)state;
    static const size_t at[] = {offsetof(bt_kv_header, owner), offsetof(bt_kv_header, from),
                                offsetof(bt_kv_header, to)};
    for (size_t i = 0; i < 3; i++) {
        bt_kv_header h = sample();
        uint8_t b[BT_KV_HEADER_BYTES];
        memset((uint8_t *)&h + at[i], 0, 16);
        assert_int_equal(bt_kv_header_encode(b, &h, NULL), BT_EARG);
    }
}

static void a_body_has_a_limit_whatever_its_shape(void **state)
{
    (void)state;
    assert_int_equal(bt_kv_header_body_bytes(5, 3, 64, 1), 3840);
    assert_int_equal(bt_kv_header_body_bytes(5, 3, 64, 2), 7680);
    assert_int_equal(bt_kv_header_body_bytes(4096, 32, 128, 1), BT_KV_MAX_BODY_BYTES);
    assert_int_equal(bt_kv_header_body_bytes(4096, 33, 128, 1), 0);
    assert_int_equal(bt_kv_header_body_bytes(4096, 256, 256, 2), 0);
    assert_int_equal(bt_kv_header_body_bytes(0, 1, 1, 1), 0);
    assert_int_equal(bt_kv_header_body_bytes(1, 1, 1, 4), 0);
}

static void an_int8_body_has_a_scale_behind_each_head_of_even_length(void **state)
{
    (void)state;
    assert_int_equal(bt_kv_header_body_bytes(5, 3, 64, 3), 2 * 5 * 3 * 66);
    assert_int_equal(bt_kv_header_body_bytes(1, 1, 2, 3), 8);
    assert_int_equal(bt_kv_header_body_bytes(1, 1, 63, 3), 0);
    assert_int_equal(bt_kv_header_body_bytes(4096, 256, 256, 3), 0);
    bt_kv_header h = sample(), out;
    h.dtype = 3;
    h.body_bytes = 1980;
    uint8_t b[BT_KV_HEADER_BYTES];
    assert_int_equal(bt_kv_header_encode(b, &h, NULL), BT_OK);
    memset(&out, 0, sizeof out);
    assert_int_equal(decode(&out, b, sizeof b, NULL), BT_OK);
    assert_true(out.dtype == 3 && out.body_bytes == 1980);
    h.head_dim = 63;
    bt_fault f = {""};
    assert_int_equal(bt_kv_header_encode(b, &h, &f), BT_EARG);
    assert_string_equal(f.text, "kv header: no block of 5 tokens x 3 heads x 63 elements of type 3 (int8)");
}

static void the_digest_covers_place_and_body(void **state)
{
    (void)state;
    bt_kv_header h = sample();
    h.token_count = 1;
    h.kv_heads = h.head_dim = 1;
    h.body_bytes = 4;
    uint8_t body[4] = {1, 2, 3, 4}, all[60];
    uint8_t b[BT_KV_HEADER_BYTES];
    assert_int_equal(bt_kv_header_encode(b, &h, NULL), BT_OK);
    memcpy(all, b + 8, 56);
    memcpy(all + 56, body, 4);
    XXH128_canonical_t want;
    XXH128_canonicalFromHash(&want, XXH3_128bits(all, sizeof all));
    bt_kv_header_digest(h.digest, &h, body);
    assert_memory_equal(h.digest, want.digest, 16);

    assert_int_equal(bt_kv_header_check_body(&h, body, 4, NULL), BT_OK);
    assert_int_equal(bt_kv_header_check_body(&h, body, 3, NULL), BT_EFORMAT);
    body[3] ^= 0x80;
    assert_int_equal(bt_kv_header_check_body(&h, body, 4, NULL), BT_EFORMAT);
    body[3] ^= 0x80;
    h.layer--;
    assert_int_equal(bt_kv_header_check_body(&h, body, 4, NULL), BT_EFORMAT);
    h.layer++;
    h.attempt++;
    assert_int_equal(bt_kv_header_check_body(&h, body, 4, NULL), BT_EFORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_of_the_table),
        cmocka_unit_test(every_changed_bit_and_length_is_refused),
        cmocka_unit_test(fields_out_of_range_neither_leave_nor_enter),
        cmocka_unit_test(nobody_is_all_zero),
        cmocka_unit_test(a_body_has_a_limit_whatever_its_shape),
        cmocka_unit_test(an_int8_body_has_a_scale_behind_each_head_of_even_length),
        cmocka_unit_test(the_digest_covers_place_and_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
