/* Splitting what is mapped: every session within the window, nothing lost, and both numbers where it
 * cannot be. */
#include "npu/lower/sessions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { PARTS = 33 };

/* One weight for each part, all of other bytes. */
static bt_err split(bt_pkg_session *ret, size_t *ret_n, const bt_profile *p, const uint64_t *bytes,
                    size_t parts, uint64_t shared, bt_fault *f)
{
    bt_sessions_weight w[PARTS];
    for (size_t i = 0; i < parts; i++) w[i] = (bt_sessions_weight){(uint32_t)i, (uint32_t)i + 100, bytes[i]};
    return bt_sessions_split(ret, ret_n, p, w, parts, parts, shared, f);
}

static bt_profile profile(const char *name)
{
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, name, NULL), BT_OK);
    return p;
}

static void what_is_beyond_the_window_becomes_sessions_within_it(void **state) /* AC-d2 */
{
    (void)state;
    /* A 7 B model in 8 bits on Hexagon v75: 32 layers of 202 MB and an output matrix of 131 MB do not fit
     * 3.5 GiB. */
    const bt_profile p = profile("hexagon-v75");
    const uint64_t shared = 64 << 20;
    uint64_t bytes[PARTS], all = 0, mapped = 0;
    for (int i = 0; i < PARTS - 1; i++)
        bytes[i] = 4 * bt_sessions_matrix_bytes(&p, 4096, 4096, 8, 0, 0) +
                   2 * bt_sessions_matrix_bytes(&p, 11008, 4096, 8, 0, 0) +
                   bt_sessions_matrix_bytes(&p, 4096, 11008, 8, 0, 0);
    assert_int_equal(bytes[0],
                     4 * (4096 * 4096 + 4096 * 8) + 2 * (11008 * 4096 + 11008 * 8) + 4096 * 11008 + 4096 * 8);
    bytes[PARTS - 1] = bt_sessions_matrix_bytes(&p, 32000, 4096, 8, 0, 0);
    for (int i = 0; i < PARTS; i++) all += bytes[i];
    assert_true(all > p.map_window_bytes);
    bt_pkg_session s[PARTS];
    size_t n = 0;
    assert_int_equal(split(s, &n, &p, bytes, PARTS, shared, NULL), BT_OK);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++) {
        assert_true(s[i].mapped_bytes <= p.map_window_bytes);
        assert_int_equal(s[i].first_layer, i ? s[i - 1].last_layer + 1 : 0);
        assert_true(s[i].last_layer >= s[i].first_layer);
        mapped += s[i].mapped_bytes;
    }
    assert_int_equal(s[n - 1].last_layer, PARTS - 1);
    assert_int_equal(mapped, all + n * shared);
    const bt_profile host = profile("host");
    assert_int_equal(split(s, &n, &host, bytes, PARTS, shared, NULL), BT_OK);
    assert_int_equal(n, 1);
    assert_int_equal(s[0].mapped_bytes, all + shared);
}

static void the_edge_of_the_window(void **state)
{
    (void)state;
    bt_profile p = profile("host");
    const uint64_t bytes[] = {40, 50, 90, 1, 89, 90};
    bt_pkg_session s[6];
    size_t n;
    p.map_window_bytes = 100;
    assert_int_equal(split(s, &n, &p, bytes, 6, 10, NULL), BT_OK);
    assert_int_equal(n, 4);
    static const uint64_t want[][3] = {{0, 1, 100}, {2, 2, 100}, {3, 4, 100}, {5, 5, 100}};
    for (size_t i = 0; i < n; i++)
        assert_true(s[i].first_layer == want[i][0] && s[i].last_layer == want[i][1] &&
                    s[i].mapped_bytes == want[i][2]);
}

static void one_layer_beyond_the_window_is_refused_with_both_numbers(void **state) /* AC-d2 */
{
    (void)state;
    bt_profile p = profile("host");
    const uint64_t bytes[] = {40, 5000, 90}, huge[] = {UINT64_MAX - 5, 1}, much[] = {600, 700};
    bt_pkg_session s[3];
    bt_fault f;
    size_t n = 77;
    p.map_window_bytes = 4096;
    assert_int_equal(split(s, &n, &p, bytes, 3, 10, &f), BT_ELIMIT);
    assert_true(strstr(f.text, "layer 1") && strstr(f.text, "5010") && strstr(f.text, "4096"));
    assert_non_null(strstr(f.text, "the smallest window that would do is 5010"));
    p.map_window_bytes = 5010;
    assert_int_equal(split(s, &n, &p, bytes, 3, 10, NULL), BT_OK);
    p.map_window_bytes = 4096;
    n = 77;
    assert_int_equal(split(s, &n, &p, huge, 2, 10, NULL), BT_ELIMIT);
    p.map_window_bytes = 0;
    assert_int_equal(split(s, &n, &p, huge, 2, 10, NULL), BT_ELIMIT);
    p.memory_bytes = 1309;
    assert_int_equal(split(s, &n, &p, much, 2, 10, &f), BT_ELIMIT);
    assert_true(strstr(f.text, "1310") && strstr(f.text, "1309"));
    assert_int_equal(n, 77);
    p.memory_bytes++;
    assert_int_equal(split(s, &n, &p, much, 2, 10, NULL), BT_OK);
    assert_int_equal(n, 1);
}

/* Layers 0 and 1 name one constant twice, layer 2 another that layer 0 has too. */
static void a_constant_is_mapped_once_by_each_session_that_holds_it(void **state)
{
    (void)state;
    static const bt_sessions_weight w[] = {{0, 7, 40}, {0, 7, 40}, {0, 8, 20},
                                           {1, 7, 40}, {1, 9, 5},  {2, 8, 20}};
    bt_profile p = profile("host");
    bt_pkg_session s[3];
    bt_fault f = {""};
    size_t n;
    assert_int_equal(bt_sessions_split(s, &n, &p, w, 6, 3, 10, NULL), BT_OK);
    assert_int_equal(n, 1);
    assert_int_equal(s[0].mapped_bytes, 10 + 40 + 20 + 5);
    p.map_window_bytes = 74; /* layer 0 takes 70, layer 1 adds 5, alone 55; layer 2 adds 20 there */
    assert_int_equal(bt_sessions_split(s, &n, &p, w, 6, 3, 10, NULL), BT_OK);
    assert_int_equal(n, 3);
    assert_true(s[0].mapped_bytes == 70 && s[1].mapped_bytes == 55 && s[2].mapped_bytes == 30);
    p.map_window_bytes = 75;
    assert_int_equal(bt_sessions_split(s, &n, &p, w, 6, 3, 10, NULL), BT_OK);
    assert_int_equal(n, 1);
    p.map_window_bytes = 69;
    assert_int_equal(bt_sessions_split(s, &n, &p, w, 6, 3, 10, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "the smallest window that would do is 70"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_beyond_the_window_becomes_sessions_within_it),
        cmocka_unit_test(the_edge_of_the_window),
        cmocka_unit_test(a_constant_is_mapped_once_by_each_session_that_holds_it),
        cmocka_unit_test(one_layer_beyond_the_window_is_refused_with_both_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
