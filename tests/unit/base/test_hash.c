/* Published XXH3 values, and that pieces give what the whole gives. */
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static void gives_the_published_values_of_nothing(void **s)
{
    (void)s;
    uint8_t h[BT_HASH_BYTES];
    char hex[BT_HASH_HEX_CHARS];
    assert_true(bt_hash64("", 0) == UINT64_C(0x2d06800538d394c2));
    bt_hash128(h, "", 0);
    assert_string_equal(bt_hash_hex(hex, h), "99aa06d3014798d86001c324468d497f");
}

static void pieces_give_what_the_whole_gives(void **s)
{
    (void)s;
    uint8_t data[5000], whole[BT_HASH_BYTES], pieces[BT_HASH_BYTES];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 31 + i / 7);
    for (size_t len = 0; len <= sizeof data; len += 499) {
        bt_hash128(whole, data, len);
        for (size_t step = 1; step < 700; step += 113) {
            bt_hash_stream st;
            bt_hash_begin(&st);
            for (size_t at = 0; at < len; at += step)
                bt_hash_add(&st, data + at, len - at < step ? len - at : step);
            bt_hash_end(pieces, &st);
            assert_memory_equal(pieces, whole, BT_HASH_BYTES);
            bt_hash_end(pieces, &st);
            assert_memory_equal(pieces, whole, BT_HASH_BYTES);
        }
    }
}

static void one_bit_changes_the_hash(void **s)
{
    (void)s;
    uint8_t data[100] = {0}, a[BT_HASH_BYTES], b[BT_HASH_BYTES];
    bt_hash128(a, data, sizeof data);
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] ^= 1;
        bt_hash128(b, data, sizeof data);
        assert_memory_not_equal(a, b, BT_HASH_BYTES);
        data[i] ^= 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_published_values_of_nothing),
        cmocka_unit_test(pieces_give_what_the_whole_gives),
        cmocka_unit_test(one_bit_changes_the_hash),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
