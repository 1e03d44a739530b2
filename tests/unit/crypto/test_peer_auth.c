/* The allow list, and the answers to every kind of ZAP request. */
#include "crypto/peer_auth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* Z85 of 32 bytes, worked out by RFC 32: "HelloWorld" is 86 4f d2 6f b5 59 f7 5b. */
#define KEY_A "HelloWorldHelloWorldHelloWorldHelloWorld"
#define KEY_B "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
#define KEY_C "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
static const uint8_t raw_a[33] = "\x86\x4f\xd2\x6f\xb5\x59\xf7\x5b\x86\x4f\xd2\x6f\xb5\x59\xf7\x5b"
                                 "\x86\x4f\xd2\x6f\xb5\x59\xf7\x5b\x86\x4f\xd2\x6f\xb5\x59\xf7\x5b";

static bt_peer_allow *allow_of(const char *text)
{
    bt_peer_allow *a = NULL;
    bt_fault f = {""};
    assert_int_equal(bt_peer_auth_parse(&a, text, &f), BT_OK);
    return a;
}

static unsigned roles_of(const bt_peer_allow *a, const char *z85)
{
    uint8_t key[32];
    assert_int_equal(bt_keys_from_z85(key, z85, NULL), BT_OK);
    return bt_peer_auth_roles(a, key);
}

static void reads_keys_roles_names_and_comments(void **s)
{
    (void)s;
    uint8_t key[32] = {0};
    bt_fault f = {""};
    bt_peer_allow *a = allow_of("# comment\n#\n\n#" KEY_C " prefill\n" KEY_A " gateway,decode  \r\n" KEY_B
                                "\tprefill \t east-2");
    assert_int_equal(bt_peer_auth_count(a), 2);
    assert_int_equal(roles_of(a, KEY_A), BT_PEER_GATEWAY | BT_PEER_DECODE);
    assert_int_equal(roles_of(a, KEY_B), BT_PEER_PREFILL);
    assert_int_equal(roles_of(a, KEY_C), 0);
    assert_int_equal(bt_peer_auth_roles(a, key), 0);
    assert_int_equal(bt_peer_auth_find(key, a, BT_PEER_PREFILL, "east-2", &f), BT_OK);
    assert_string_equal(bt_peer_auth_name(a, key), "east-2");
    assert_int_equal(bt_peer_auth_find(key, a, BT_PEER_DECODE, NULL, &f), BT_OK);
    assert_memory_equal(key, raw_a, 32);
    assert_string_equal(bt_peer_auth_name(a, key), "");
    bt_peer_auth_free(a);
    a = allow_of("");
    assert_int_equal(roles_of(a, KEY_A), 0);
    bt_peer_auth_free(a);
    bt_peer_auth_free(NULL);
}

static void a_key_is_found_by_its_role_only_where_it_is_the_only_one(void **s)
{
    (void)s;
    uint8_t key[32];
    bt_fault f = {""};
    bt_peer_allow *a = allow_of(KEY_A " decode decode-0\n" KEY_B " decode,prefill decode-1\n");
    assert_int_equal(bt_peer_auth_find(key, a, BT_PEER_DECODE, NULL, &f), BT_EAUTH);
    assert_non_null(strstr(f.text, "2 keys"));
    assert_int_equal(bt_peer_auth_find(key, a, BT_PEER_GATEWAY, NULL, &f), BT_EAUTH);
    assert_non_null(strstr(f.text, "0 keys"));
    assert_int_equal(bt_peer_auth_find(key, a, BT_PEER_PREFILL, "decode-0", &f), BT_EAUTH);
    assert_non_null(strstr(f.text, "does not give the key 'decode-0' the role prefill"));
    assert_int_equal(bt_peer_auth_find(key, a, BT_PEER_DECODE, "decode-2", &f), BT_EAUTH);
    assert_int_equal(bt_peer_auth_find(key, a, BT_PEER_DECODE, "decode-0", &f), BT_OK);
    assert_memory_equal(key, raw_a, 32);
    assert_int_equal(bt_peer_auth_find(key, a, BT_PEER_PREFILL, NULL, &f), BT_OK);
    assert_string_equal(bt_peer_auth_name(a, key), "decode-1");
    bt_peer_auth_free(a);
}

/* Whoever takes out one line means the key to be gone. */
static void a_key_and_a_name_stand_on_one_line(void **s)
{
    (void)s;
    bt_peer_allow *a = NULL;
    assert_int_equal(bt_peer_auth_parse(&a, KEY_A " decode\n" KEY_B " decode\n" KEY_A " prefill", NULL),
                     BT_EFORMAT);
    assert_int_equal(bt_peer_auth_parse(&a, KEY_A " decode x\n" KEY_B " decode x", NULL), BT_EFORMAT);
    assert_null(a);
}

