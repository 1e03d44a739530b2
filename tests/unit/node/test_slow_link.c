/* A decode node that takes nothing: what waits for it in its sender's socket is bounded, the sender is told
 * at once instead of waiting, and its other links do not notice. The queue is that of rt/sock.h; credit,
 * which ends sending much earlier, is test_xfer_credit.c. */
#include "kernels/kv_view.h"
#include "node/link.h"
#include "kv/kv_dtype.h"
#include "rt/sock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum {
    TOKENS = 16,
    HEADS = 1,
    DIM = 8,
    ROW_BYTES = HEADS * DIM * 2,
    QUEUE = 64,
    MANY = 1000,
    DEADLINE_ROUNDS = 5000
};

typedef struct peer {
    bt_link *in, *out;
    size_t came;
} peer;

static bt_sock_ctx *ctx;
static uint8_t memory[2 * TOKENS * ROW_BYTES];
static uint8_t *page[] = {memory};
static const bt_kv_view rows = {.page = page,
                                .page_tokens = TOKENS,
                                .tokens_capacity = TOKENS,
                                .layer_bytes = sizeof memory,
                                .plane_bytes = TOKENS * ROW_BYTES,
                                .token_bytes = ROW_BYTES,
                                .head_bytes = DIM * 2,
                                .elem_bytes = 2,
                                .layers = 1,
                                .kv_heads = HEADS,
                                .head_dim = DIM};

static void on_msg(void *ud, const bt_msg *m) { (void)ud, (void)m; }
static void on_bad(void *ud, const bt_fault *why)
{
    (void)ud;
    fail_msg("%s", why->text);
}

static bool send_one(peer *p)
{
    bt_fault fault = {""};
    bt_kv_header h = {.number = 1,       .attempt = 1,    .token_count = TOKENS,
                      .kv_heads = HEADS, .head_dim = DIM, .dtype = BT_KV_F16,
                      .owner = {1},      .from = {2},     .to = {3}};
    const bt_err e = bt_link_send_block(p->out, &h, &rows, &fault);
    if (e < 0 && e != BT_EAGAIN) fail_msg("%s: %s", bt_err_name(e), fault.text);
    return e == BT_OK;
}

static void receive_some(peer *p)
{
    const size_t before = p->came;
    bt_link_receive(p->in, 16);
    if (p->came == before) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void open_peer(peer *p, const char *endpoint, const bt_link_handler *handler)
{
    char at[BT_SOCK_ENDPOINT_BYTES];
    void *router = NULL, *dealer = NULL;
    const bt_link_handler none = {.on_msg = on_msg, .on_bad = on_bad};
    assert_int_equal(bt_sock_open(&router, ctx, BT_SOCK_BULK_ROUTER, NULL), BT_OK);
    assert_int_equal(bt_sock_open(&dealer, ctx, BT_SOCK_BULK_DEALER, NULL), BT_OK);
    assert_int_equal(bt_sock_bind(at, router, ctx, endpoint, NULL), BT_OK);
    assert_int_equal(bt_sock_connect(dealer, ctx, at, NULL, NULL), BT_OK);
    assert_int_equal(bt_link_new(&p->in, router, true, handler, NULL), BT_OK);
    assert_int_equal(bt_link_new(&p->out, dealer, false, &none, NULL), BT_OK);
    for (int i = 0; i < DEADLINE_ROUNDS && !send_one(p); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (int i = 0; i < DEADLINE_ROUNDS && p->came == 0; i++) receive_some(p);
    assert_int_equal(p->came, 1);
}

static void close_peer(peer *p)
{
    bt_link_free(p->out);
    bt_link_free(p->in);
}

static void count_block(void *ud, const bt_kv_header *h, const uint8_t *body, const bt_peer_key *from_key)
{
    (void)h, (void)body, (void)from_key;
    ((peer *)ud)->came++;
}

static void a_peer_that_takes_nothing_holds_few_blocks_and_stops_no_other(void **state)
{
    (void)state;
    peer slow = {0}, quick = {0};
    assert_int_equal(bt_sock_ctx_new(&ctx, NULL, NULL, NULL), BT_OK);
    open_peer(&slow, "inproc://slow",
              &(bt_link_handler){.on_msg = on_msg, .on_block = count_block, .on_bad = on_bad, .ud = &slow});
    open_peer(&quick, "inproc://quick",
              &(bt_link_handler){.on_msg = on_msg, .on_block = count_block, .on_bad = on_bad, .ud = &quick});
    size_t held = 0;
    while (held <= MANY && send_one(&slow)) held++;
    assert_in_range(held, QUEUE, 2 * QUEUE); /* its own queue and the peer's; inside a process they are one */
    const uint64_t unsent = bt_link_counters_of(slow.out)->unsent;
    assert_false(send_one(&slow));
    assert_int_equal(bt_link_counters_of(slow.out)->unsent, unsent + 1);
    for (size_t sent = 1; sent < MANY;) {
        if (send_one(&quick)) sent++;
        else receive_some(&quick);
    }
    for (int i = 0; i < DEADLINE_ROUNDS && quick.came < MANY; i++) receive_some(&quick);
    assert_int_equal(quick.came, MANY);
    assert_false(send_one(&slow));
    /* It wakes up: what it was sent is all there, once, and more is taken. */
    for (int i = 0; i < DEADLINE_ROUNDS && slow.came < held + 1; i++) receive_some(&slow);
    assert_int_equal(slow.came, held + 1);
    for (int i = 0; i < DEADLINE_ROUNDS && !send_one(&slow); i++) receive_some(&slow);
    for (int i = 0; i < DEADLINE_ROUNDS && slow.came < held + 2; i++) receive_some(&slow);
    assert_int_equal(slow.came, held + 2);
    close_peer(&slow);
    close_peer(&quick);
    bt_sock_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_takes_nothing_holds_few_blocks_and_stops_no_other)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
