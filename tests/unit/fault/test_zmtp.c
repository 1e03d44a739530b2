/* The fault proxy's reader of ZMTP: what libzmq writes is cut in the right places however it arrives, and
 * what nobody should write is refused before it is kept. */
#include "tests/fault/zmtp.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 11, STREAM_BYTES_MAX = 4096, UNITS_MAX = 512 };

/* A greeting as RFC 37 draws it: signature, version 3.1, mechanism, as-server, filler. */
static size_t put_greeting(uint8_t *at)
{
    memset(at, 0, ZMTP_GREETING_BYTES);
    at[0] = 0xff;
    at[8] = 1;
    at[9] = 0x7f;
    at[10] = 3;
    at[11] = 1;
    memcpy(at + 12, "NULL", 4);
    return ZMTP_GREETING_BYTES;
}

static size_t put_frame(uint8_t *at, uint8_t flags, size_t body, uint8_t fill)
{
    size_t n = 0;
    at[n++] = flags;
    for (int shift = flags & 2 ? 56 : 0; shift >= 0; shift -= 8) at[n++] = (uint8_t)((uint64_t)body >> shift);
    memset(at + n, fill, body);
    return n + body;
}

typedef struct seen {
    zmtp_kind kind[UNITS_MAX];
    size_t begin[UNITS_MAX], len[UNITS_MAX], count, total;
    uint8_t bytes[2 * STREAM_BYTES_MAX];
} seen;

/* All units of the bytes, which come in pieces of `piece`, each in memory of exactly its size. */
static bt_err read_all(seen *s, const uint8_t *bytes, size_t len, size_t piece)
{
    zmtp z;
    bt_err e = BT_OK;
    memset(s, 0, sizeof *s);
    zmtp_init(&z);
    for (size_t at = 0; at < len && e == BT_OK; at += piece) {
        size_t left = len - at < piece ? len - at : piece;
        uint8_t *copy = malloc(left);
        assert_non_null(copy);
        memcpy(copy, bytes + at, left);
        for (const uint8_t *p = copy; left && e == BT_OK;) {
            zmtp_unit u;
            e = zmtp_next(&u, &z, &p, &left);
            if (e < 0 || u.kind == ZMTP_NONE) continue;
            assert_true(s->count < UNITS_MAX);
            s->kind[s->count] = u.kind;
            s->begin[s->count] = s->total;
            s->len[s->count++] = u.len;
            memcpy(s->bytes + s->total, u.bytes, u.len);
            s->total += u.len;
        }
        free(copy);
    }
    zmtp_done(&z);
    return e;
}

static void cuts_the_same_units_however_the_bytes_arrive(void **state)
{
    uint8_t in[STREAM_BYTES_MAX];
    static seen s;
    (void)state;
    size_t n = put_greeting(in);
    n += put_frame(in + n, 4, 27, 'R'); /* READY */
    n += put_frame(in + n, 0, 0, 0);    /* an empty message */
    n += put_frame(in + n, 1, 255, 'a');
    n += put_frame(in + n, 3, 256, 'b');
    n += put_frame(in + n, 0, 3, 'c');   /* three frames, one of them long */
    n += put_frame(in + n, 6, 300, 'P'); /* a long command */
    n += put_frame(in + n, 2, 5, 'd');   /* long form of a short frame */
    static const size_t want[] = {29, 2, 257 + 265 + 5, 309, 14};
    static const zmtp_kind kinds[] = {ZMTP_COMMAND, ZMTP_MESSAGE, ZMTP_MESSAGE, ZMTP_COMMAND, ZMTP_MESSAGE};
    for (size_t piece = 1; piece <= n; piece++) {
        assert_int_equal(read_all(&s, in, n, piece), BT_OK);
        assert_int_equal(s.total, n);
        assert_memory_equal(s.bytes, in, n);
        size_t k = 0, greeted = 0;
        for (; s.kind[k] == ZMTP_GREETING; k++) greeted += s.len[k];
        assert_int_equal(greeted, ZMTP_GREETING_BYTES);
        assert_int_equal(s.count - k, 5);
        for (size_t i = 0; i < 5; i++, k++) {
            assert_int_equal(s.kind[k], kinds[i]);
            assert_int_equal(s.len[k], want[i]);
        }
    }
}

static void a_command_inside_a_message_goes_before_it(void **state)
{
    uint8_t in[STREAM_BYTES_MAX];
    static seen s;
    (void)state;
    size_t n = put_greeting(in);
    n += put_frame(in + n, 1, 4, 'a');
    n += put_frame(in + n, 4, 7, 'P');
    n += put_frame(in + n, 0, 4, 'b');
    for (size_t piece = 1; piece <= n; piece++) {
        assert_int_equal(read_all(&s, in, n, piece), BT_OK);
        assert_int_equal(s.kind[s.count - 2], ZMTP_COMMAND);
        assert_int_equal(s.kind[s.count - 1], ZMTP_MESSAGE);
        const uint8_t *m = s.bytes + s.begin[s.count - 1];
        assert_int_equal(s.len[s.count - 1], 12);
        assert_memory_equal(m, "\1\4aaaa\0\4bbbb", 12);
    }
}

