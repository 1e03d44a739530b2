/* Lines of keys: which are taken, as what, and which line and limit an error names. */
#include "gateway/http/key_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static gw_key_line *keys;
static size_t count;

static bt_err parse(const char *text, bt_fault *f)
{
    gw_key_line *lines = NULL;
    size_t n = 0;
    const bt_err e = gw_key_file_parse(&lines, &n, text, strlen(text), "api.txt", f);
    free(keys);
    keys = lines;
    count = n;
    return e;
}

static void is_refused(const char *text, bt_err code, const char *words)
{
    bt_fault f = {""};
    assert_int_equal(parse(text, &f), code);
    if (!strstr(f.text, words)) fail_msg("'%s' does not say '%s'", f.text, words);
    assert_non_null(strstr(f.text, "'api.txt'"));
    assert_null(strstr(f.text, "secret"));
}

static void a_file_of_keys_alone_is_one_of_clients_with_numbers_for_names(void **state)
{
    (void)state;
    bt_fault f;
    assert_int_equal(parse("# ours\n\none\r\ntwo==\n  \nthree", &f), BT_OK);
    assert_int_equal(count, 3);
    static const char *const secrets[] = {"one", "two==", "three"}, *const names[] = {"key-1", "key-2",
                                                                                      "key-3"};
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(keys[i].secret_len, strlen(secrets[i]));
        assert_memory_equal(keys[i].secret, secrets[i], strlen(secrets[i]));
        assert_string_equal(keys[i].facts.name, names[i]);
        assert_int_equal(keys[i].facts.role, GW_KEY_CLIENT);
        assert_int_equal(keys[i].facts.weight, 1);
        assert_memory_equal(&keys[i].facts.limits, &(gw_key_limits){0}, sizeof(gw_key_limits));
    }
}

static void every_field_is_read_in_any_order(void **state)
{
    (void)state;
    bt_fault f;
    assert_int_equal(parse("k1 name=web.front_1-b role=admin weight=1000 requests-per-minute=60 \t"
                           "tokens-per-minute=1000000000 at-once=65536 context=2\n"
                           "k2\tcontext=4096 role=metrics\nk3 role=client name=three \n",
                           &f),
                     BT_OK);
    assert_int_equal(count, 3);
    const gw_key_facts *k = &keys[0].facts;
    assert_string_equal(k->name, "web.front_1-b");
    assert_int_equal(k->role, GW_KEY_ADMIN);
    assert_int_equal(k->weight, 1000);
    assert_int_equal(k->limits.requests_per_minute, 60);
    assert_int_equal(k->limits.tokens_per_minute, 1000000000);
    assert_int_equal(k->limits.at_once, 65536);
    assert_int_equal(k->limits.context_tokens, 2);
    assert_string_equal(keys[1].facts.name, "key-2");
    assert_int_equal(keys[1].facts.role, GW_KEY_METRICS);
    assert_int_equal(keys[1].facts.limits.context_tokens, 4096);
    assert_string_equal(keys[2].facts.name, "three");
}

static void errors_name_the_line_and_the_limit_and_never_what_stands_there(void **state)
{
    (void)state;
    is_refused("", BT_EFORMAT, "holds no key");
    is_refused("# secret\n\n", BT_EFORMAT, "holds no key");
    is_refused("good\nsecret secret\n", BT_EFORMAT, "line 2: word 2 is no field");
    is_refused("secret weight=2 weigth=3\n", BT_EFORMAT, "line 1: word 3 is no field");
    is_refused("secret name\n", BT_EFORMAT, "word 2 is no field");
    is_refused(" secret\n", BT_EFORMAT, "begins with its key");
    is_refused("secret\x01\n", BT_EFORMAT, "printable");
    is_refused("secr\xc3\xa9t\n", BT_EFORMAT, "printable");
    is_refused("secret role=root\n", BT_EFORMAT, "role= is client, admin or metrics");
    is_refused("secret role=\n", BT_EFORMAT, "role= is client, admin or metrics");
    is_refused("secret weight=0\n", BT_EFORMAT, "weight= is a whole number from 1 to 1000");
    is_refused("secret weight=1001\n", BT_EFORMAT, "from 1 to 1000");
    is_refused("secret weight=1.5\n", BT_EFORMAT, "from 1 to 1000");
    is_refused("secret weight=\n", BT_EFORMAT, "from 1 to 1000");
    is_refused("secret requests-per-minute=1000000001\n", BT_EFORMAT, "from 1 to 1000000000");
    is_refused("secret tokens-per-minute=-1\n", BT_EFORMAT, "from 1 to 1000000000");
    is_refused("secret tokens-per-minute=99999999999999999999\n", BT_EFORMAT, "from 1 to 1000000000");
    is_refused("secret at-once=65537\n", BT_EFORMAT, "from 1 to 65536");
    is_refused("secret context=1\n", BT_EFORMAT, "from 2 to 2097152");
    is_refused("secret name=\n", BT_EFORMAT, "name= has 1 to 64");
    is_refused("secret name=a\"b\n", BT_EFORMAT, "name= has 1 to 64");
    is_refused("secret weight=1 weight=1\n", BT_EFORMAT, "weight= stands twice");
    char longest[GW_KEY_MAX_BYTES + 2];
    memset(longest, 'a', sizeof longest);
    longest[GW_KEY_MAX_BYTES + 1] = 0;
    is_refused(longest, BT_EFORMAT, "line 1: a key has at most 256 characters");
    bt_fault f;
    longest[GW_KEY_MAX_BYTES] = 0;
    assert_int_equal(parse(longest, &f), BT_OK);
}

static void no_two_keys_have_one_name_and_no_key_two_rights(void **state)
{
    (void)state;
    bt_fault f;
    is_refused("a name=x\nb\nc name=x\n", BT_EFORMAT, "lines 1 and 3: both keys are called 'x'");
    is_refused("a\nb\nc name=key-2\n", BT_EFORMAT, "lines 2 and 3: both keys are called 'key-2'");
    is_refused("a\nb\na role=admin\n", BT_EFORMAT, "lines 1 and 3 hold one key");
    assert_int_equal(parse("a\nb\na\nc\n", &f), BT_OK); /* as files without fields always could */
    assert_int_equal(count, 3);
    assert_string_equal(keys[2].facts.name, "key-3");
    assert_memory_equal(keys[2].secret, "c", 1);
}

static void takes_4096_keys_and_no_more(void **state)
{
    (void)state;
    bt_fault f = {""};
    char *text = malloc((GW_KEYS_MAX + 1) * 16);
    size_t at = 0;
    assert_non_null(text);
    for (int i = 0; i < GW_KEYS_MAX; i++) at += (size_t)snprintf(text + at, 16, "k-%d\n", i);
    assert_int_equal(parse(text, &f), BT_OK);
    assert_int_equal(count, GW_KEYS_MAX);
    assert_string_equal(keys[GW_KEYS_MAX - 1].facts.name, "key-4096");
    (void)snprintf(text + at, 16, "more\n");
    assert_int_equal(parse(text, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "line 4097: more than 4096 keys"));
    free(text);
}

static int forget(void **state)
{
    (void)state;
    free(keys);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_keys_alone_is_one_of_clients_with_numbers_for_names),
        cmocka_unit_test(every_field_is_read_in_any_order),
        cmocka_unit_test(errors_name_the_line_and_the_limit_and_never_what_stands_there),
        cmocka_unit_test(no_two_keys_have_one_name_and_no_key_two_rights),
        cmocka_unit_test(takes_4096_keys_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
