/* The fault proxy between two real ZeroMQ sockets: told to do nothing it changes nothing; told to do
 * something it does that, and its figures are what the other side saw. */
#include "base/num.h"
#include "base/rng.h"
#include "rt/sock.h"
#include "tests/helpers/foreign_copies.h"
#include "tests/helpers/cluster/proxy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 21, MESSAGES = 2000, FRAMES = 3, LARGE_BYTES = 1 << 20, WAIT_MS = 20000 };

typedef struct pair {
    bt_sock_ctx *ctx;
    void *router, *dealer;
    proxy p;
    uint8_t route[64];
    size_t route_len;
} pair;

static size_t size_of(uint64_t n, uint64_t frame)
{
    const uint64_t r = bt_rng_u64(SEED, n * FRAMES + frame);
    return n % 500 == 499 ? LARGE_BYTES + r % 1000 : r % (n % 10 == 0 ? 5000 : 300);
}

/* Message n: its number, then frames whose sizes and bytes are functions of it. */
static bool send_one(pair *s, bool from_router, uint32_t n)
{
    bt_sock_frame f[2 + FRAMES];
    uint8_t head[4];
    size_t count = 0;
    bt_put32(head, n);
    if (from_router) assert_int_equal(bt_sock_frame_copy(&f[count++], s->route, s->route_len), BT_OK);
    assert_int_equal(bt_sock_frame_copy(&f[count++], head, sizeof head), BT_OK);
    for (uint64_t k = 0; k < FRAMES; k++, count++) {
        assert_int_equal(bt_sock_frame_new(&f[count], size_of(n, k)), BT_OK);
        memset(f[count].data, (int)(n + k), f[count].size);
    }
    const bool ok = bt_sock_send_frames(from_router ? s->router : s->dealer, f, count) == BT_OK;
    if (!ok) bt_sock_frames_done(f, count);
    return ok;
}

typedef enum got { NOTHING, WHOLE, CHANGED } got;

static got recv_one(pair *s, bool at_router, uint32_t *ret)
{
    bt_sock_frame f[BT_SOCK_FRAMES_MAX];
    size_t count, at = 0;
    const bt_err e = bt_sock_recv_frames(at_router ? s->router : s->dealer, f, BT_SOCK_FRAMES_MAX, &count);
    if (e == BT_EAGAIN) return NOTHING;
    assert_int_equal(e, BT_OK);
    if (at_router) {
        assert_true(f[0].size <= sizeof s->route);
        memcpy(s->route, f[0].data, f[0].size);
        s->route_len = f[0].size;
        at = 1;
    }
    assert_int_equal(count - at, 1 + FRAMES);
    assert_int_equal(f[at].size, 4);
    const uint32_t n = bt_get32(f[at].data);
    bool is_whole = true;
    for (uint64_t k = 0; k < FRAMES; k++) {
        const bt_sock_frame *g = &f[at + 1 + k];
        is_whole = is_whole && n < 2 * MESSAGES && g->size == size_of(n, k);
        for (size_t i = 0; is_whole && i < g->size; i++) is_whole = g->data[i] == (uint8_t)(n + k);
    }
    bt_sock_frames_done(f, count);
    *ret = n;
    return is_whole ? WHOLE : CHANGED;
}

#define OPEN(s, ...) open_pair((s), (const char *const[]){__VA_ARGS__, NULL})
static void open_pair(pair *s, const char *const *options)
{
    char at[BT_SOCK_ENDPOINT_BYTES], dial[64];
    memset(s, 0, sizeof *s);
    assert_int_equal(bt_sock_ctx_new(&s->ctx, NULL, NULL, NULL), BT_OK);
    assert_int_equal(bt_sock_open(&s->router, s->ctx, BT_SOCK_CONTROL_ROUTER, NULL), BT_OK);
    assert_int_equal(bt_sock_open(&s->dealer, s->ctx, BT_SOCK_CONTROL_DEALER, NULL), BT_OK);
    assert_int_equal(bt_sock_bind(at, s->router, s->ctx, "tcp://127.0.0.1:*", NULL), BT_OK);
    s->p = proxy_start(options);
    proxy_order(&s->p, "target * %s", at + 6);
    snprintf(dial, sizeof dial, "tcp://%s", proxy_at(&s->p, "link"));
    assert_int_equal(bt_sock_connect(s->dealer, s->ctx, dial, NULL, NULL), BT_OK);
}