static void the_greeting_passes_before_it_is_whole(void **state)
{
    uint8_t in[ZMTP_GREETING_BYTES];
    static seen s;
    (void)state;
    put_greeting(in);
    for (size_t n = 1; n <= sizeof in; n++) {
        assert_int_equal(read_all(&s, in, n, n), BT_OK);
        assert_int_equal(s.total, n);
    }
}

static void refuses_what_is_no_such_link(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
    } bad[] = {{0, 'G'}, {9, 0}, {10, 2}, {12, 'C'}, {16, 'X'}, {31, 1}};
    uint8_t in[STREAM_BYTES_MAX];
    static seen s;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t piece = 1; piece <= ZMTP_GREETING_BYTES; piece++) {
            put_greeting(in);
            in[bad[i].at] = bad[i].value;
            assert_int_equal(read_all(&s, in, ZMTP_GREETING_BYTES, piece), BT_EFORMAT);
        }
    static const uint8_t flags[] = {0x08, 0x10, 0x20, 0x40, 0x80, 0x05, 0x07, 0xff};
    for (size_t i = 0; i < sizeof flags; i++) {
        const size_t n = put_greeting(in);
        in[n] = flags[i];
        assert_int_equal(read_all(&s, in, n + 1, n + 1), BT_EFORMAT);
    }
}

static void refuses_a_hostile_length_by_its_header(void **state)
{
    static const uint64_t bodies[] = {ZMTP_UNIT_BYTES_MAX, (uint64_t)1 << 31, (uint64_t)1 << 63, UINT64_MAX,
                                      UINT64_MAX - 8};
    uint8_t in[STREAM_BYTES_MAX];
    static seen s;
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        for (int is_second = 0; is_second < 2; is_second++) {
            size_t n = put_greeting(in);
            if (is_second) n += put_frame(in + n, 1, 1, 'a');
            in[n++] = 2;
            for (int shift = 56; shift >= 0; shift -= 8) in[n++] = (uint8_t)(bodies[i] >> shift);
            assert_int_equal(read_all(&s, in, n, n), BT_ELIMIT);
        }
    size_t n = put_greeting(in);
    n += put_frame(in + n, 6, 0, 0);
    in[n - 3] = 2; /* a command of 128 KiB */
    assert_int_equal(read_all(&s, in, n, n), BT_ELIMIT);
}

static void any_bytes_after_a_greeting_are_units_or_an_error(void **state)
{
    uint8_t in[ZMTP_GREETING_BYTES + 200];
    static seen s;
    (void)state;
    put_greeting(in);
    for (uint64_t run = 0; run < 2000; run++) {
        for (size_t i = ZMTP_GREETING_BYTES; i < sizeof in; i++) {
            const uint64_t r = bt_rng_u64(SEED, run * sizeof in + i);
            in[i] = (uint8_t)(r % 4 ? r >> 8 & 7 : r >> 8);
        }
        const bt_err e = read_all(&s, in, sizeof in, sizeof in);
        assert_true(e == BT_OK || e == BT_EFORMAT || e == BT_ELIMIT);
        seen whole = s;
        assert_int_equal(read_all(&s, in, sizeof in, 1 + run % 7), e);
        assert_int_equal(s.total, whole.total);
    }
}

static void finds_every_byte_of_the_payload(void **state)
{
    uint8_t m[STREAM_BYTES_MAX];
    (void)state;
    size_t n = put_frame(m, 1, 3, 'x');
    n += put_frame(m + n, 3, 300, 'x');
    n += put_frame(m + n, 1, 0, 'x');
    n += put_frame(m + n, 0, 2, 'x');
    assert_int_equal(zmtp_payload_bytes(m, n), 305);
    for (size_t i = 0, last = 0; i < 305; i++) {
        const size_t at = zmtp_payload_at(m, n, i);
        assert_true(at > last && at < n);
        assert_int_equal(m[at], 'x');
        last = at;
    }
    assert_int_equal(zmtp_payload_at(m, n, 305), n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_the_same_units_however_the_bytes_arrive),
        cmocka_unit_test(a_command_inside_a_message_goes_before_it),
        cmocka_unit_test(the_greeting_passes_before_it_is_whole),
        cmocka_unit_test(refuses_what_is_no_such_link),
        cmocka_unit_test(refuses_a_hostile_length_by_its_header),
        cmocka_unit_test(any_bytes_after_a_greeting_are_units_or_an_error),
        cmocka_unit_test(finds_every_byte_of_the_payload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
