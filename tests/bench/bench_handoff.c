/* The rate of the bulk path: KV blocks of the default model's shape, gathered out of pages, sent through real
 * bulk sockets over loopback TCP to another thread, checked and placed in pages there, under the credit of a
 * bulk link. Plain; under CURVE; and sealed with an AEAD over a plain socket, in the I/O threads or in worker
 * threads of both sides. Beside them bare ZeroMQ (the same sockets and sizes, nothing gathered, checked or
 * placed) and memcpy. All are measured in turn, round after round, and what arrived is compared with what was
 * sent before a figure counts.
 *
 *   bench_handoff [--rounds 5] [--json]
 *
 * A sealed block: a random key for the run, a counter as nonce, its header as additional data, tag and
 * counter behind the body; encrypted where it lies in the frame and opened where it arrived. "cpu" is the
 * time of all threads of both sides, libzmq's and the kernel's part included. */
#include "tests/bench/kit.h"
#include "base/clock.h"
#include "base/ring.h"
#include "crypto/keys_generate.h"
#include "kv/kv_dtype.h"
#include "kv/kv_pack.h"
#include "rt/loop.h"
#include "node/net.h"
#include "xfer/xfer_credit.h"
#include "tests/helpers/temp_folder.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    LAYERS = 30,
    HEADS = 3,
    DIM = 64,
    PAGE_TOKENS = 64,
    TOKENS = 4096,
    BLOCK_TOKENS = 256,
    BODY_BYTES = 2 * BLOCK_TOKENS * HEADS * DIM * 2,
    TAG_BYTES = 16,
    SEAL_BYTES = TAG_BYTES + 8,
    BLOCKS = LAYERS * TOKENS / BLOCK_TOKENS,
    WARM_BLOCKS = 64,
    ALL_BLOCKS = BLOCKS + WARM_BLOCKS,
    CELLS = 32,
    WORKERS_MAX = 2,
    ROUNDS_MAX = 99,
    WAIT_MS = 30000,
};
#define WINDOW_BYTES ((uint64_t)64 << 20) /* the default of --window */

/* ---- sealing ---- */

typedef int seal_fn(uint8_t *body, uint8_t *tag, size_t len, const uint8_t *ad, size_t ad_len,
                    uint64_t number);
static union {
    uint8_t bytes[32];
    crypto_aead_aes256gcm_state aes;
} key; /* of one run; aes: expanded */

static void nonce_of(uint8_t *nonce, size_t len, uint64_t number)
{
    memset(nonce, 0, len);
    for (size_t i = 0; i < 8; i++) nonce[i] = (uint8_t)(number >> 8 * i);
}

