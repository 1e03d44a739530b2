/* The digest is the 128-bit hash of header and body laid end to end. */
#include "crypto/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <xxhash.h>

static void covers_header_then_body(void **s)
{
    (void)s;
    uint8_t both[56 + 3000], got[BT_DIGEST_BYTES];
    for (size_t i = 0; i < sizeof both; i++) both[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t body = 0; body <= 3000; body += 375) {
        XXH128_canonical_t want;
        XXH128_canonicalFromHash(&want, XXH3_128bits(both, 56 + body));
        bt_digest_block(got, both, 56, both + 56, body);
        assert_true(bt_digest_equal(got, want.digest));
        got[15] ^= 1;
        assert_false(bt_digest_equal(got, want.digest));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(covers_header_then_body) };
    return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