static void close_pair(pair *s)
{
    bt_sock_close(s->dealer);
    bt_sock_close(s->router);
    bt_sock_ctx_free(s->ctx);
    assert_true(proxy_stop(&s->p));
}

/* A link that works: message after message until one arrives, its routing id known. */
static void meet(pair *s)
{
    uint32_t n = 0;
    const int64_t end = spawn_now_ms() + spawn_patience(WAIT_MS);
    bool is_sent = false, came = false;
    while (!came && spawn_before(end)) {
        if (!is_sent) is_sent = send_one(s, false, 0);
        came = recv_one(s, true, &n) == WHOLE;
    }
    assert_true(came);
}

/* Sends messages 0 .. MESSAGES-1 and counts what comes, until nothing more is on its way: the last ones
 * bring MESSAGES, sent until seen. */
static void send_all(pair *s, bool up, uint32_t *met, uint32_t *order, uint32_t *ret_count,
                     uint32_t *ret_changed)
{
    uint32_t next = 0, n = 0, count = 0, changed = 0;
    const int64_t end = spawn_now_ms() + spawn_patience(WAIT_MS);
    int64_t quiet_ms = spawn_now_ms();
    memset(met, 0, MESSAGES * sizeof *met);
    while ((next < MESSAGES || spawn_now_ms() < quiet_ms + 500) && spawn_now_ms() < end) {
        if (next < MESSAGES && send_one(s, !up, next)) next++;
        for (got g; (g = recv_one(s, up, &n)) != NOTHING; quiet_ms = spawn_now_ms()) {
            if (g == CHANGED) {
                changed++;
            } else {
                met[n]++;
                order[count++] = n;
            }
        }
        if (next == MESSAGES) spawn_nap();
        else quiet_ms = spawn_now_ms();
    }
    assert_int_equal(next, MESSAGES);
    *ret_count = count;
    *ret_changed = changed;
}

static uint32_t met[MESSAGES], order[2 * MESSAGES];

static void without_faults_nothing_is_changed(void **state)
{
    static const char *const mode[] = {"messages", "bytes"};
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        pair s;
        uint32_t count, changed;
        OPEN(&s, "--route", "link", "--mode", mode[m]);
        meet(&s);
        for (int up = 0; up < 2; up++) {
            send_all(&s, up, met, order, &count, &changed);
            assert_int_equal(count, MESSAGES);
            assert_int_equal(changed, 0);
            for (uint32_t n = 0; n < MESSAGES; n++) assert_int_equal(order[n], n);
        }
        assert_int_equal(proxy_sum(&s.p, "connections"), 1);
        assert_int_equal(proxy_sum(&s.p, "malformed"), 0);
        if (m == 0) assert_int_equal(proxy_sum(&s.p, "messages"), 2 * MESSAGES + 1);
        close_pair(&s);
    }
}

static void faults_are_those_that_the_figures_say(void **state)
{
    pair s;
    uint32_t count, changed;
    (void)state;
    OPEN(&s, "--route", "link", "--seed", "5", "--delay", "0.01", "--drop", "0.02", "--repeat", "0.03",
         "--reorder", "0.04", "--corrupt", "0.05", "--delay-max", "20ms");
    proxy_order(&s.p, "faults link off");
    meet(&s);
    proxy_order(&s.p, "faults link on");
    json_int_t lost = 0, twice = 0, back = 0;
    for (int up = 0; up < 2; up++) {
        send_all(&s, up, met, order, &count, &changed);
        for (uint32_t n = 0; n < MESSAGES; n++) {
            assert_true(met[n] <= 2);
            lost += met[n] == 0;
            twice += met[n] == 2;
        }
        for (uint32_t i = 1; i < count; i++) back += order[i] < order[i - 1];
        lost -= changed;
    }
    assert_int_equal(lost, proxy_sum(&s.p, "dropped"));
    assert_int_equal(twice, proxy_sum(&s.p, "repeated"));
    assert_true(back >= proxy_sum(&s.p, "reordered") / 2);
    static const char *const kinds[] = {"delayed", "dropped", "repeated", "reordered", "corrupted"};
    for (json_int_t k = 0; k < 5; k++)
        assert_in_range(proxy_sum(&s.p, kinds[k]), (k + 1) * 2 * MESSAGES / 200, (k + 1) * 2 * MESSAGES / 50);
    assert_int_equal(proxy_sum(&s.p, "malformed"), 0);
    close_pair(&s);
}