#define AEAD(name, alg) \
    static int name##_seal(uint8_t *m, uint8_t *tag, size_t n, const uint8_t *ad, size_t ad_len, \
                           uint64_t number) \
    { \
        uint8_t nonce[crypto_aead_##alg##_NPUBBYTES]; \
        nonce_of(nonce, sizeof nonce, number); \
        return crypto_aead_##alg##_encrypt_detached(m, tag, NULL, m, n, ad, ad_len, NULL, nonce, key.bytes); \
    } \
    static int name##_open(uint8_t *m, uint8_t *tag, size_t n, const uint8_t *ad, size_t ad_len, \
                           uint64_t number) \
    { \
        uint8_t nonce[crypto_aead_##alg##_NPUBBYTES]; \
        nonce_of(nonce, sizeof nonce, number); \
        return crypto_aead_##alg##_decrypt_detached(m, NULL, m, n, tag, ad, ad_len, nonce, key.bytes); \
    }
AEAD(chacha, chacha20poly1305_ietf)
AEAD(xchacha, xchacha20poly1305_ietf)

static int aes_seal(uint8_t *m, uint8_t *tag, size_t n, const uint8_t *ad, size_t ad_len, uint64_t number)
{
    uint8_t nonce[crypto_aead_aes256gcm_NPUBBYTES];
    nonce_of(nonce, sizeof nonce, number);
    return crypto_aead_aes256gcm_encrypt_detached_afternm(m, tag, NULL, m, n, ad, ad_len, NULL, nonce,
                                                          &key.aes);
}
static int aes_open(uint8_t *m, uint8_t *tag, size_t n, const uint8_t *ad, size_t ad_len, uint64_t number)
{
    uint8_t nonce[crypto_aead_aes256gcm_NPUBBYTES];
    nonce_of(nonce, sizeof nonce, number);
    return crypto_aead_aes256gcm_decrypt_detached_afternm(m, NULL, m, n, tag, ad, ad_len, nonce, &key.aes);
}

typedef struct aead {
    const char *name;
    seal_fn *seal, *open;
    bool is_aes;
} aead;
static const aead aes = {"AES-256-GCM", aes_seal, aes_open, true};
static const aead chacha = {"ChaCha20-Poly1305", chacha_seal, chacha_open, false};
static const aead xchacha = {"XChaCha20-Poly1305", xchacha_seal, xchacha_open, false};

static void new_key(const aead *a)
{
    uint8_t fresh[32];
    randombytes_buf(fresh, sizeof fresh);
    if (a->is_aes) crypto_aead_aes256gcm_beforenm(&key.aes, fresh);
    else memcpy(key.bytes, fresh, sizeof fresh);
}

/* ---- what is measured ---- */

/* by_link: bt_link does it all, as in the nodes. Otherwise frames pass with nothing in them (sealed NULL),
 * or sealed. */
typedef struct path {
    const char *name;
    bool by_link, has_keys;
    const aead *sealed;
    size_t workers;
    const char *copies;
} path;
static const path paths[] = {
    {"ZeroMQ alone, plain", false, false, NULL, 0, "0 + 0"},
    {"ZeroMQ alone, CURVE", false, true, NULL, 0, "0 + 0, libzmq 2 + 1"},
    {"blocks, plain", true, false, NULL, 0, "1 + 1"},
    {"blocks, CURVE", true, true, NULL, 0, "1 + 1, libzmq 2 + 1"},
    {"AES-256-GCM in the I/O thread", false, false, &aes, 0, "1 + 1"},
    {"AES-256-GCM, 1 worker a side", false, false, &aes, 1, "1 + 1"},
    {"AES-256-GCM, 2 workers a side", false, false, &aes, 2, "1 + 1"},
    {"ChaCha20-Poly1305, I/O thread", false, false, &chacha, 0, "1 + 1"},
    {"ChaCha20-Poly1305, 1 worker", false, false, &chacha, 1, "1 + 1"},
    {"ChaCha20-Poly1305, 2 workers", false, false, &chacha, 2, "1 + 1"},
    {"XChaCha20-Poly1305, 2 workers", false, false, &xchacha, 2, "1 + 1"},
};
enum { PATHS = sizeof paths / sizeof *paths };
typedef struct sample {
    double bytes_per_s, cpu_s_per_gb;
} sample;

/* A block on its way through a side. */
typedef struct cell {
    bt_sock_frame frames[3];
    size_t count;
    bt_kv_header h;
    uint64_t number;
    bool is_good;
} cell;
typedef struct helper {
    struct side *side;
    pthread_t thread;
    bt_ring *jobs, *done;
} helper;

typedef struct side {
    const path *p;
    bool is_sender;
    bt_loop *loop;
    bt_net *net;
    bt_link *link;
    void *socket; /* the link's */
    uint64_t watch;
    bt_kv_view view;
    uint8_t *page[TOKENS / PAGE_TOKENS];
    uint32_t next, over; /* blocks begun; blocks that are through */
    bt_xfer_purse purse; /* sender */
    bt_xfer_grant grant; /* receiver */
    cell cells[CELLS];
    uint32_t idle[CELLS], idle_len, ready[CELLS], ready_len;
    helper helpers[WORKERS_MAX];
    bt_sock_frame route; /* the way back, receiver without a link */
    bool has_route;
    int64_t warm_us, end_us; /* receiver */
    double warm_cpu_s, end_cpu_s;
} side;

static const bt_incarnation sender_id = {{1}}, receiver_id = {{2}};

static void must(bt_err e, const bt_fault *fault)
{
    if (e < 0) bench_die(fault->text);
}

static double cpu_seconds(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static bt_kv_header header_of(uint64_t number)
{
    const uint32_t n = (uint32_t)(number % BLOCKS);
    bt_kv_header h = {.number = 1,
                      .attempt = 1,
                      .layer = n % LAYERS,
                      .token_begin = n / LAYERS * BLOCK_TOKENS,
                      .token_count = BLOCK_TOKENS,
                      .kv_heads = HEADS,
                      .head_dim = DIM,
                      .dtype = BT_KV_F16,
                      .body_bytes = BODY_BYTES};
    h.owner[0] = 3;
    memcpy(h.from, sender_id.bytes, sizeof h.from);
    memcpy(h.to, receiver_id.bytes, sizeof h.to);
    return h;
}

/* Sender: a frame with the rows, sealed where they lie. */
static void make_cell(const side *s, cell *c)
{
    const aead *a = s->p->sealed;
    bt_fault fault = {"out of memory"};
    c->count = 2;
    c->h = header_of(c->number);
    must(bt_sock_frame_new(&c->frames[0], BT_KV_HEADER_BYTES), &fault);
    must(bt_sock_frame_new(&c->frames[1], BODY_BYTES + (a ? SEAL_BYTES : 0)), &fault);
    if (!a) return;
    uint8_t *body = c->frames[1].data, *head = c->frames[0].data;
    must(bt_kv_pack_take(body, BODY_BYTES, &s->view, c->h.layer, c->h.token_begin, c->h.token_count, &fault),
         &fault);
    bt_kv_header_digest(c->h.digest, &c->h, body);
    must(bt_kv_header_encode(head, &c->h, &fault), &fault);
    memcpy(body + BODY_BYTES + TAG_BYTES, &c->number, sizeof c->number);
    if (a->seal(body, body + BODY_BYTES, BODY_BYTES, head, BT_KV_HEADER_BYTES, c->number))
        bench_die("a block could not be sealed");
}

/* Receiver: opened where it arrived, checked, placed. frames[0] is the routing id. */
static void take_cell(const side *s, cell *c)
{
    const aead *a = s->p->sealed;
    const bt_sock_frame *head = &c->frames[1], *body = &c->frames[2];
    bt_fault fault = {"a frame of a wrong size"};
    c->is_good = c->count == 3 && body->size == BODY_BYTES + (a ? SEAL_BYTES : 0);
    if (!c->is_good || !a) return;
    memcpy(&c->number, body->data + BODY_BYTES + TAG_BYTES, sizeof c->number);
    c->is_good =
        bt_kv_header_decode(&c->h, head->data, head->size, &fault) == BT_OK &&
        a->open(body->data, body->data + BODY_BYTES, BODY_BYTES, head->data, head->size, c->number) == 0 &&
        bt_kv_header_check_body(&c->h, body->data, BODY_BYTES, &fault) == BT_OK &&
        bt_kv_pack_place(&s->view, c->h.layer, c->h.token_begin, c->h.token_count, body->data, BODY_BYTES,
                         &fault) == BT_OK;
}

static void *help(void *ud)
{
    helper *w = ud;
    uint32_t i;
    for (;;) {
        while (!bt_ring_pop(w->jobs, &i)) (void)bt_ring_wait(w->jobs, -1);
        if (i == CELLS) return NULL;
        cell *c = &w->side->cells[i];
        if (w->side->is_sender) make_cell(w->side, c);
        else take_cell(w->side, c);
        (void)bt_ring_push(w->done, &i); /* room for every cell */
    }
}

/* ---- sender ---- */

static void hear_credit(side *s)
{
    bt_sock_frame frame;
    size_t n;
    if (s->p->by_link) bt_link_receive(s->link, 64);
    else
        while (bt_sock_recv_frames(s->socket, &frame, 1, &n) == BT_OK) {
            uint64_t total;
            memcpy(&total, frame.data, sizeof total);
            bt_xfer_purse_grant(&s->purse, total);
            bt_sock_frames_done(&frame, 1);
        }
}

static bool has_credit(const side *s) { return s->purse.granted_bytes - s->purse.used_bytes >= BODY_BYTES; }

static bool send_by_link(side *s)
{
    bt_fault fault;
    bt_kv_header h = header_of(s->next);
    const bt_err e = bt_link_send_block(s->link, &h, &s->view, &fault);
    if (e < 0 && e != BT_EAGAIN) bench_die(fault.text);
    if (e < 0) return false;
    s->next++;
    return true;
}

static bool send_ready(side *s)
{
    cell *c = &s->cells[s->ready[0]];
    if (bt_sock_send_frames(s->socket, c->frames, c->count) < 0) return false;
    s->idle[s->idle_len++] = s->ready[0];
    memmove(s->ready, s->ready + 1, --s->ready_len * sizeof *s->ready);
    return true;
}

static void begin_cells(side *s)
{
    while (s->idle_len && s->next < ALL_BLOCKS && has_credit(s)) {
        const uint32_t i = s->idle[--s->idle_len];
        s->purse.used_bytes += BODY_BYTES;
        s->cells[i].number = s->next++;
        if (s->p->workers) {
            (void)bt_ring_push(s->helpers[s->cells[i].number % s->p->workers].jobs, &i);
            continue;
        }
        make_cell(s, &s->cells[i]);
        s->ready[s->ready_len++] = i;
        if (!send_ready(s)) return;
    }
}

static void pump(void *ud, unsigned events)
{
    side *s = ud;
    bool is_blocked = false;
    (void)events;
    hear_credit(s);
    if (s->p->by_link) {
        while (s->next < ALL_BLOCKS && has_credit(s) && !is_blocked) {
            is_blocked = !send_by_link(s);
            if (!is_blocked) s->purse.used_bytes += BODY_BYTES;
        }
    } else {
        for (size_t w = 0; w < s->p->workers; w++)
            while (bt_ring_pop(s->helpers[w].done, &s->ready[s->ready_len])) s->ready_len++;
        while (s->ready_len && send_ready(s)) {}
        begin_cells(s);
        is_blocked = s->ready_len > 0;
    }
    bt_loop_set_events(s->loop, s->watch, BT_LOOP_IN | (is_blocked ? BT_LOOP_OUT : 0u));
}

static void on_sender_msg(void *ud, const bt_msg *m)
{
    if (m->type == BT_MSG_CREDIT) bt_xfer_purse_grant(&((side *)ud)->purse, m->u.credit.total_bytes);
}

/* ---- receiver ---- */

static void say_credit(side *s)
{
    bt_fault fault;
    s->grant.left_bytes += BODY_BYTES;
    const uint64_t total = bt_xfer_grant_due(&s->grant);
    if (!total) return;
    if (s->p->by_link) {
        const bt_msg m = {.type = BT_MSG_CREDIT, .from = receiver_id, .to = sender_id,
                          .u.credit.total_bytes = total};
        (void)bt_link_send(s->link, &m, &fault); /* a later one says it all, as in the nodes; a sender that is
                                                    through listens no more */
        return;
    }
    bt_sock_frame frames[2];
    must(bt_sock_frame_copy(&frames[0], s->route.data, s->route.size), &(bt_fault){"out of memory"});
    must(bt_sock_frame_copy(&frames[1], &total, sizeof total), &(bt_fault){"out of memory"});
    if (bt_sock_send_frames(s->socket, frames, 2) < 0) bt_sock_frames_done(frames, 2);
}

static void one_is_over(side *s)
{
    say_credit(s);
    if (++s->over == WARM_BLOCKS) {
        s->warm_us = bt_clock_us();
        s->warm_cpu_s = cpu_seconds();
    } else if (s->over == ALL_BLOCKS) {
        s->end_us = bt_clock_us();
        s->end_cpu_s = cpu_seconds();
    }
}

static void on_block(void *ud, const bt_kv_header *h, const uint8_t *body, const bt_peer_key *from_key)
{
    side *s = ud;
    bt_fault fault;
    (void)from_key;
    s->grant.came_bytes += BODY_BYTES;
    must(bt_kv_header_check_body(h, body, h->body_bytes, &fault), &fault);
    must(bt_kv_pack_place(&s->view, h->layer, h->token_begin, h->token_count, body, h->body_bytes, &fault),
         &fault);
    one_is_over(s);
}

static void end_cell(side *s, uint32_t i)
{
    cell *c = &s->cells[i];
    if (!c->is_good) bench_die("a block did not arrive as it was sent");
    if (!s->has_route) {
        must(bt_sock_frame_copy(&s->route, c->frames[0].data, c->frames[0].size),
             &(bt_fault){"out of memory"});
        s->has_route = true;
    }
    bt_sock_frames_done(c->frames, c->count);
    s->idle[s->idle_len++] = i;
    one_is_over(s);
}

static void drain(void *ud, unsigned events)
{
    side *s = ud;
    uint32_t i;
    (void)events;
    if (s->p->by_link) {
        bt_link_receive(s->link, 16);
        return;
    }
    for (size_t w = 0; w < s->p->workers; w++)
        while (bt_ring_pop(s->helpers[w].done, &i)) end_cell(s, i);
    while (s->idle_len) {
        i = s->idle[s->idle_len - 1];
        cell *c = &s->cells[i];
        if (bt_sock_recv_frames(s->socket, c->frames, 3, &c->count) < 0) break;
        s->idle_len--;
        s->grant.came_bytes += BODY_BYTES;
        c->number = s->next++; /* of its arrival: who opens it */
        if (s->p->workers) {
            (void)bt_ring_push(s->helpers[c->number % s->p->workers].jobs, &i);
        } else {
            take_cell(s, c);
            end_cell(s, i);
        }
    }
    bt_loop_set_events(s->loop, s->watch, s->idle_len ? BT_LOOP_IN : 0u);
}

static void on_bad(void *ud, const bt_fault *why)
{
    (void)ud;
    bench_die(why->text);
}
static void ignore_msg(void *ud, const bt_msg *m) { (void)ud, (void)m; }

/* ---- one run ---- */

static void open_side(side *s, const path *p, bool is_sender, uint8_t *memory, const char *keys_dir,
                      char endpoint[BT_SOCK_ENDPOINT_BYTES])
{
    bt_fault fault;
    uint64_t id;
    *s = (side){.p = p, .is_sender = is_sender, .idle_len = CELLS};
    const size_t token = HEADS * DIM * 2, page_bytes = 2 * LAYERS * token * PAGE_TOKENS;
    for (size_t i = 0; i < TOKENS / PAGE_TOKENS; i++) s->page[i] = memory + i * page_bytes;
    s->view = (bt_kv_view){.page = s->page,
                           .page_tokens = PAGE_TOKENS,
                           .tokens_capacity = TOKENS,
                           .layer_bytes = 2 * PAGE_TOKENS * token,
                           .plane_bytes = PAGE_TOKENS * token,
                           .token_bytes = token,
                           .head_bytes = DIM * 2,
                           .elem_bytes = 2,
                           .layers = LAYERS,
                           .kv_heads = HEADS,
                           .head_dim = DIM};
    for (uint32_t i = 0; i < CELLS; i++) s->idle[i] = i;
    must(bt_loop_new(&s->loop, &fault), &fault);
    must(bt_net_open(&s->net, s->loop, keys_dir, is_sender ? "prefill" : "decode",
                     is_sender ? BT_PEER_PREFILL : BT_PEER_DECODE, &fault),
         &fault);
    const bt_link_handler handler = {.on_msg = is_sender ? on_sender_msg : ignore_msg,
                                     .on_block = is_sender ? NULL : on_block, .on_bad = on_bad, .ud = s};
    if (is_sender) {
        bt_peer_key server;
        must(bt_net_find_key(&server, s->net, BT_PEER_DECODE, NULL, &fault), &fault);
        must(bt_net_dial(&s->link, s->net, BT_SOCK_BULK_DEALER, endpoint, &server, &handler, &fault), &fault);
    } else {
        must(bt_net_listen(&s->link, endpoint, s->net, BT_SOCK_BULK_ROUTER, "tcp://127.0.0.1:*",
                           BT_PEER_PREFILL, &handler, &fault),
             &fault);
    }
    s->socket = bt_link_socket(s->link);
    bt_xfer_purse_open(&s->purse, WINDOW_BYTES);
    bt_xfer_grant_open(&s->grant, WINDOW_BYTES);
    must(bt_loop_add_socket(&s->watch, s->loop, s->socket, BT_LOOP_IN | (is_sender ? BT_LOOP_OUT : 0u),
                            is_sender ? pump : drain, s),
         &fault);
    for (size_t w = 0; w < p->workers; w++) {
        helper *h = &s->helpers[w];
        h->side = s;
        must(bt_ring_new(&h->jobs, sizeof(uint32_t), CELLS + 1, &fault), &fault);
        must(bt_ring_new(&h->done, sizeof(uint32_t), CELLS + 1, &fault), &fault);
        must(bt_loop_add_fd(&id, s->loop, bt_ring_fd(h->done), BT_LOOP_IN, is_sender ? pump : drain, s),
             &fault);
        if (pthread_create(&h->thread, NULL, help, h)) bench_die("no thread");
    }
}

static void close_side(side *s)
{
    for (size_t w = 0; w < s->p->workers; w++) {
        (void)bt_ring_push(s->helpers[w].jobs, &(uint32_t){CELLS});
        pthread_join(s->helpers[w].thread, NULL);
        bt_ring_free(s->helpers[w].jobs);
        bt_ring_free(s->helpers[w].done);
    }
    if (s->has_route) bt_sock_frames_done(&s->route, 1);
    bt_link_free(s->link);
    bt_net_close(s->net);
    bt_loop_free(s->loop);
}

static void *receive_all(void *ud)
{
    side *s = ud;
    bt_fault fault;
    while (s->over < ALL_BLOCKS) must(bt_loop_step(s->loop, WAIT_MS, &fault), &fault);
    return NULL;
}

static sample run_path(const path *p, uint8_t *from, uint8_t *to, size_t bytes, const char *keys_dir)
{
    static side sender, receiver;
    char endpoint[BT_SOCK_ENDPOINT_BYTES];
    pthread_t thread;
    bt_fault fault;
    memset(to, 0, bytes);
    if (p->sealed) new_key(p->sealed);
    open_side(&receiver, p, false, to, p->has_keys ? keys_dir : NULL, endpoint);
    open_side(&sender, p, true, from, p->has_keys ? keys_dir : NULL, endpoint);
    if (pthread_create(&thread, NULL, receive_all, &receiver)) bench_die("no thread");
    while (sender.next < ALL_BLOCKS || sender.ready_len || (!p->by_link && sender.idle_len < CELLS))
        must(bt_loop_step(sender.loop, WAIT_MS, &fault), &fault);
    pthread_join(thread, NULL);
    if ((p->by_link || p->sealed) && memcmp(from, to, bytes)) bench_die("the pages differ");
    const double gbytes = 1e-9 * BLOCKS * BODY_BYTES,
                 seconds = 1e-6 * (double)(receiver.end_us - receiver.warm_us);
    const sample r = {1e9 * gbytes / seconds, (receiver.end_cpu_s - receiver.warm_cpu_s) / gbytes};
    close_side(&sender);
    close_side(&receiver);
    return r;
}

/* ---- one core, one block after the other ---- */

typedef enum stage {
    STAGE_MEMCPY,
    STAGE_GATHER,
    STAGE_DIGEST,
    STAGE_AES,
    STAGE_CHACHA,
    STAGE_XCHACHA,
    STAGE_BOX,
    STAGES
} stage;
static const char *const stage_names[STAGES] = {"memcpy",
                                                "gathering a block",
                                                "digest (XXH3-128)",
                                                "AES-256-GCM",
                                                "ChaCha20-Poly1305",
                                                "XChaCha20-Poly1305",
                                                "secretbox (CURVE's)"};

static sample run_stage(stage st, uint8_t *from, uint8_t *to, const bt_kv_view *view)
{
    enum { TIMES = 2 };
    static uint8_t frame[BODY_BYTES + TAG_BYTES], tag[TAG_BYTES], digest[16],
        nonce[crypto_secretbox_NONCEBYTES];
    const aead *const seals[STAGES] = {
        [STAGE_AES] = &aes, [STAGE_CHACHA] = &chacha, [STAGE_XCHACHA] = &xchacha};
    bt_fault fault;
    if (seals[st]) new_key(seals[st]);
    const double cpu = cpu_seconds();
    const int64_t begin = bt_clock_us();
    for (uint64_t n = 0; n < TIMES * BLOCKS; n++) {
        const bt_kv_header h = header_of(n);
        if (st == STAGE_MEMCPY)
            memcpy(to + n % BLOCKS * BODY_BYTES, from + n % BLOCKS * BODY_BYTES, BODY_BYTES);
        else if (st == STAGE_GATHER)
            must(bt_kv_pack_take(frame, BODY_BYTES, view, h.layer, h.token_begin, h.token_count, &fault),
                 &fault);
        else if (st == STAGE_DIGEST) bt_kv_header_digest(digest, &h, frame);
        else if (st == STAGE_BOX) crypto_secretbox_detached(frame, tag, frame, BODY_BYTES, nonce, digest);
        else if (seals[st]->seal(frame, tag, BODY_BYTES, from, BT_KV_HEADER_BYTES, n))
            bench_die("not sealed");
    }
    const double bytes = (double)TIMES * BLOCKS * BODY_BYTES;
    return (sample){bytes / (1e-6 * (double)(bt_clock_us() - begin)), (cpu_seconds() - cpu) / (1e-9 * bytes)};
}

/* ---- report ---- */

typedef struct column {
    double rate[ROUNDS_MAX], cpu[ROUNDS_MAX];
} column;

static void print_row(const char *name, const char *copies, column *c, size_t rounds, double of_memcpy,
                      bool json, bool first)
{
    const double rate = bench_median(c->rate, rounds), cpu = bench_median(c->cpu, rounds); /* sorted now */
    if (json)
        printf("%s{\"path\": \"%s\", \"bytes_per_second\": %.0f, \"lowest\": %.0f, \"highest\": %.0f, "
               "\"cpu_seconds_per_gb\": %.4f, "
               "\"ratio_to_memcpy\": %.4f}",
               first ? "" : ", ", name, rate, c->rate[0], c->rate[rounds - 1], cpu, rate / of_memcpy);
    else
        printf("  %-32s %7.2f %7.2f %7.2f %9.2f %9.3f   %s\n", name, rate * 1e-9, c->rate[0] * 1e-9,
               c->rate[rounds - 1] * 1e-9, cpu, rate / of_memcpy, copies);
    fflush(stdout);
}

static bool is_skipped(const aead *a) { return a && a->is_aes && !crypto_aead_aes256gcm_is_available(); }

static void measure(size_t rounds, bool json)
{
    static column path_columns[PATHS], stage_columns[STAGES];
    static const char *const names[] = {"prefill", "decode", NULL};
    const size_t bytes = (size_t)BLOCKS * BODY_BYTES;
    char dir[TEMP_FOLDER_BYTES];
    bt_fault fault;
    uint8_t *from = bench_bytes(bytes), *to = bench_bytes(bytes);
    side *s = calloc(1, sizeof *s);
    if (!s || !temp_folder_new(dir)) bench_die("no memory, or no place for keys");
    must(bt_keys_generate(dir, names, &fault), &fault);
    randombytes_buf(from, bytes);
    /* for its view */
    open_side(s, &paths[0], true, from, NULL, (char[BT_SOCK_ENDPOINT_BYTES]){"tcp://127.0.0.1:9"});
    for (size_t r = 0; r < rounds; r++) {
        for (stage st = 0; st < STAGES; st++) {
            if (st == STAGE_AES && is_skipped(&aes)) continue;
            const sample x = run_stage(st, from, to, &s->view);
            stage_columns[st].rate[r] = x.bytes_per_s;
            stage_columns[st].cpu[r] = x.cpu_s_per_gb;
        }
        for (size_t p = 0; p < PATHS; p++) {
            if (is_skipped(paths[p].sealed)) continue;
            const sample x = run_path(&paths[p], from, to, bytes, dir);
            path_columns[p].rate[r] = x.bytes_per_s;
            path_columns[p].cpu[r] = x.cpu_s_per_gb;
        }
    }
    close_side(s);
    free(s);
    const double base = bench_median(stage_columns[STAGE_MEMCPY].rate, rounds);
    if (json)
        printf("{\"block_bytes\": %d, \"blocks\": %d, \"rounds\": %zu, \"rows\": [", BODY_BYTES, BLOCKS,
               rounds);
    else
        printf("\nthe bulk path: %d blocks of %d bytes (a prompt of %d tokens), loopback TCP, medians of %zu "
               "rounds in turn\n"
               "  %-32s %7s %7s %7s %9s %9s   %s\n",
               BLOCKS, BODY_BYTES, TOKENS, rounds, "", "GB/s", "lowest", "highest", "cpu s/GB", "of memcpy",
               "copies of a KV byte, sender + receiver");
    for (stage st = 0; st < STAGES; st++)
        if (st != STAGE_AES || !is_skipped(&aes))
            print_row(stage_names[st], "", &stage_columns[st], rounds, base, json, st == 0);
    for (size_t p = 0; p < PATHS; p++)
        if (!is_skipped(paths[p].sealed))
            print_row(paths[p].name, paths[p].copies, &path_columns[p], rounds, base, json, false);
    if (json) printf("]}\n");
    (void)temp_folder_remove(dir);
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    size_t rounds = 5;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) json = true;
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc) rounds = strtoul(argv[++i], NULL, 10);
        else rounds = 0;
    }
    if (rounds < 1 || rounds > ROUNDS_MAX || sodium_init() < 0)
        bench_die("usage: bench_handoff [--rounds 1..99] [--json]");
    bt_sock_keep_frames(); /* as the nodes do */
    measure(rounds, json);
    return 0;
}
