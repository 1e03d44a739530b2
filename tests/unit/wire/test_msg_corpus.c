/* The fuzz corpora of frames and block headers are what this program makes of the code as it is, so a change
 * of the format shows here. To write them anew after reading the difference: BATON_UPDATE_CORPUS=1 and run
 * this from the root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "kv/kv_header.h"
#include "tests/helpers/brain/wire_samples.h"

static void keep(const char *target, const char *name, const uint8_t *bytes, size_t len)
{
    char path[256];
    snprintf(path, sizeof path, "tests/fuzz/corpus/%s/%s", target, name);
    if (getenv("BATON_UPDATE_CORPUS")) {
        FILE *f = fopen(path, "wbe");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, len, f), len);
        assert_int_equal(fclose(f), 0);
    }
    static uint8_t have[1 << 16];
    FILE *f = fopen(path, "rbe");
    if (!f) fail_msg("%s is not there", path);
    const size_t n = fread(have, 1, sizeof have, f);
    fclose(f);
    if (n != len || memcmp(have, bytes, len) != 0) fail_msg("%s is not what the code makes today", path);
}

static void keep_changed(const char *target, const char *name, const uint8_t *bytes, size_t len, size_t at,
                         uint8_t value)
{
    uint8_t copy[4096];
    assert_true(len <= sizeof copy);
    memcpy(copy, bytes, len);
    copy[at] = value;
    keep(target, name, copy, len);
}

static void need_the_corpus(void)
{
    if (access("tests/fuzz/corpus/msg", R_OK) != 0) skip(); /* not run from the root of the tree */
}

static void frames_of_every_type_are_kept(void **state)
{
    (void)state;
    need_the_corpus();
    for (const bt_msg_type *t = wire_samples_types; *t; t++) {
        bt_msg m;
        wire_samples_make(&m, *t);
        uint8_t frame[8192];
        size_t len = 0;
        assert_int_equal(bt_msg_encode(&len, frame, sizeof frame, &m, NULL), BT_OK);
        char name[64];
        snprintf(name, sizeof name, "frame-%s", bt_msg_type_name(*t));
        for (char *p = name; *p; p++) *p = *p == '_' ? '-' : (char)tolower((unsigned char)*p);
        keep("msg", name, frame, len);
        memcpy(name, "body-", 5); /* type and body, for the second half of the target */
        memmove(name + 5, name + 6, strlen(name + 6) + 1);
        frame[63] = (uint8_t)*t;
        keep("msg", name, frame + 63, len - 63);
    }
}

static void broken_frames_are_kept(void **state)
{
    (void)state;
    need_the_corpus();
    bt_msg m;
    wire_samples_make(&m, BT_MSG_TOKENS);
    uint8_t frame[8192];
    size_t len = 0;
    assert_int_equal(bt_msg_encode(&len, frame, sizeof frame, &m, NULL), BT_OK);
    keep("msg", "broken-empty", frame, 0);
    keep("msg", "broken-short", frame, 63);
    keep("msg", "broken-cut", frame, len - 1);
    keep_changed("msg", "broken-flipped", frame, len, len - 1, (uint8_t)(frame[len - 1] ^ 4));
    keep_changed("msg", "broken-length", frame, len, 11, 0x7f);
    frame[4] = 1;
    wire_samples_seal(frame, len);
    keep("msg", "broken-version-1", frame, len);
    frame[4] = BT_PROTOCOL_VERSION;
    frame[6] = 8;
    wire_samples_seal(frame, len);
    keep("msg", "broken-type-8", frame, len);
    static const uint8_t unknown[] = {BT_MSG_BYE, 0x78, 5, 0x7a, 2, 'h', 'i', 0x0a, 1, 'x'};
    keep("msg", "odd-unknown-fields", unknown, sizeof unknown);
    uint8_t many[1 + 4000] = {BT_MSG_PREFILL};
    for (size_t i = 1; i < sizeof many; i++) many[i] = i % 2 ? 0x10 : 5;
    keep("msg", "odd-unpacked-ids", many, sizeof many);
    for (size_t i = 1; i < sizeof many; i++) many[i] = i % 2 ? 0x0a : 0;
    keep("msg", "odd-repeated-ref", many, sizeof many);
    for (size_t i = 1; i < sizeof many; i++) many[i] = i % 2 ? 0x7a : 0;
    keep("msg", "odd-many-unknown", many, sizeof many);
}

static void headers_are_kept(void **state)
{
    (void)state;
    need_the_corpus();
    bt_kv_header h = {.number = 7,        .attempt = 1,  .layer = 29,    .token_begin = 256,
                      .token_count = 100, .kv_heads = 3, .head_dim = 64, .dtype = 1};
    h.body_bytes = bt_kv_header_body_bytes(100, 3, 64, 1);
    h.owner[0] = h.from[1] = h.to[2] = 1;
    uint8_t b[BT_KV_HEADER_BYTES];
    assert_int_equal(bt_kv_header_encode(b, &h, NULL), BT_OK);
    keep("kv_header", "valid-f16", b, sizeof b);
    keep("kv_header", "short", b, sizeof b - 1);
    keep_changed("kv_header", "flipped", b, sizeof b, 70, 0x80);
    keep_changed("kv_header", "version-3", b, sizeof b, 4, 3); /* the target sets their checksum right */
    keep_changed("kv_header", "flags", b, sizeof b, 6, 1);
    keep_changed("kv_header", "body-bytes", b, sizeof b, 60, 1);
    keep_changed("kv_header", "off-grid", b, sizeof b, 40, 8);
    keep_changed("kv_header", "dtype-4", b, sizeof b, 56, 4);
    h.dtype = 3;
    h.body_bytes = bt_kv_header_body_bytes(100, 3, 64, 3);
    assert_int_equal(bt_kv_header_encode(b, &h, NULL), BT_OK);
    keep("kv_header", "valid-int8", b, sizeof b);
    keep_changed("kv_header", "int8-odd-head", b, sizeof b, 52, 63);
    h = (bt_kv_header){
        .number = UINT64_MAX,  .attempt = UINT32_MAX, .layer = 255,    .token_begin = (1 << 20) - 4096,
        .token_count = 4096,   .kv_heads = 16,        .head_dim = 128, .dtype = 2,
        .body_bytes = 64 << 20};
    memset(h.owner, 0xff, 16);
    memset(h.from, 0xff, 16);
    memset(h.to, 0xff, 16);
    assert_int_equal(bt_kv_header_encode(b, &h, NULL), BT_OK);
    keep("kv_header", "valid-largest", b, sizeof b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_every_type_are_kept),
        cmocka_unit_test(broken_frames_are_kept),
        cmocka_unit_test(headers_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
