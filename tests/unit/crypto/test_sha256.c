/* SHA-256 gives the values that its standard publishes, however the bytes are cut. */
#include "crypto/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

/* FIPS 180-4's examples, of NIST. */
static const struct {
    const char *text, *hex;
} published[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};

static void texts_have_the_published_values_however_they_are_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const size_t n = strlen(published[i].text);
        for (size_t cut = 0; cut <= n; cut++) {
            char hex[BT_SHA256_HEX_CHARS];
            bt_sha256 s;
            bt_sha256_begin(&s);
            bt_sha256_add(&s, published[i].text, cut);
            bt_sha256_add(&s, published[i].text + cut, n - cut);
            assert_string_equal(bt_sha256_end_hex(hex, &s), published[i].hex);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_the_published_values_however_they_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