static void names_the_line_that_is_wrong(void **s)
{
    (void)s;
    static const char *const bad[] = {
        "\n" KEY_A,
        "\n" KEY_A " ",
        "\n" KEY_A " king",
        "\n" KEY_A " gateway,,decode",
        "\n" KEY_A " gateway decode more",
        "\nHello gateway",
        "\n" KEY_A "x gateway",
        "\n" KEY_A " gateway,",
        "\n" KEY_A " gateway ../x",
        "\n " KEY_A " gateway",
        "\n0000000000000000000000000000000000000000 gateway",
        "\n" KEY_A " gateway abcdefghijklmnopqrstuvwxyz0123456",
        "\n~elloWorldHelloWorldHelloWorldHelloWorld gateway",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bt_peer_allow *a = NULL;
        bt_fault f = {""};
        assert_int_equal(bt_peer_auth_parse(&a, bad[i], &f), BT_EFORMAT);
        assert_non_null(strstr(f.text, "line 2 "));
        assert_null(a);
    }
}

static bt_peer_frame text_frame(const char *t) { return (bt_peer_frame){(const uint8_t *)t, strlen(t)}; }

static void fill(bt_peer_frame f[7])
{
    f[0] = text_frame("1.0");
    f[1] = text_frame("17");
    f[2] = text_frame("baton");
    f[3] = text_frame("127.0.0.1");
    f[4] = text_frame("");
    f[5] = text_frame("CURVE");
    f[6] = (bt_peer_frame){raw_a, 32};
}

static void expect(const bt_peer_auth_reply *r, const char *status, const char *user)
{
    assert_int_equal(r->frames[0].size, 3);
    assert_memory_equal(r->frames[0].data, "1.0", 3);
    assert_int_equal(r->frames[1].size, 2);
    assert_memory_equal(r->frames[1].data, "17", 2);
    assert_memory_equal(r->frames[2].data, status, 3);
    assert_int_equal(r->frames[4].size, strlen(user));
    assert_memory_equal(r->frames[4].data, user, strlen(user));
    assert_string_equal(r->user_id, user);
    assert_int_equal(r->frames[5].size, 0);
}

static void lets_in_a_key_of_the_list_and_names_it(void **s)
{
    (void)s;
    bt_peer_frame f[7];
    bt_peer_auth_reply r;
    bt_peer_allow *a = allow_of(KEY_A " prefill\n");
    fill(f);
    assert_int_equal(bt_peer_auth_answer(&r, a, f, 7), BT_OK);
    expect(&r, "200", KEY_A);
    bt_peer_auth_free(a);
}

static void turns_away_everybody_else(void **s)
{
    (void)s;
    bt_peer_frame f[7];
    bt_peer_auth_reply r;
    bt_peer_allow *a = allow_of(KEY_B " prefill\n");
    fill(f);
    assert_int_equal(bt_peer_auth_answer(&r, a, f, 7), BT_OK);
    expect(&r, "400", "");
    f[5] = text_frame("NULL");
    assert_int_equal(bt_peer_auth_answer(&r, a, f, 6), BT_OK);
    expect(&r, "400", "");
    f[5] = text_frame("PLAIN");
    assert_int_equal(bt_peer_auth_answer(&r, a, f, 7), BT_OK);
    expect(&r, "400", "");
    bt_peer_auth_free(a);
}

static void answers_500_to_what_is_not_zap(void **s)
{
    (void)s;
    bt_peer_frame f[7];
    bt_peer_auth_reply r;
    bt_peer_allow *a = allow_of(KEY_A " prefill\n");
    fill(f);
    for (size_t count = 2; count <= 6; count++) {
        assert_int_equal(bt_peer_auth_answer(&r, a, f, count), BT_OK);
        expect(&r, "500", "");
    }
    f[6].size = 31;
    assert_int_equal(bt_peer_auth_answer(&r, a, f, 7), BT_OK);
    expect(&r, "500", "");
    fill(f);
    f[0] = text_frame("2.0");
    assert_int_equal(bt_peer_auth_answer(&r, a, f, 7), BT_OK);
    expect(&r, "500", "");
    static const uint8_t long_id[256] = {0};
    f[1] = (bt_peer_frame){long_id, sizeof long_id};
    assert_int_equal(bt_peer_auth_answer(&r, a, f, 7), BT_EFORMAT);
    assert_int_equal(bt_peer_auth_answer(&r, a, f, 1), BT_EFORMAT);
    bt_peer_auth_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_keys_roles_names_and_comments),
        cmocka_unit_test(a_key_is_found_by_its_role_only_where_it_is_the_only_one),
        cmocka_unit_test(a_key_and_a_name_stand_on_one_line),
        cmocka_unit_test(names_the_line_that_is_wrong),
        cmocka_unit_test(lets_in_a_key_of_the_list_and_names_it),
        cmocka_unit_test(turns_away_everybody_else),
        cmocka_unit_test(answers_500_to_what_is_not_zap),
    };
    return cmocka_run_group_tests_name("peer_auth", tests, NULL, NULL);
}
