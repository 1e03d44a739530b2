/* A prefix hit changes no token and no row: the decode node's brain, its memory and its real worker, with
 * prompts that have common prefixes, some prefilled here and some sent, in memory so small that what is
 * kept is taken away all the time. Every answer is held against that of the same request alone, whose
 * prompt was computed from its first token on. */
#include "base/hash.h"
#include "base/rng.h"
#include "decode-node/store.h"
#include "decode-node/worker.h"
#include "kv/kv_pack.h"
#include "engine/prefill.h"
#include "sample/sample.h"
#include "tests/helpers/brain/decode_kit.h"
#include "tests/helpers/model/worker_kit.h"
#include "xfer/xfer_recv.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    SLOTS = 4,
    PAGE_TOKENS = 16,
    PAGES = 18,
    WINDOW_PAGES = 14,
    CTX = 160,
    PROMPT = 110,
    ANSWER = 24,
    REQUESTS = 120,
    PREFIXES = 3,
    DEADLINE_MS = 60000
};
static const char CLASS[] = "the one prefill engine";

typedef struct request {
    int32_t prompt[PROMPT], ids[ANSWER];
    uint32_t prompt_tokens, max_tokens, accepted, attempt;
    bt_sampling sampling;
    bt_kv_view kv; /* of the request alone */
    bt_ticket ticket;
    uint32_t covered;
    bool is_local, is_open, is_done, is_sending;
} request;

typedef struct room {
    worker_kit kit;
    bt_prefill *prefill;
    bt_decode *alone;
    bt_sample *sampler;
    float *logits;
    dc_worker *worker;
    dc_store *store;
    dc_brain *brain;
    request all[REQUESTS];
    uint64_t seed, draws;
    dc_block placed; /* what PLACE named */
    uint64_t unsent; /* rows of window layers before the window at a prompt's end */
    bt_msg say[8];
    uint32_t say_len; /* what the gateway answers */
} room;

static uint32_t draw(room *r, uint32_t n) { return (uint32_t)(bt_rng_u64(r->seed, r->draws++) % n); }

static void open_worker(room *r, uint32_t elem_bytes)
{
    bt_fault fault = {""};
    bt_decode *e = NULL;
    dc_worker_config c = {.slots = SLOTS, .page_tokens = PAGE_TOKENS, .chunk_tokens = 24, .replay_rows = 5,
                          .ahead_tokens = 3};
    if (r->kit.model->hp.window) c.draft_max = 3, c.chunk_tokens = 40;
    const bt_prefill_config lc = {.engine = "npu", .ctx_tokens = CTX,
                                  .threads = r->kit.model->hp.window ? 2 : 1, .kv_elem_bytes = elem_bytes};
    if (bt_prefill_new(&r->prefill, r->kit.model,
                       &(bt_prefill_config){.engine = "npu", .threads = 1, .kv_elem_bytes = elem_bytes},
                       &fault) < 0 ||
        bt_decode_new(&r->alone, r->kit.model,
                      &(bt_decode_config){.rows_max = 1, .kv_elem_bytes = elem_bytes}, &fault) < 0 ||
        bt_decode_new(&e, r->kit.model, &(bt_decode_config){.rows_max = 8, .kv_elem_bytes = elem_bytes},
                      &fault) < 0 ||
        bt_prefill_new(&c.local, r->kit.model, &lc, &fault) < 0)
        fail_msg("%s", fault.text);
    c.engine = e;
    assert_int_equal(dc_worker_new(&r->worker, &c, &fault), BT_OK);
    assert_int_equal(bt_sample_new(&r->sampler, NULL, r->kit.model->hp.vocab, NULL), BT_OK);
    r->logits = engine_kit_floats(r->kit.model->hp.vocab);
}