static void a_cut_link_is_dialled_again(void **state)
{
    pair s;
    uint32_t n = 0;
    (void)state;
    OPEN(&s, "--route", "link", "--cut-every", "200ms");
    const int64_t end = spawn_now_ms() + spawn_patience(WAIT_MS);
    while (proxy_sum(&s.p, "cuts") < 5 && spawn_before(end)) {
        (void)send_one(&s, false, 1);
        while (recv_one(&s, true, &n) == WHOLE) {}
    }
    assert_true(proxy_sum(&s.p, "cuts") >= 5);
    proxy_order(&s.p, "faults * off");
    meet(&s);
    proxy_order(&s.p, "cut link");
    meet(&s);
    close_pair(&s);
}

static void a_hold_lets_nothing_through_one_way_or_both_and_ends(void **state)
{
    static const char *const way[] = {"up", "down", "both"};
    pair s;
    uint32_t n = 0;
    (void)state;
    OPEN(&s, "--route", "link");
    meet(&s);
    while (recv_one(&s, true, &n) != NOTHING) {}
    for (uint32_t i = 0; i < 3; i++) {
        proxy_order(&s.p, "hold link %s", way[i]);
        assert_true(send_one(&s, false, 10 + i));
        assert_true(send_one(&s, true, 20 + i));
        bool up = false, down = false;
        for (const int64_t end = spawn_now_ms() + 300; spawn_before(end);) {
            up |= recv_one(&s, true, &n) == WHOLE;
            down |= recv_one(&s, false, &n) == WHOLE;
        }
        assert_int_equal(up, i == 1);
        assert_int_equal(down, i == 0);
        proxy_order(&s.p, "hold link off");
        for (const int64_t end = spawn_now_ms() + spawn_patience(WAIT_MS);
             !(up && down) && spawn_before(end);) {
            up |= recv_one(&s, true, &n) == WHOLE;
            down |= recv_one(&s, false, &n) == WHOLE;
        }
        assert_true(up && down);
    }
    assert_int_equal(proxy_sum(&s.p, "connections"), 1);
    close_pair(&s);
}

static void a_slow_link_takes_its_time(void **state)
{
    enum { BYTES_PER_S = 2000000 };
    pair s;
    uint32_t n = 0;
    (void)state;
    OPEN(&s, "--route", "link");
    meet(&s);
    proxy_order(&s.p, "slow * %d", BYTES_PER_S);
    const int64_t begin = spawn_now_ms();
    assert_true(send_one(&s, false, 499)); /* a large one */
    const int64_t end = begin + spawn_patience(WAIT_MS);
    for (got g = NOTHING; g == NOTHING && spawn_before(end);) g = recv_one(&s, true, &n);
    assert_int_equal(n, 499);
    const int64_t want_ms = (int64_t)FRAMES * LARGE_BYTES * 1000 / BYTES_PER_S;
    assert_true(spawn_now_ms() - begin > want_ms * 9 / 10);
    close_pair(&s);
}

static void refuses_wrong_options(void **state)
{
    (void)state;
    static const char *const bad[][4] = {{"--json", NULL},
                                         {"--route", "a=nowhere", NULL},
                                         {"--route", "a=1.2.3:5", NULL},
                                         {"--route", "a", "--drop=2", NULL}};
    pair s;
    OPEN(&s, "--route", "link"); /* shows where the program is */
    char path[256];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)spawn_pid(s.p.child));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *argv[6] = {path};
        for (size_t k = 0; k < 4 && bad[i][k]; k++) argv[k + 1] = bad[i][k];
        assert_true(spawn_wait(spawn_start(argv), spawn_patience(5000)) > 0);
    }
    close_pair(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(without_faults_nothing_is_changed, spawn_teardown),
        cmocka_unit_test_teardown(faults_are_those_that_the_figures_say, spawn_teardown),
        cmocka_unit_test_teardown(a_cut_link_is_dialled_again, spawn_teardown),
        cmocka_unit_test_teardown(a_hold_lets_nothing_through_one_way_or_both_and_ends, spawn_teardown),
        cmocka_unit_test_teardown(a_slow_link_takes_its_time, spawn_teardown),
        cmocka_unit_test_teardown(refuses_wrong_options, spawn_teardown),
    };
    spawn_setup();
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    spawn_cleanup();
    return rc;
}
