/* The key of each request of a load: keys that rows name, keys drawn by shares, and the lines of a key file.
 */
#include "lab/replay/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY = 4000 };
static const tool_replay_plan_options usual = {.usual_output = 128, .speed = 1};
static tool_replay_keys keys;
static tool_replay_plan plan;

static void shares_and_weights_are_read_and_what_is_neither_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "a",
                                      "a:",
                                      ":1",
                                      "a:0",
                                      "a:-1",
                                      "a:1:0",
                                      "a:1:1001",
                                      "a:1:2:3",
                                      "a:1,,b:1",
                                      "a:1,a:2",
                                      "a:x",
                                      "01234567890123456789012345678901234567890123456789012345678901234:1"};
    bt_fault fault;
    assert_int_equal(tool_replay_keys_read(&keys, "a:1,key-2:3.5:1000", &fault), BT_OK);
    assert_int_equal(keys.len, 2);
    assert_string_equal(keys.of[1].name, "key-2");
    assert_true(keys.of[0].share == 1 && keys.of[0].weight == 1);
    assert_true(keys.of[1].share == 3.5 && keys.of[1].weight == 1000);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tool_replay_keys_read(&keys, bad[i], &fault), BT_EARG);
        assert_non_null(strstr(fault.text, "--key-shares"));
    }
}

static void draw(uint64_t seed)
{
    assert_int_equal(tool_replay_plan_begin(&plan, NULL), BT_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        char session[16];
        (void)snprintf(session, sizeof session, "s%u", i / 2);
        const bt_trace_row row = {.has_arrival = true,
                                  .arrival_us = i,
                                  .input_tokens = 5,
                                  .output_tokens = 5,
                                  .has_output = true,
                                  .session = i < 1000 ? session : NULL,
                                  .key = i % 10 == 9 ? "named" : NULL};
        assert_int_equal(tool_replay_plan_add(&plan, &row, &usual, NULL), BT_OK);
    }
    assert_int_equal(tool_replay_plan_end(&plan, &usual, NULL), BT_OK);
    assert_int_equal(tool_replay_keys_assign(&plan, &keys, seed, NULL), BT_OK);
}

static void a_row_keeps_its_key_and_others_get_one_by_their_shares(void **state)
{
    (void)state;
    uint32_t count[4] = {0}, moved = 0;
    static uint32_t first[MANY];
    assert_int_equal(tool_replay_keys_read(&keys, "a:1,b:3:7", NULL), BT_OK);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        draw(seed == 3 ? 2 : seed);
        assert_int_equal(plan.keys, 3);
        assert_string_equal(plan.key[0].name, "named");
        assert_int_equal(plan.key[0].weight, 1);
        assert_int_equal(plan.key[2].weight, 7);
        memset(count, 0, sizeof count);
        for (uint32_t i = 0; i < MANY; i++) {
            const uint32_t key = plan.item[i].key;
            assert_int_equal(key == 1, i % 10 == 9);
            count[key]++;
            if (i < 1000 && i % 2 && i % 10 != 9) assert_int_equal(key, plan.item[i - 1].key);
            moved += seed == 2 && key != first[i];
            if (seed == 3) assert_int_equal(key, first[i]);
            first[i] = key;
        }
        tool_replay_plan_done(&plan);
        assert_int_equal(count[0], 0);
        assert_int_equal(count[1], MANY / 10);
        assert_in_range(count[2], MANY * 9 / 40 - 150, MANY * 9 / 40 + 150);
    }
    assert_true(moved > 100);
    keys.len = 0;
    draw(1); /* nothing is drawn */
    assert_int_equal(plan.item[0].key, 0);
    tool_replay_plan_done(&plan);
}

static void a_trace_of_too_many_keys_is_refused(void **state)
{
    (void)state;
    bt_fault fault;
    uint32_t at;
    assert_int_equal(tool_replay_plan_begin(&plan, NULL), BT_OK);
    for (int i = 0; i <= TOOL_REPLAY_KEYS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "k%d", i);
        assert_int_equal(tool_replay_keys_find(&at, &plan, name, &fault),
                         i < TOOL_REPLAY_KEYS ? BT_OK : BT_ELIMIT);
    }
    assert_non_null(strstr(fault.text, "k256"));
    tool_replay_plan_done(&plan);
}

static bool is_secret(const char *line, const char *secret)
{
    return line && strncmp(line, secret, strlen(secret)) == 0 && strchr(" \t\r\n", line[strlen(secret)]);
}

static void a_key_file_has_its_keys_by_name_and_unnamed_ones_by_number(void **state)
{
    (void)state;
    static const char file[] =
        "# keys\nsecret-a name=a weight=3\n\nsecret-2\r\nsecret-c role=client  name=c\n";
    char path[] = "/tmp/baton-keys-XXXXXX";
    bt_fault fault;
    tool_replay_secrets s;
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, file, sizeof file - 1) == (ssize_t)sizeof file - 1 && close(fd) == 0);
    assert_int_equal(tool_replay_secrets_read(&s, path, &fault), BT_OK);
    assert_int_equal(tool_replay_keys_read(&keys, "c:1,key-2:1,a:1", NULL), BT_OK);
    draw(1);
    assert_int_equal(tool_replay_secrets_match(&s, &plan, &fault), BT_OK);
    assert_true(is_secret(s.first, "secret-a"));
    assert_null(s.of[0]); /* "named", of rows only: it is not in the file */
    assert_true(is_secret(s.of[1], "secret-c"));
    assert_true(is_secret(s.of[2], "secret-2"));
    assert_true(is_secret(s.of[3], "secret-a"));
    tool_replay_plan_done(&plan);
    assert_int_equal(tool_replay_keys_read(&keys, "key-1:1", NULL), BT_OK);
    draw(1);
    assert_int_equal(tool_replay_secrets_match(&s, &plan, &fault), BT_EARG);
    assert_non_null(strstr(fault.text, "'key-1'"));
    assert_null(strstr(fault.text, "secret"));
    tool_replay_plan_done(&plan);
    tool_replay_secrets_done(&s);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_and_weights_are_read_and_what_is_neither_is_refused),
        cmocka_unit_test(a_row_keeps_its_key_and_others_get_one_by_their_shares),
        cmocka_unit_test(a_trace_of_too_many_keys_is_refused),
        cmocka_unit_test(a_key_file_has_its_keys_by_name_and_unnamed_ones_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