static void open_brain(room *r, uint32_t elem_bytes)
{
    const bt_hparams *h = &r->kit.model->hp;
    const bt_kv_memory_want want = {.layers = h->layers,
                                    .kv_heads = h->kv_heads,
                                    .head_dim = h->head_dim,
                                    .elem_bytes = elem_bytes,
                                    .global_every = h->global_every,
                                    .page_tokens = PAGE_TOKENS,
                                    .all_tokens = PAGES * PAGE_TOKENS,
                                    .window_tokens = h->window ? WINDOW_PAGES * PAGE_TOKENS : 0};
    bt_kv_memory pages, swap;
    assert_int_equal(bt_kv_memory_new(&pages, &want, NULL), BT_OK);
    assert_int_equal(bt_kv_memory_new(&swap, &want, NULL), BT_OK);
    assert_int_equal(dc_store_new(&r->store, &pages, &swap, SLOTS, CTX / PAGE_TOKENS, NULL), BT_OK);
    dc_config c = dc_config_defaults();
    c.self = decode_kit_self;
    c.slots = SLOTS;
    c.pages_total = PAGES;
    c.page_tokens = PAGE_TOKENS;
    c.growth_tokens = 1;
    c.can_prefill = true;
    c.hello.ctx_tokens = CTX;
    c.hello.kv =
        (bt_kv_shape){h->layers, h->kv_heads,    h->head_dim, elem_bytes == 1 ? BT_KV_INT8 : BT_KV_F16,
                      h->window, h->global_every};
    c.window_pages_total = h->window ? WINDOW_PAGES : 0;
    c.swap_pages = h->window ? 6 : 0;
    c.swap_window_pages = h->window ? 4 : 0;
    strcpy(c.hello.prefill_exactness, CLASS);
    decode_kit_now = 1000000;
    assert_int_equal(dc_brain_new(&r->brain, &c, NULL), BT_OK);
    decode_kit_step(r->brain, &(dc_event){.type = DC_EV_TICK});
    decode_kit_control(r->brain, &(bt_msg){.type = BT_MSG_WELCOME});
    bt_msg hello = {.type = BT_MSG_HELLO};
    hello.u.hello =
        (bt_msg_hello){.protocol = BT_PROTOCOL_VERSION, .role = BT_ROLE_PREFILL, .kv = c.hello.kv};
    strcpy(hello.u.hello.exactness, CLASS);
    decode_kit_bulk(r->brain, &hello);
}

static void open_room(room *r, const char *arch, uint64_t seed, uint32_t elem_bytes, uint32_t window)
{
    tiny_gguf_spec spec = tiny_gguf_default();
    memset(r, 0, sizeof *r);
    r->seed = seed;
    spec.arch = arch;
    spec.layers = !strcmp(arch, "smollm3")  ? 4
                  : !strcmp(arch, "gemma3") ? 7
                                            : 2; /* the fourth is not rotated, the
                                                  sixth sees all */
    spec.window = window;
    spec.ctx = CTX;
    worker_kit_open(&r->kit, &spec, 0, 0);
    open_worker(r, elem_bytes);
    open_brain(r, elem_bytes);
}

static void close_room(room *r)
{
    dc_worker_free(r->worker);
    dc_brain_free(r->brain);
    dc_store_free(r->store);
    bt_decode_free(r->alone);
    bt_prefill_free(r->prefill);
    bt_sample_free(r->sampler);
    free(r->logits);
    for (int i = 0; i < REQUESTS; i++) engine_kit_pages_free(&r->all[i].kv);
    worker_kit_close(&r->kit);
}

/* A prompt with one of a few prefixes, and its answer when it is alone. */
static void make_request(room *r, request *q, uint32_t elem_bytes)
{
    const uint64_t prefix = draw(r, PREFIXES);
    q->prompt_tokens = 1 + draw(r, PROMPT);
    q->max_tokens = 1 + draw(r, ANSWER);
    q->is_local = draw(r, 2);
    q->sampling = bt_sample_greedy();
    if (draw(r, 2)) {
        q->sampling.temperature = 0.8f;
        q->sampling.seed = draw(r, 1000);
    }
    const uint32_t own = draw(r, q->prompt_tokens + 1);
    for (uint32_t i = 0; i < q->prompt_tokens; i++)
        q->prompt[i] =
            (int32_t)(3 + (i < own ? bt_rng_u64(prefix, i) : bt_rng_u64(r->seed, r->draws++)) % 380);
    q->kv = engine_kit_pages(r->kit.model, CTX, PAGE_TOKENS, elem_bytes);
    assert_int_equal(bt_prefill_run(r->prefill, &q->kv, q->prompt, q->prompt_tokens, 0, NULL, r->logits,
                                    BT_PREFILL_LAST, NULL),
                     BT_OK);
    for (uint32_t n = 0; n < q->max_tokens; n++) {
        const bt_sample_history h = {.prompt = q->prompt, .prompt_len = q->prompt_tokens, .generated = q->ids,
                                     .generated_len = n};
        bt_sample_logprob unused;
        assert_int_equal(bt_sample_token(&q->ids[n], &unused, r->sampler, &q->sampling, r->logits, &h, NULL),
                         BT_OK);
        const bt_decode_seq s = {.kv = &q->kv, .pos = q->prompt_tokens + n, .tokens = &q->ids[n], .count = 1,
                                 .out = 1};
        if (n + 1 < q->max_tokens)
            assert_int_equal(bt_decode_step(r->alone, &s, 1, NULL, r->logits, NULL), BT_OK);
    }
}

