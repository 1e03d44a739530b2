/* Sealed bytes open with their own key alone; the keyed hash is SipHash-2-4 as its authors published it. */
#include "crypto/seal.h"
#include "crypto/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void make(unsigned char public[32], unsigned char secret[32])
{
    bt_keys k;
    assert_int_equal(bt_keys_make(&k, NULL), BT_OK);
    assert_int_equal(bt_keys_from_z85(public, k.public_key, NULL), BT_OK);
    assert_int_equal(bt_keys_from_z85(secret, k.secret_key, NULL), BT_OK);
}

static void what_is_sealed_opens_with_its_key_alone(void **state)
{
    (void)state;
    unsigned char public[32], secret[32], other_public[32], other_secret[32];
    uint8_t sealed[5 + BT_SEAL_BYTES], plain[5];
    assert_int_equal(bt_seal_start(NULL), BT_OK);
    make(public, secret);
    make(other_public, other_secret);
    assert_int_equal(bt_seal(sealed, (const uint8_t *)"hello", 5, public, NULL), BT_OK);
    assert_int_equal(bt_seal_open(plain, sealed, sizeof sealed, public, secret, NULL), BT_OK);
    assert_memory_equal(plain, "hello", 5);
    assert_int_equal(bt_seal_open(plain, sealed, sizeof sealed, other_public, other_secret, NULL), BT_EAUTH);
    for (size_t i = 0; i < sizeof sealed; i++) {
        sealed[i] ^= 1;
        assert_int_equal(bt_seal_open(plain, sealed, sizeof sealed, public, secret, NULL), BT_EAUTH);
        sealed[i] ^= 1;
    }
    assert_int_equal(bt_seal_open(plain, sealed, BT_SEAL_BYTES - 1, public, secret, NULL), BT_EAUTH);
}

/* Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), appendix A. */
static void the_hash_has_the_published_value(void **state)
{
    (void)state;
    uint8_t key[16], text[15];
    for (uint8_t i = 0; i < 16; i++) key[i] = i;
    for (uint8_t i = 0; i < 15; i++) text[i] = i;
    assert_true(bt_keyed_hash64(key, text, sizeof text) == 0xa129ca6149be45e5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sealed_opens_with_its_key_alone),
        cmocka_unit_test(the_hash_has_the_published_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
