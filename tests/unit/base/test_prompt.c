/* The hashes that prefixes of prompts are known by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/prompt.h"
#include "base/rng.h"

enum { LEN = 200, BLOCK = 16 };

/* Two that part at token `at` have one hash for each whole block before it, and none after. */
static void prompts_have_the_hashes_of_the_whole_blocks_in_common(void **state)
{
    (void)state;
    int32_t one[LEN], two[LEN];
    uint64_t a[LEN], b[LEN];
    for (int i = 0; i < LEN; i++) one[i] = two[i] = (int32_t)(bt_rng_u64(1, (uint64_t)i) % 3);
    for (uint32_t block = 1; block <= 64; block = block * 2 + 1)
        for (uint32_t at = 0; at < LEN; at++) {
            two[at]++;
            bt_prompt_hash(a, one, LEN, block);
            bt_prompt_hash(b, two, LEN, block);
            for (uint32_t i = 0; i < bt_prompt_hashes_len(LEN, block); i++)
                assert_int_equal(a[i] == b[i], (i + 1) * block <= at);
            two[at]--;
        }
    assert_int_equal(bt_prompt_hashes_len(LEN, BLOCK), 13);
    assert_int_equal(bt_prompt_hashes_len(LEN, 0), 0);
}

/* A prefix inside of a block goes with the block, and no two prefixes of a prompt are one. */
static void a_prefix_is_known_by_its_block_and_its_length(void **state)
{
    (void)state;
    int32_t ids[LEN];
    uint64_t hashes[LEN], seen[LEN];
    for (int i = 0; i < LEN; i++) ids[i] = i;
    bt_prompt_hash(hashes, ids, LEN, BLOCK);
    const bt_prompt_view p = {.tokens = LEN, .hashes = {hashes, BLOCK}};
    for (uint32_t n = 1; n <= LEN; n++) {
        seen[n - 1] = bt_prompt_prefix(&p, n);
        for (uint32_t k = 1; k < n; k++) assert_true(seen[k - 1] != seen[n - 1]);
    }
    assert_int_equal(bt_prompt_prefix(&p, 2 * BLOCK), hashes[1]);
    hashes[12]++; /* the block that the end cuts, tokens 192 .. 199 */
    for (uint32_t n = 1; n <= LEN; n++) assert_int_equal(bt_prompt_prefix(&p, n) == seen[n - 1], n <= 192);
}

static void a_copy_holds_what_is_there_and_the_ids_end_it(void **state)
{
    (void)state;
    int32_t ids[LEN];
    uint64_t hashes[13], block[200];
    for (int i = 0; i < LEN; i++) ids[i] = i;
    bt_prompt_hash(hashes, ids, LEN, BLOCK);
    for (int what = 1; what < 4; what++) {
        const bt_prompt_view p = {.tokens = LEN, .ids = what & 1 ? ids : NULL,
                                  .hashes = {what & 2 ? hashes : NULL, BLOCK}, .salt = {{9, 8}}};
        const size_t bytes = bt_prompt_bytes(&p);
        assert_int_equal(bytes, (what & 1 ? LEN * 4 : 0) + (what & 2 ? 13 * 8 : 0));
        const bt_prompt_view c = bt_prompt_copy(block, &p);
        assert_int_equal(c.tokens, LEN);
        assert_true(bt_prompt_same_salt(&c, &p));
        assert_int_equal(c.ids != NULL, what & 1);
        assert_int_equal(c.hashes.of != NULL, (what & 2) != 0);
        if (c.ids) assert_ptr_equal(c.ids + LEN, (uint8_t *)block + bytes);
        if (c.ids) assert_memory_equal(c.ids, ids, sizeof ids);
        if (c.hashes.of) assert_memory_equal(c.hashes.of, hashes, sizeof hashes);
        assert_true(c.ids != ids && c.hashes.of != hashes);
    }
}

/* Any one bit of a salt makes another number, and so does another value; no salt changes nothing. */
static void a_salt_makes_another_number_of_each_value(void **state)
{
    (void)state;
    uint64_t seen[2 * 129];
    size_t len = 0;
    for (uint64_t value = 5; value < 7; value++) {
        bt_prompt_salt salt = {{0}};
        seen[len++] = bt_prompt_salted(value, &salt);
        assert_true(seen[len - 1] == value);
        for (int bit = 0; bit < 128; bit++) {
            salt = (bt_prompt_salt){{0}};
            salt.bytes[bit / 8] = (uint8_t)(1 << bit % 8);
            seen[len++] = bt_prompt_salted(value, &salt);
        }
    }
    for (size_t i = 0; i < len; i++)
        for (size_t k = 0; k < i; k++) assert_true(seen[i] != seen[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_have_the_hashes_of_the_whole_blocks_in_common),
        cmocka_unit_test(a_prefix_is_known_by_its_block_and_its_length),
        cmocka_unit_test(a_copy_holds_what_is_there_and_the_ids_end_it),
        cmocka_unit_test(a_salt_makes_another_number_of_each_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