/* ---- what the brain says ---- */

static void answer(room *r, const bt_msg *m, bt_msg_type type, uint32_t next_index)
{
    bt_msg *a = &r->say[r->say_len++];
    *a = (bt_msg){.type = type, .ref = m->ref};
    if (type == BT_MSG_ACK) a->u.ack.of = m->type;
    if (type == BT_MSG_TOKENS_ACK) a->u.tokens_ack.next_index = next_index;
}

static void on_message(room *r, const bt_msg *m)
{
    if (m->ref.attempt == 0) return;
    request *q = &r->all[m->ref.number];
    if (m->type == BT_MSG_FIRST_TOKEN || m->type == BT_MSG_PREFILL_DONE || m->type == BT_MSG_FAILED)
        answer(r, m, BT_MSG_ACK, 0);
    if (m->type == BT_MSG_FINISHED) answer(r, m, BT_MSG_FINISHED_ACK, 0);
    if (m->type == BT_MSG_RESERVED) {
        q->ticket = m->u.reserved.ticket;
        q->covered = m->u.reserved.covered_tokens;
        q->is_sending = !q->is_local;
    } else if (m->type == BT_MSG_FIRST_TOKEN) {
        assert_int_equal(m->u.first_token.token, q->ids[0]);
        if (q->accepted == 0) q->accepted = 1;
    } else if (m->type == BT_MSG_PREFILL_DONE) {
        bt_digest16 want, none = {{0}}, got = m->u.prefill_done.kv_digest;
        assert_int_equal(bt_kv_pack_digest(want.bytes, &q->kv, q->prompt_tokens, NULL), BT_OK);
        const bool has = memcmp(&got, &none, sizeof none) != 0;
        if (has) assert_memory_equal(&want, &got, sizeof want);
        assert_true(has || r->kit.model->hp.window); /* a hit on rows of which the first are gone */
    } else if (m->type == BT_MSG_TOKENS) {
        assert_true(m->u.tokens.first_index <= q->accepted);
        for (uint32_t i = 0; i < m->u.tokens.ids_len; i++)
            assert_int_equal(m->u.tokens.ids[i], q->ids[m->u.tokens.first_index + i]);
        q->accepted = m->u.tokens.first_index + m->u.tokens.ids_len;
        answer(r, m, BT_MSG_TOKENS_ACK, q->accepted);
    } else if (m->type == BT_MSG_FINISHED) {
        assert_int_equal(q->accepted, q->max_tokens);
        q->is_done = true;
    } else if (m->type == BT_MSG_FAILED || m->type == BT_MSG_REFUSED) {
        assert_int_equal(m->type == BT_MSG_FAILED ? m->u.failed.code : m->u.refused.code, BT_EAGAIN);
        q->is_open = q->is_sending = false;
    }
}

static void start(room *r, const dc_action *a)
{
    dc_worker_start job = {.slot = a->u.start.slot,
                           .prompt = a->u.start.prompt,
                           .prompt_tokens = a->u.start.prompt_tokens,
                           .ids = a->u.start.ids,
                           .ids_len = a->u.start.ids_len,
                           .rows = a->u.start.rows,
                           .max_tokens = a->u.start.max_tokens,
                           .sampling = a->u.start.sampling};
    dc_store_view(&job.view, r->store, job.slot);
    dc_worker_start_slot(r->worker, &job);
}

static void carry_out(room *r, const dc_action *a)
{
    bt_kv_view view;
    switch (a->type) {
    case DC_DO_SEND_CONTROL: on_message(r, &a->u.control.msg); break;
    case DC_DO_SET_PAGES:
        assert_int_equal(dc_store_do(r->store, a, NULL), BT_OK);
        dc_store_view(&view, r->store, a->u.set.slot);
        if (a->u.set.is_growth) dc_worker_grow_slot(r->worker, a->u.set.slot, &view);
        break;
    case DC_DO_START: start(r, a); break;
    case DC_DO_STOP: dc_worker_stop_slot(r->worker, a->u.slot); break;
    case DC_DO_PLACE: r->placed = a->u.block; break;
    case DC_DO_SWAP_OUT:
    case DC_DO_SWAP_IN:
    case DC_DO_DROP_SWAP: assert_int_equal(dc_store_do(r->store, a, NULL), BT_OK); break;
    case DC_DO_SEND_BULK:
    case DC_DO_DROP:
    case DC_DO_LOG:
    case DC_DO_DRAIN:
    case DC_DO_EXIT: break;
    }
}

