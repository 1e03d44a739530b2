/* Coverage, against a plain table of booleans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "kv/kv_cover.h"

enum { MAX_LAYERS = 5, MAX_TOKENS = 200 };

static void agrees_with_a_table_of_booleans(void **state)
{
    (void)state;
    const uint64_t seed = 20240607;
    printf("seed %llu\n", (unsigned long long)seed);
    uint64_t draw = 0;
    for (int round = 0; round < 200; round++) {
        const uint32_t layers = 1 + (uint32_t)(bt_rng_u64(seed, draw++) % MAX_LAYERS);
        const uint32_t tokens = 1 + (uint32_t)(bt_rng_u64(seed, draw++) % MAX_TOKENS);
        bool table[MAX_LAYERS][MAX_TOKENS] = {{false}};
        bt_kv_cover *c = NULL;
        assert_int_equal(bt_kv_cover_new(&c, layers, tokens, NULL), BT_OK);
        for (int step = 0; step < 30; step++) {
            bt_kv_range r = {(uint32_t)(bt_rng_u64(seed, draw) % layers), 0, 0};
            r.token_begin = (uint32_t)(bt_rng_u64(seed, draw + 1) % tokens) / 16 * 16;
            uint32_t end = r.token_begin + 16 * (1 + (uint32_t)(bt_rng_u64(seed, draw + 2) % 4));
            if (end > tokens) end = tokens;
            r.token_count = end - r.token_begin;
            draw += 3;
            uint32_t fresh = 0, got = 99;
            for (uint32_t t = r.token_begin; t < end; t++) fresh += !table[r.layer][t];
            assert_int_equal(bt_kv_cover_new_tokens(&got, c, &r, NULL), BT_OK);
            assert_int_equal(got, fresh);
            assert_int_equal(bt_kv_cover_mark(c, &r, NULL), BT_OK);
            for (uint32_t t = r.token_begin; t < end; t++) table[r.layer][t] = true;

            uint64_t count = 0;
            for (uint32_t l = 0; l < layers; l++)
                for (uint32_t t = 0; t < tokens; t++) {
                    count += table[l][t];
                    assert_int_equal(bt_kv_cover_has(c, l, t), table[l][t]);
                }
            uint32_t prefix = 0;
            for (bool whole = true; whole && prefix < tokens; prefix += whole)
                for (uint32_t l = 0; l < layers; l++) whole = whole && table[l][prefix];
            assert_int_equal(bt_kv_cover_prefix(c), prefix);
            assert_int_equal(bt_kv_cover_is_complete(c), count == (uint64_t)layers * tokens);
            bt_kv_range missing[MAX_LAYERS * MAX_TOKENS];
            const size_t n = bt_kv_cover_missing(c, missing, MAX_LAYERS * MAX_TOKENS);
            bool seen[MAX_LAYERS][MAX_TOKENS] = {{false}};
            for (size_t i = 0; i < n; i++) {
                for (uint32_t k = 0; k < missing[i].token_count; k++)
                    seen[missing[i].layer][missing[i].token_begin + k] = true;
                if (i == 0 || missing[i - 1].layer != missing[i].layer) continue;
                assert_true(missing[i - 1].token_begin + missing[i - 1].token_count < missing[i].token_begin);
            }
            for (uint32_t l = 0; l < layers; l++)
                for (uint32_t t = 0; t < tokens; t++) assert_int_equal(seen[l][t], !table[l][t]);
        }
        bt_kv_cover_free(c);
    }
}

static void missing_stops_where_the_room_ends(void **state)
{
    (void)state;
    bt_kv_cover *c = NULL;
    assert_int_equal(bt_kv_cover_new(&c, 3, 40, NULL), BT_OK);
    assert_int_equal(bt_kv_cover_mark(c, &(bt_kv_range){0, 16, 16}, NULL), BT_OK);
    bt_kv_range r[3] = {{9, 9, 9}, {9, 9, 9}, {9, 9, 9}};
    assert_int_equal(bt_kv_cover_missing(c, r, 0), 0);
    assert_int_equal(bt_kv_cover_missing(c, r, 2), 2);
    const bt_kv_range want[] = {{0, 0, 16}, {0, 32, 8}, {9, 9, 9}};
    assert_memory_equal(r, want, sizeof want);
    assert_int_equal(bt_kv_cover_missing(c, r, 3), 3);
    assert_memory_equal(&r[2], (&(bt_kv_range){1, 0, 40}), sizeof r[2]);
    bt_kv_cover_free(c);
    bt_kv_cover_free(NULL);
}

static void illegal_ranges_change_nothing(void **state)
{
    (void)state;
    static const bt_kv_range c[] = {
        {2, 0, 16}, {0, 8, 8},  {0, 0, 0},           {0, 0, 8},           {0, 16, 17},
        {0, 48, 1}, {0, 32, 9}, {0, 16, UINT32_MAX}, {0, 0xfffffff0, 32}, {UINT32_MAX, 0, 16},
    };
    bt_kv_cover *v = NULL;
    assert_int_equal(bt_kv_cover_new(&v, 2, 40, NULL), BT_OK);
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        uint32_t n = 77;
        assert_int_equal(bt_kv_cover_new_tokens(&n, v, &c[i], NULL), BT_EFORMAT);
        assert_int_equal(n, 77);
        assert_int_equal(bt_kv_cover_mark(v, &c[i], NULL), BT_EFORMAT);
    }
    bt_kv_range missing[3];
    assert_int_equal(bt_kv_cover_missing(v, missing, 3), 2); /* nothing is covered */
    assert_memory_equal(missing, ((bt_kv_range[]){{0, 0, 40}, {1, 0, 40}}), 2 * sizeof *missing);
    assert_false(bt_kv_cover_has(v, 2, 0) || bt_kv_cover_has(v, 0, 40));
    bt_kv_cover_free(v);
}

static void shapes_out_of_range_are_refused(void **state)
{
    (void)state;
    bt_kv_cover *c = NULL;
    assert_int_equal(bt_kv_cover_new(&c, 0, 1, NULL), BT_EARG);
    assert_int_equal(bt_kv_cover_new(&c, 257, 1, NULL), BT_EARG);
    assert_int_equal(bt_kv_cover_new(&c, 1, 0, NULL), BT_EARG);
    assert_int_equal(bt_kv_cover_new(&c, 1, (1 << 20) + 1, NULL), BT_EARG);
    assert_null(c);
    assert_int_equal(bt_kv_cover_new(&c, 256, 1 << 20, NULL), BT_OK);
    for (uint32_t l = 0; l < 256; l++)
        assert_int_equal(bt_kv_cover_mark(c, &(bt_kv_range){l, 0, 1 << 20}, NULL), BT_OK);
    assert_true(bt_kv_cover_is_complete(c));
    bt_kv_cover_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_table_of_booleans),
        cmocka_unit_test(missing_stops_where_the_room_ends),
        cmocka_unit_test(illegal_ranges_change_nothing),
        cmocka_unit_test(shapes_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
