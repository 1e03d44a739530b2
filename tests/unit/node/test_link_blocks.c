/* The traffic of a link: every message, whole, both ways; KV blocks with their rows and digest; and the
 * messages that are refused. Routes and keys are in test_link.c. */
#include "node/link.h"
#include "kv/kv_pack.h"
#include "kv/kv_pages.h"
#include "rt/sock.h"
#include "tests/helpers/brain/wire_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { DEADLINE_ROUNDS = 2000, HEADS = 2, DIM = 8, LAYERS = 2, TOKENS = 32 };

typedef struct end {
    bt_link *link;
    size_t msgs, blocks, bad;
    bt_msg last; /* borrowed parts are void */
    bt_kv_header header;
    uint8_t *body; /* exact size, to see a read past its end */
    bt_fault why;
} end;

typedef struct pair {
    bt_sock_ctx *ctx;
    end router, dealer;
} pair;

static void on_msg(void *ud, const bt_msg *m)
{
    end *e = ud;
    e->msgs++;
    e->last = *m;
}

static void on_block(void *ud, const bt_kv_header *h, const uint8_t *body, const bt_peer_key *from_key)
{
    end *e = ud;
    assert_true(bt_peer_key_is_none(from_key));
    e->blocks++;
    e->header = *h;
    free(e->body);
    e->body = malloc(h->body_bytes);
    memcpy(e->body, body, h->body_bytes);
}

static void on_bad(void *ud, const bt_fault *why)
{
    end *e = ud;
    e->bad++;
    e->why = *why;
}

static void *open_socket(pair *p, bt_sock_role role)
{
    void *s = NULL;
    assert_int_equal(bt_sock_open(&s, p->ctx, role, NULL), BT_OK);
    return s;
}

static void make_end(end *e, void *socket, bool is_router, bool takes_blocks)
{
    const bt_link_handler handler = {.on_msg = on_msg, .on_block = takes_blocks ? on_block : NULL,
                                     .on_bad = on_bad, .ud = e};
    assert_int_equal(bt_link_new(&e->link, socket, is_router, &handler, NULL), BT_OK);
}

static void open_pair(pair *p, bool is_bulk)
{
    char at[BT_SOCK_ENDPOINT_BYTES];
    memset(p, 0, sizeof *p);
    assert_int_equal(bt_sock_ctx_new(&p->ctx, NULL, NULL, NULL), BT_OK);
    void *router = open_socket(p, is_bulk ? BT_SOCK_BULK_ROUTER : BT_SOCK_CONTROL_ROUTER);
    void *dealer = open_socket(p, is_bulk ? BT_SOCK_BULK_DEALER : BT_SOCK_CONTROL_DEALER);
    assert_int_equal(bt_sock_bind(at, router, p->ctx, "inproc://link", NULL), BT_OK);
    assert_int_equal(bt_sock_connect(dealer, p->ctx, "inproc://link", NULL, NULL), BT_OK);
    make_end(&p->router, router, true, is_bulk);
    make_end(&p->dealer, dealer, false, is_bulk);
}

static void close_pair(pair *p)
{
    bt_link_free(p->dealer.link);
    bt_link_free(p->router.link);
    free(p->router.body);
    free(p->dealer.body);
    bt_sock_ctx_free(p->ctx);
}