static void feed(room *r, const dc_event *ev)
{
    decode_kit_now++;
    decode_kit_step(r->brain, ev);
    for (size_t i = 0; i < decode_kit_acts.len; i++) carry_out(r, &decode_kit_acts.items[i]);
    while (r->say_len) {
        bt_msg m = r->say[--r->say_len];
        decode_kit_control(r->brain, &m);
        for (size_t i = 0; i < decode_kit_acts.len; i++) carry_out(r, &decode_kit_acts.items[i]);
    }
}

/* ---- what comes to it ---- */

static void submit(room *r, uint64_t number)
{
    request *q = &r->all[number];
    bt_msg m = {.type = BT_MSG_RESERVE, .from = decode_kit_gate, .to = decode_kit_self,
                .ref = {decode_kit_gate, number, ++q->attempt}};
    m.u.reserve = (bt_msg_reserve){.prompt_tokens = q->prompt_tokens,
                                   .max_tokens = q->max_tokens,
                                   .ids = q->prompt,
                                   .ids_len = q->prompt_tokens,
                                   .generated = q->ids,
                                   .generated_len = q->accepted,
                                   .is_local = q->is_local,
                                   .sampling = q->sampling,
                                   .prefill_class = bt_hash64(CLASS, strlen(CLASS)),
                                   .lease_ms = 60000};
    if (!q->is_local) m.u.reserve.prefill = decode_kit_prefill;
    q->is_open = true;
    feed(r, &(dc_event){.type = DC_EV_CONTROL, .u.control = {0, &m}});
}

/* The prefill node sends what is not covered, as the prompt alone made it. */
static void transfer(room *r, uint64_t number)
{
    request *q = &r->all[number];
    const bt_hparams *h = &r->kit.model->hp;
    const bt_kv_shape shape = {.layers = h->layers, .window = h->window, .global_every = h->global_every};
    const bt_request_ref ref = {decode_kit_gate, number, q->attempt};
    uint8_t *body = engine_kit_alloc(bt_kv_pack_bytes(&q->kv, q->prompt_tokens));
    bt_kv_view view;
    for (uint32_t layer = 0; layer < q->kv.layers; layer++) {
        const uint32_t first = bt_xfer_first_token(&shape, layer, q->prompt_tokens),
                       begin = first > q->covered ? first : q->covered, n = q->prompt_tokens - begin;
        const size_t bytes = bt_kv_pack_bytes(&q->kv, n);
        r->unsent += begin - q->covered;
        if (!n) continue;
        dc_event ev = {.type = DC_EV_BLOCK};
        ev.u.block =
            (dc_block){.from = decode_kit_prefill, .ref = ref,       .ticket = q->ticket, .layer = layer,
                       .token_begin = begin,       .token_count = n, .bytes = bytes};
        feed(r, &ev);
        assert_non_null(decode_kit_did(DC_DO_PLACE));
        dc_store_view(&view, r->store, r->placed.slot);
        assert_int_equal(bt_kv_pack_take(body, bytes, &q->kv, layer, begin, n, NULL), BT_OK);
        assert_int_equal(bt_kv_pack_place(&view, layer, begin, n, body, bytes, NULL), BT_OK);
        feed(r, &(dc_event){.type = DC_EV_PLACED, .u.block = r->placed});
    }
    free(body);
    q->is_sending = false;
    if (q->accepted == 0) q->accepted = 1;
    bt_msg m = {.type = BT_MSG_COMMIT, .from = decode_kit_prefill, .to = decode_kit_self, .ref = ref};
    m.u.commit =
        (bt_msg_commit){.ticket = q->ticket, .prompt_tokens = q->prompt_tokens, .first_token = q->ids[0]};
    feed(r, &(dc_event){.type = DC_EV_BULK, .u.bulk = &m});
}

