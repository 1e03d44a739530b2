/* Times of chunks: what is told of each, and of those that have no place of their own. */
#include "prefill-node/chunks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void each_chunk_has_its_times_also_where_they_overlap(void **state)
{
    (void)state;
    pf_chunks c = {.told.len = 0};
    pf_chunks_begin(&c, 64, 32, 5); /* rows before are in place */
    pf_chunks_begin(&c, 96, 20, 9);
    pf_chunks_end(&c, 96, 30); /* the later one first */
    pf_chunks_end(&c, 64, 40);
    assert_int_equal(c.told.len, 2);
    assert_int_equal(c.told.at[0].tokens, 32);
    assert_int_equal(c.told.at[0].begin_us, 5);
    assert_int_equal(c.told.at[0].end_us, 40);
    assert_int_equal(c.told.at[0].chunks, 1);
    assert_int_equal(c.told.at[1].tokens, 20);
    assert_int_equal(c.told.at[1].begin_us, 9);
    assert_int_equal(c.told.at[1].end_us, 30);
}

static void what_has_no_place_is_summed_in_the_last(void **state)
{
    (void)state;
    enum { CHUNKS = BT_MSG_MAX_CHUNKS + 10, TOKENS = 16 };
    pf_chunks c = {.told.len = 0};
    for (int i = 0; i < CHUNKS; i++) {
        pf_chunks_begin(&c, (size_t)i * TOKENS, TOKENS, 100 * i);
        pf_chunks_end(&c, (size_t)i * TOKENS, 100 * i + 70);
    }
    assert_int_equal(c.told.len, BT_MSG_MAX_CHUNKS);
    uint32_t tokens = 0, chunks = 0;
    for (uint32_t i = 0; i < c.told.len; i++) {
        tokens += c.told.at[i].tokens;
        chunks += c.told.at[i].chunks;
    }
    assert_int_equal(tokens, CHUNKS * TOKENS);
    assert_int_equal(chunks, CHUNKS);
    assert_int_equal(c.told.at[BT_MSG_MAX_CHUNKS - 2].end_us, 100 * (BT_MSG_MAX_CHUNKS - 2) + 70);
    assert_int_equal(c.told.at[BT_MSG_MAX_CHUNKS - 1].begin_us, 100 * (BT_MSG_MAX_CHUNKS - 1));
    assert_int_equal(c.told.at[BT_MSG_MAX_CHUNKS - 1].end_us, 100 * (CHUNKS - 1) + 70);
    assert_int_equal(c.told.at[BT_MSG_MAX_CHUNKS - 1].chunks, 11);
}

static void times_that_no_field_holds_are_the_largest(void **state)
{
    (void)state;
    pf_chunks c = {.told.len = 0};
    pf_chunks_end(&c, 0, 5); /* nothing has begun */
    assert_int_equal(c.told.len, 0);
    pf_chunks_begin(&c, 0, 1, -1);
    pf_chunks_end(&c, 0, INT64_C(1) << 33);
    assert_int_equal(c.told.at[0].begin_us, 0);
    assert_true(c.told.at[0].end_us == UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_chunk_has_its_times_also_where_they_overlap),
        cmocka_unit_test(what_has_no_place_is_summed_in_the_last),
        cmocka_unit_test(times_that_no_field_holds_are_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