static void let_pass(end *e, const size_t *what, size_t want)
{
    for (int i = 0; i < DEADLINE_ROUNDS && *what < want; i++) {
        bt_link_receive(e->link, 16);
        if (*what < want) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(*what, want);
}

/* Sends, waiting for the connection if need be. */
static void send_msg(end *e, const bt_msg *m)
{
    bt_fault fault = {""};
    bt_err err = BT_EAGAIN;
    for (int i = 0; i < DEADLINE_ROUNDS && err == BT_EAGAIN; i++)
        if ((err = bt_link_send(e->link, m, &fault)) == BT_EAGAIN)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (err < 0) fail_msg("%s: %s", bt_err_name(err), fault.text);
}

static void send_raw(end *e, const void *const *bytes, const size_t *len, size_t n)
{
    bt_sock_frame frames[BT_SOCK_FRAMES_MAX + 4];
    for (size_t i = 0; i < n; i++) assert_int_equal(bt_sock_frame_copy(&frames[i], bytes[i], len[i]), BT_OK);
    assert_int_equal(bt_sock_send_frames(bt_link_socket(e->link), frames, n), BT_OK);
}

static void every_message_passes_both_ways(void **state)
{
    pair p;
    size_t n = 0;
    (void)state;
    open_pair(&p, false);
    for (const bt_msg_type *t = wire_samples_types; *t; t++, n++) {
        bt_msg m;
        wire_samples_make(&m, *t);
        send_msg(&p.dealer, &m);
        let_pass(&p.router, &p.router.msgs, n + 1);
        assert_int_equal(p.router.last.type, *t);
        assert_memory_equal(&p.router.last.from, &m.from, sizeof m.from);
        const bt_incarnation from = m.from;
        m.from = m.to; /* the way back goes by the incarnation heard from */
        m.to = from;
        memset(&m.from, 0x77, sizeof m.from);
        send_msg(&p.router, &m);
        let_pass(&p.dealer, &p.dealer.msgs, n + 1);
        assert_int_equal(p.dealer.last.type, *t);
    }
    assert_true(n > 10);
    assert_int_equal(bt_link_counters_of(p.router.link)->received, n);
    assert_int_equal(bt_link_counters_of(p.router.link)->sent, n);
    assert_int_equal(p.router.bad + p.dealer.bad, 0);
    close_pair(&p);
}

static void has_no_way_to_one_never_heard(void **state)
{
    pair p;
    bt_msg m;
    (void)state;
    open_pair(&p, false);
    wire_samples_make(&m, BT_MSG_HEARTBEAT);
    assert_int_equal(bt_link_send(p.router.link, &m, NULL), BT_EIO);
    assert_int_equal(bt_link_counters_of(p.router.link)->unsent, 1);
    close_pair(&p);
}

static void bad_frames_are_counted_and_go_no_further(void **state)
{
    pair p;
    bt_msg m;
    uint8_t good[4096], flipped[4096];
    size_t len = 0, bad = 0;
    (void)state;
    open_pair(&p, true);
    wire_samples_make(&m, BT_MSG_COMMIT);
    assert_int_equal(bt_msg_encode(&len, good, sizeof good, &m, NULL), BT_OK);
    memcpy(flipped, good, len);
    flipped[len - 1] ^= 1;
    const void *many[BT_SOCK_FRAMES_MAX + 2];
    size_t lens[BT_SOCK_FRAMES_MAX + 2];
    for (size_t i = 0; i < BT_SOCK_FRAMES_MAX + 2; i++) {
        many[i] = good;
        lens[i] = len;
    }
    send_raw(&p.dealer, (const void *[]){""}, (size_t[]){0}, 1);
    let_pass(&p.router, &p.router.bad, ++bad);
    send_raw(&p.dealer, (const void *[]){flipped}, (size_t[]){len}, 1);
    let_pass(&p.router, &p.router.bad, ++bad);
    send_raw(&p.dealer, (const void *[]){good}, (size_t[]){len - 1}, 1);
    let_pass(&p.router, &p.router.bad, ++bad);
    send_raw(&p.dealer, many, lens, 2); /* neither a header nor a body */
    let_pass(&p.router, &p.router.bad, ++bad);
    send_raw(&p.dealer, many, lens, 3);
    let_pass(&p.router, &p.router.bad, ++bad);
    send_raw(&p.dealer, many, lens, BT_SOCK_FRAMES_MAX + 2);
    let_pass(&p.router, &p.router.bad, ++bad);
    assert_true(strlen(p.router.why.text) > 0);
    send_raw(&p.dealer, (const void *[]){good}, (size_t[]){len}, 1); /* what follows is not shifted */
    let_pass(&p.router, &p.router.msgs, 1);
    assert_int_equal(bt_link_counters_of(p.router.link)->bad, bad);
    assert_int_equal(p.router.blocks, 0);
    close_pair(&p);
}

/* ---- blocks ---- */

typedef struct rows {
    bt_kv_pages *pages;
    bt_kv_seq seq;
    bt_kv_view view;
} rows;

static void make_rows(rows *r, uint32_t elem_bytes, uint8_t salt)
{
    memset(r, 0, sizeof *r);
    assert_int_equal(bt_kv_pages_new(&r->pages, LAYERS, HEADS, DIM, elem_bytes, 16, TOKENS, NULL), BT_OK);
    assert_int_equal(bt_kv_pages_reserve(r->pages, &r->seq, TOKENS, NULL), BT_OK);
    bt_kv_pages_view(&r->view, r->pages, &r->seq);
    for (size_t l = 0; l < LAYERS; l++)
        for (int v = 0; v < 2; v++)
            for (size_t t = 0; t < TOKENS; t++)
                for (size_t h = 0; h < HEADS; h++)
                    memset(bt_kv_view_row(&r->view, l, v, t, h),
                           (int)(salt + l * 64 + (size_t)v * 32 + t + h), r->view.head_bytes);
}

static void free_rows(rows *r)
{
    bt_kv_pages_release(r->pages, &r->seq);
    bt_kv_pages_free(r->pages);
}

static bt_kv_header sample_header(void)
{
    bt_kv_header h = {.number = 5,      .attempt = 1,      .layer = 1,      .token_begin = 16,
                      .token_count = 9, .kv_heads = HEADS, .head_dim = DIM, .dtype = BT_KV_F16};
    memset(h.owner, 1, sizeof h.owner);
    memset(h.ticket, 2, sizeof h.ticket);
    memset(h.from, 3, sizeof h.from);
    memset(h.to, 4, sizeof h.to);
    return h;
}

static void send_block(pair *p, bt_kv_header *h, const bt_kv_view *view)
{
    bt_fault fault = {""};
    bt_err e = BT_EAGAIN;
    for (int i = 0; i < DEADLINE_ROUNDS && e == BT_EAGAIN; i++)
        if ((e = bt_link_send_block(p->dealer.link, h, view, &fault)) == BT_EAGAIN)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (e < 0) fail_msg("%s: %s", bt_err_name(e), fault.text);
}

static void pass_a_block(uint32_t elem_bytes, bt_kv_dtype dtype)
{
    pair p;
    rows from, to;
    open_pair(&p, true);
    make_rows(&from, elem_bytes, 1);
    make_rows(&to, elem_bytes, 200);
    const size_t head = elem_bytes == 1 ? DIM + 2 : DIM * elem_bytes;
    bt_kv_header h = sample_header();
    h.dtype = (uint16_t)dtype;
    send_block(&p, &h, &from.view);
    let_pass(&p.router, &p.router.blocks, 1);
    assert_memory_equal(&p.router.header, &h, sizeof h);
    assert_int_equal(h.body_bytes, 2 * 9 * HEADS * head);
    assert_int_equal(bt_kv_header_check_body(&h, p.router.body, h.body_bytes, NULL), BT_OK);
    assert_int_equal(bt_kv_pack_place(&to.view, 1, 16, 9, p.router.body, h.body_bytes, NULL), BT_OK);
    for (int v = 0; v < 2; v++)
        for (size_t t = 0; t < TOKENS; t++) {
            const bool moved = t >= 16 && t < 25;
            const int same = memcmp(bt_kv_view_row(&to.view, 1, v, t, 0),
                                    bt_kv_view_row(&from.view, 1, v, t, 0), head) == 0;
            assert_int_equal(same, moved);
        }
    /* The sender is known by its block too. */
    bt_msg m;
    wire_samples_make(&m, BT_MSG_CREDIT);
    memcpy(m.to.bytes, h.from, sizeof h.from);
    assert_int_equal(bt_link_send(p.router.link, &m, NULL), BT_OK);
    free_rows(&from);
    free_rows(&to);
    close_pair(&p);
}

static void a_block_arrives_with_its_rows_and_digest(void **state)
{
    (void)state;
    pass_a_block(2, BT_KV_F16);
    pass_a_block(1, BT_KV_INT8);
}

static void a_block_of_another_length_than_its_header_says_is_bad(void **state)
{
    pair p;
    rows r;
    uint8_t bytes[BT_KV_HEADER_BYTES], body[4096] = {0};
    (void)state;
    open_pair(&p, true);
    make_rows(&r, 2, 1);
    bt_kv_header h = sample_header();
    send_block(&p, &h, &r.view); /* connected, and h complete */
    let_pass(&p.router, &p.router.blocks, 1);
    assert_int_equal(bt_kv_header_encode(bytes, &h, NULL), BT_OK);
    send_raw(&p.dealer, (const void *[]){bytes, body}, (size_t[]){sizeof bytes, h.body_bytes - 1}, 2);
    let_pass(&p.router, &p.router.bad, 1);
    send_raw(&p.dealer, (const void *[]){bytes, body}, (size_t[]){sizeof bytes, h.body_bytes + 1}, 2);
    let_pass(&p.router, &p.router.bad, 2);
    bytes[50] ^= 1;
    send_raw(&p.dealer, (const void *[]){bytes, body}, (size_t[]){sizeof bytes, h.body_bytes}, 2);
    let_pass(&p.router, &p.router.bad, 3);
    assert_int_equal(p.router.blocks, 1);
    free_rows(&r);
    close_pair(&p);
}

static void a_control_link_takes_no_blocks(void **state)
{
    pair p;
    rows r;
    (void)state;
    open_pair(&p, false);
    make_rows(&r, 2, 1);
    bt_kv_header h = sample_header();
    send_block(&p, &h, &r.view);
    let_pass(&p.router, &p.router.bad, 1);
    free_rows(&r);
    close_pair(&p);
}

/* A range outside the view is refused before anything is sent. */
static void a_block_outside_the_pages_is_not_sent(void **state)
{
    pair p;
    rows r;
    (void)state;
    open_pair(&p, true);
    make_rows(&r, 2, 1);
    bt_kv_header h = sample_header();
    h.token_begin = TOKENS;
    assert_true(bt_link_send_block(p.dealer.link, &h, &r.view, NULL) < 0);
    h = sample_header();
    h.layer = LAYERS;
    assert_true(bt_link_send_block(p.dealer.link, &h, &r.view, NULL) < 0);
    h = sample_header();
    h.dtype = BT_KV_INT8; /* and the pages hold f16 */
    assert_true(bt_link_send_block(p.dealer.link, &h, &r.view, NULL) < 0);
    assert_int_equal(bt_link_counters_of(p.dealer.link)->sent, 0);
    free_rows(&r);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_passes_both_ways),
        cmocka_unit_test(has_no_way_to_one_never_heard),
        cmocka_unit_test(bad_frames_are_counted_and_go_no_further),
        cmocka_unit_test(a_block_arrives_with_its_rows_and_digest),
        cmocka_unit_test(a_block_of_another_length_than_its_header_says_is_bad),
        cmocka_unit_test(a_control_link_takes_no_blocks),
        cmocka_unit_test(a_block_outside_the_pages_is_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