/* One event of the worker into the brain; false: there is none now. */
static bool pump(room *r, bool wait)
{
    dc_worker_event w;
    while (!dc_worker_next(r->worker, &w)) {
        struct pollfd p = {.fd = dc_worker_fd(r->worker), .events = POLLIN};
        if (!wait) return false;
        assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
    }
    dc_event ev = {.type = DC_EV_TICK};
    const bt_msg_first_token first = {.token = w.id};
    if (w.type == DC_WORKER_FIRST) {
        ev.type = DC_EV_FIRST;
        ev.u.first.slot = w.slot;
        ev.u.first.msg = &first;
        ev.u.first.kv_digest = w.u.first.kv_digest;
    } else if (w.type == DC_WORKER_TOKEN) {
        ev.type = DC_EV_TOKEN;
        ev.u.token.slot = w.slot;
        ev.u.token.index = w.index;
        ev.u.token.id = w.id;
    } else if (w.type == DC_WORKER_NEED) {
        ev = (dc_event){.type = DC_EV_NEED, .u.need = {w.slot, w.tokens}};
    } else if (w.type == DC_WORKER_PIECE) {
        ev.type = DC_EV_ALIVE;
    } else if (w.type == DC_WORKER_STOPPED) {
        ev = (dc_event){.type = DC_EV_STOPPED, .u.stopped = {w.slot, w.rows}};
    } else {
        if (w.reason == BT_FINISH_ERROR) fail_msg("slot %u: %s", w.slot, w.u.text);
        ev.type = DC_EV_ENDED;
        ev.u.ended.slot = w.slot;
        ev.u.ended.reason = w.reason;
    }
    feed(r, &ev);
    return true;
}

/* Returns how often a sequence came back from the swap store. */
static uint64_t run(const char *arch, uint64_t seed, uint32_t elem_bytes, uint32_t window)
{
    static room r;
    printf("seed %llu\n", (unsigned long long)seed);
    open_room(&r, arch, seed, elem_bytes, window);
    for (int i = 0; i < REQUESTS; i++) make_request(&r, &r.all[i], elem_bytes);
    for (uint32_t done = 0; done < REQUESTS;) {
        done = 0;
        for (uint32_t i = 0; i < REQUESTS; i++) done += r.all[i].is_done;
        for (uint32_t i = 0, open = 0; i < REQUESTS && open < SLOTS + 2; i++) {
            if (r.all[i].is_done) continue;
            open++;
            if (!r.all[i].is_open) submit(&r, i);
            if (r.all[i].is_sending) transfer(&r, i);
        }
        bool any = false; /* the worker has something to do, and so to say */
        for (uint32_t i = 0; i < REQUESTS; i++) any = any || (r.all[i].is_open && !r.all[i].is_done);
        if (any) (void)pump(&r, true);
        while (pump(&r, false)) {}
    }
    const dc_counters *n = dc_brain_counters(r.brain);
    printf("%llu of %llu prompt tokens in %llu hits, %llu preempted, %llu swapped out, %llu prefilled "
           "again\n",
           (unsigned long long)n->prefix_tokens, (unsigned long long)n->prompt_tokens,
           (unsigned long long)n->prefix_hits, (unsigned long long)n->preempted,
           (unsigned long long)n->swapped_out, (unsigned long long)n->dropped);
    const uint32_t part = r.kit.model->hp.window ? 2 : 1; /* fewer where the window must be there too */
    assert_true(n->prefix_hits > REQUESTS / 6 / part && n->prefix_tokens > 500 / part);
    assert_int_equal(dc_brain_load(r.brain).pages_used + dc_brain_load(r.brain).window_pages_used, 0);
    if (r.kit.model->hp.window) printf("%llu rows not sent\n", (unsigned long long)r.unsent);
    assert_int_equal(r.unsent > 0, r.kit.model->hp.window > 0);
    assert_true(dc_brain_is_sound(r.brain));
    const uint64_t back = n->swapped_in;
    close_room(&r);
    return back;
}

static void a_hit_changes_no_token_and_no_row(void **state)
{
    (void)state;
    run("llama", 11, 2, 0);
}

static void nor_where_kv_is_of_8_bits(void **state)
{
    (void)state;
    run("llama", 12, 1, 0);
}

static void nor_with_another_architecture(void **state)
{
    (void)state;
    for (int a = BT_ARCH_QWEN2; a < TINY_GGUF_ARCHS; a++) run(tiny_gguf_arch(a), 11, 1 + (uint32_t)a % 2, 0);
}

/* Windows shorter and longer than a page and than what a prompt's end is rounded to; with layers that see all
 * and without. */
static void nor_where_window_pages_go_back(void **state)
{
    (void)state;
    uint64_t back = run("gemma3", 13, 2, 24);
    back += run("gemma3", 14, 1, 40);
    back += run("llama", 15, 2, 9);
    back += run("phi3", 16, 1, 32);
    back += run("gpt-oss", 17, 2, 24);
    assert_true(back > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hit_changes_no_token_and_no_row),
        cmocka_unit_test(nor_where_kv_is_of_8_bits),
        cmocka_unit_test(nor_with_another_architecture),
        cmocka_unit_test(nor_where_window_pages_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
