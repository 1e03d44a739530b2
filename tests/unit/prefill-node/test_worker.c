/* The compute thread of the prefill node: every job ends once, its rows are announced in order while others
 * are computed and are the engine's own, wherever the computing began, and cancelling or stopping at any
 * moment loses nothing. Meant to be run under the thread sanitizer too. */
#include "prefill-node/worker.h"
#include "base/rng.h"
#include "kv/kv_pack.h"
#include "tests/helpers/model/worker_kit.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 4, IDS = 300, DEADLINE_MS = 60000 };

typedef struct room {
    worker_kit kit;
    pf_worker *worker;
    int32_t ids[IDS];
} room;

static bt_prefill *new_engine(const bt_model *m, const char *policy)
{
    bt_prefill *e = NULL;
    bt_fault fault;
    if (bt_prefill_new(&e, m,
                       &(bt_prefill_config){.engine = "host", .threads = 2, .want.shape_policy = policy},
                       &fault) < 0)
        fail_msg("%s", fault.text);
    return e;
}

static void open_cut(room *r, const char *policy)
{
    worker_kit_open(&r->kit, NULL, SLOTS, 512);
    for (int32_t i = 0; i < IDS; i++) r->ids[i] = 3 + i * 7 % 300;
    const bt_hparams *h = &r->kit.model->hp;
    assert_int_equal(pf_worker_new(&r->worker, new_engine(r->kit.model, policy), SLOTS, h->layers, h->vocab,
                                   NULL, NULL),
                     BT_OK);
}

static void open_room(room *r) { open_cut(r, NULL); }

static void close_room(room *r)
{
    pf_worker_free(r->worker);
    worker_kit_close(&r->kit);
}

static void give(room *r, uint32_t slot, uint32_t n)
{
    const pf_worker_job job = {.slot = slot, .view = worker_kit_view(&r->kit, slot), .ids = r->ids,
                               .ids_len = n};
    pf_worker_compute(r->worker, &job);
}

static pf_worker_event next(room *r) { return worker_kit_computed(r->worker); }

/* The next event that ends a job. */
static pf_worker_event next_end(room *r)
{
    for (;;) {
        const pf_worker_event ev = next(r);
        if (ev.type != PF_WORKER_KV_READY && ev.type != PF_WORKER_COMPUTED) return ev;
    }
}

static void announces_every_row_once_before_the_end(void **state)
{
    room r;
    (void)state;
    open_room(&r);
    const uint32_t layers = r.kit.model->hp.layers;
    uint32_t *done = calloc(layers, sizeof *done);
    give(&r, 2, IDS);
    pf_worker_event ev;
    while ((ev = next(&r)).type == PF_WORKER_KV_READY) {
        assert_int_equal(ev.slot, 2);
        assert_true(ev.layer < layers);
        assert_int_equal(ev.token_begin, done[ev.layer]);
        done[ev.layer] += ev.token_count;
    }
    assert_int_equal(ev.type, PF_WORKER_COMPUTED);
    assert_int_equal(ev.work.rows, 256 + 64); /* 300 tokens: a chunk and the next power of two for the tail */
    assert_int_equal(ev.work.compilations, 0);
    assert_int_equal(ev.chunks.len, 2);
    assert_int_equal(ev.chunks.at[0].tokens, 256);
    assert_int_equal(ev.chunks.at[1].tokens, IDS - 256);
    assert_true(ev.chunks.at[0].end_us > ev.chunks.at[0].begin_us);
    assert_true(ev.chunks.at[1].begin_us >= ev.chunks.at[0].end_us); /* the schedule is serial */
    assert_true(ev.chunks.at[1].end_us > ev.chunks.at[1].begin_us && ev.chunks.at[1].end_us <= ev.prefill_us);
    for (uint32_t l = 0; l < layers; l++) assert_int_equal(done[l], IDS);
    const pf_worker_event end = next(&r); /* token 0 does not wait for it */
    assert_int_equal(end.type, PF_WORKER_DIGEST);
    assert_int_equal(end.slot, 2);

    /* The same as the engine gives without a worker. */
    bt_prefill *e = new_engine(r.kit.model, NULL);
    float *logits = calloc(r.kit.model->hp.vocab, sizeof *logits);
    const bt_kv_view view = worker_kit_view(&r.kit, 3);
    uint8_t digest[16];
    assert_int_equal(bt_prefill_run(e, &view, r.ids, IDS, 0, NULL, logits, BT_PREFILL_LAST, NULL), BT_OK);
    assert_int_equal(bt_kv_pack_digest(digest, &view, IDS, NULL), BT_OK);
    assert_memory_equal(digest, end.kv_digest.bytes, sizeof digest);
    assert_int_equal(ev.top_len, BT_MSG_TOP_LOGITS);
    assert_int_equal(ev.token, ev.top_ids[0]); /* greedy */
    for (uint32_t i = 0; i < ev.top_len; i++) {
        assert_true(logits[ev.top_ids[i]] == ev.top_logits[i]);
        size_t higher = 0;
        for (size_t k = 0; k < r.kit.model->hp.vocab; k++) higher += logits[k] > ev.top_logits[i];
        assert_true(higher <= i);
    }
    free(logits);
    bt_prefill_free(e);
    free(done);
    close_room(&r);
}

/* Blocks have edges on multiples of 16; chunks need not. */
static void announces_whole_blocks_whatever_the_chunks(void **state)
{
    static const char *const policies[] = {"chunk:100", "chunk:7", "range:1-90"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        room r;
        open_cut(&r, policies[i]);
        uint32_t done[16] = {0};
        pf_worker_event ev;
        give(&r, 0, IDS);
        while ((ev = next(&r)).type == PF_WORKER_KV_READY) {
            assert_int_equal(ev.token_begin, done[ev.layer]);
            assert_true(ev.token_count > 0);
            done[ev.layer] += ev.token_count;
            assert_true(done[ev.layer] % 16 == 0 || done[ev.layer] == IDS);
        }
        assert_int_equal(ev.type, PF_WORKER_COMPUTED);
        for (uint32_t l = 0; l < r.kit.model->hp.layers; l++) assert_int_equal(done[l], IDS);
        close_room(&r);
    }
}

static void takes_jobs_in_the_order_given(void **state)
{
    static const uint32_t order[SLOTS] = {1, 3, 0, 2};
    room r;
    (void)state;
    open_room(&r);
    for (size_t i = 0; i < SLOTS; i++) give(&r, order[i], 40);
    for (size_t i = 0; i < SLOTS; i++) {
        const pf_worker_event ev = next_end(&r);
        assert_int_equal(ev.type, PF_WORKER_DIGEST);
        assert_int_equal(ev.slot, order[i]);
    }
    close_room(&r);
}

/* Four jobs of one run; the one that is cancelled leaves nothing out of the others. */
static void jobs_of_a_batch_are_what_each_is_alone(void **state)
{
    static const uint32_t tokens[SLOTS] = {20, 45, 17, 80};
    room r;
    (void)state;
    open_room(&r);
    const uint32_t layers = r.kit.model->hp.layers;
    pf_worker_event alone[SLOTS], digest[SLOTS];
    for (uint32_t i = 0; i < SLOTS; i++) {
        give(&r, i, tokens[i]);
        while ((alone[i] = next(&r)).type != PF_WORKER_COMPUTED) {}
        digest[i] = next(&r);
    }
    for (uint32_t k = 0; k < SLOTS; k++) {
        const uint32_t cancelled = k == SLOTS - 1 ? SLOTS : k; /* the last one completes the run */
        uint32_t done[SLOTS][16] = {{0}}, computed = 0, ends = 0;
        uint64_t rows = 0, took_us = 0;
        for (uint32_t i = 0; i < SLOTS; i++) {
            const pf_worker_job job = {.slot = i, .view = worker_kit_view(&r.kit, i),
                                       .with = i ? 0 : SLOTS - 1, .ids = r.ids, .ids_len = tokens[i]};
            pf_worker_compute(r.worker, &job);
            if (i == cancelled) pf_worker_cancel(r.worker, i); /* before the run is whole */
        }
        while (ends < SLOTS) {
            const pf_worker_event ev = next(&r);
            const uint32_t s = ev.slot;
            if (ev.type == PF_WORKER_KV_READY) {
                assert_int_equal(ev.token_begin, done[s][ev.layer]);
                done[s][ev.layer] += ev.token_count;
            } else if (ev.type == PF_WORKER_COMPUTED) {
                assert_int_equal(ends, 0); /* no token 0 waits for a digest */
                for (uint32_t l = 0; l < layers; l++) assert_int_equal(done[s][l], tokens[s]);
                assert_int_equal(ev.token, alone[s].token);
                assert_memory_equal(ev.top_logits, alone[s].top_logits, sizeof ev.top_logits);
                assert_int_equal(ev.chunks.len, 1);
                assert_int_equal(ev.chunks.at[0].tokens, tokens[s]);
                if (computed++) assert_int_equal(ev.prefill_us, took_us);
                took_us = ev.prefill_us;
                rows += ev.work.rows;
            } else {
                ends++;
                assert_int_equal(ev.type, s == cancelled ? PF_WORKER_STOPPED : PF_WORKER_DIGEST);
                if (s != cancelled) assert_memory_equal(ev.kv_digest.bytes, digest[s].kv_digest.bytes, 16);
            }
        }
        assert_int_equal(computed, cancelled < SLOTS ? SLOTS - 1 : SLOTS);
        assert_int_equal(rows, 20 + 45 + 17 + 80 - (cancelled < SLOTS ? tokens[cancelled] : 0));
    }
    close_room(&r);
}

static void a_prompt_that_the_engine_refuses_fails_in_words(void **state)
{
    room r;
    (void)state;
    open_room(&r);
    r.ids[5] = 1 << 20;
    give(&r, 0, 10);
    const pf_worker_event ev = next_end(&r);
    assert_int_equal(ev.type, PF_WORKER_FAILED);
    assert_true(ev.code < 0 && strlen(ev.text) > 0);
    r.ids[5] = 3;
    give(&r, 0, 10);
    assert_int_equal(next_end(&r).type, PF_WORKER_DIGEST);
    close_room(&r);
}

static void a_cancelled_job_ends_once_whenever_it_is_cancelled(void **state)
{
    enum { ROUNDS = 60 };
    room r;
    size_t stopped = 0;
    (void)state;
    open_cut(&r, "chunk:16");
    for (size_t i = 0; i < ROUNDS; i++) {
        uint32_t wait = (uint32_t)(bt_rng_u64(1, i) % 24);
        bool ended[2] = {false};
        give(&r, 0, IDS);
        give(&r, 1, 16);
        while (wait > 0 && !ended[0]) { /* after so many announcements, or at once */
            const pf_worker_event ev = next(&r);
            wait = ev.type == PF_WORKER_COMPUTED ? 0 : wait - 1; /* or while only the digest is to be made */
            if (ev.type == PF_WORKER_DIGEST) ended[ev.slot] = true;
        }
        if (!ended[0]) pf_worker_cancel(r.worker, 0);
        while (!ended[0] || !ended[1]) {
            const pf_worker_event ev = next_end(&r);
            assert_false(ended[ev.slot]);
            ended[ev.slot] = true;
            stopped += ev.type == PF_WORKER_STOPPED;
            if (ev.slot == 1) assert_int_equal(ev.type, PF_WORKER_DIGEST);
        }
    }
    assert_true(stopped > 0);
    give(&r, 0, 16); /* a cancel of before does not stick */
    assert_int_equal(next_end(&r).type, PF_WORKER_DIGEST);
    close_room(&r);
}

/* Whoever hears of the first rows can still stop the rest: they were told while later layers and chunks
 * were to come. */
static void announces_rows_while_later_ones_are_computed(void **state)
{
    room r;
    uint32_t early = 0;
    (void)state;
    open_cut(&r, "chunk:16");
    for (size_t i = 0; i < 20; i++) {
        give(&r, 0, IDS);
        pf_worker_event ev = next(&r);
        assert_int_equal(ev.type, PF_WORKER_KV_READY);
        assert_int_equal(ev.token_begin, 0);
        pf_worker_cancel(r.worker, 0);
        early += next_end(&r).type == PF_WORKER_STOPPED;
    }
    assert_true(early > 0);
    close_room(&r);
}

typedef struct brake {
    atomic_bool cancel;
    uint32_t after, told, told_after;
} brake;

static void pull(void *ud, uint32_t layer, size_t begin, size_t count)
{
    brake *b = ud;
    (void)layer, (void)begin, (void)count;
    b->told_after += atomic_load(&b->cancel);
    if (b->told++ == b->after) atomic_store(&b->cancel, true);
}

/* From the cancel to the end no more than one layer is computed, wherever it comes. */
static void an_engine_stops_within_one_layer(void **state)
{
    room r;
    (void)state;
    open_room(&r);
    bt_prefill *e = new_engine(r.kit.model, "chunk:16");
    float *logits = calloc(r.kit.model->hp.vocab, sizeof *logits);
    const bt_kv_view view = worker_kit_view(&r.kit, 3);
    for (uint32_t after = 0; after < 12; after++) {
        brake b = {.after = after};
        const bt_prefill_hooks hooks = {.on_kv = pull, .ud = &b, .cancel = &b.cancel};
        assert_int_equal(bt_prefill_run(e, &view, r.ids, IDS, 0, &hooks, logits, BT_PREFILL_LAST, NULL),
                         BT_ECANCEL);
        assert_true(b.told_after <= 1);
    }
    free(logits);
    bt_prefill_free(e);
    close_room(&r);
}

/* A reader that stops after each event, one of three jobs cancelled: every row and every end is told,
 * however late. */
/* Wherever it pauses and however often, and whatever runs meanwhile. */
static void a_job_that_pauses_is_what_it_is_in_one_run(void **state)
{
    static const char *const policies[] = {"chunk:16+tail", "chunk:100", "range:1-90"};
    size_t pauses = 0;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        room r;
        open_cut(&r, policies[i]);
        const uint32_t layers = r.kit.model->hp.layers;
        pf_worker_event alone, digest, ev;
        give(&r, 0, IDS);
        while ((alone = next(&r)).type != PF_WORKER_COMPUTED) {}
        digest = next(&r);
        for (uint32_t step = 1; step < IDS; step += 70) {
            uint32_t done[16] = {0}, at = step;
            pf_worker_compute(r.worker, &(pf_worker_job){.slot = 1, .view = worker_kit_view(&r.kit, 1),
                                                         .ids = r.ids, .ids_len = IDS, .may_pause = true});
            pf_worker_pause(r.worker, 1, at);
            while ((ev = next(&r)).type != PF_WORKER_COMPUTED) {
                if (ev.type == PF_WORKER_KV_READY) {
                    assert_int_equal(ev.slot, 1);
                    assert_int_equal(ev.token_begin, done[ev.layer]);
                    done[ev.layer] += ev.token_count;
                    continue;
                }
                assert_int_equal(ev.type, PF_WORKER_PAUSED);
                assert_int_equal(ev.slot, 1);
                assert_true(ev.token_count >= at && ev.token_count < IDS);
                for (uint32_t l = 0; l < layers; l++) assert_int_equal(done[l], ev.token_count / 16 * 16);
                pauses++;
                give(&r, 2, 40); /* another runs meanwhile */
                assert_int_equal(next_end(&r).type, PF_WORKER_DIGEST);
                at = ev.token_count + step;
                pf_worker_resume(r.worker, 1);
                pf_worker_pause(r.worker, 1, at);
            }
            for (uint32_t l = 0; l < layers; l++) assert_int_equal(done[l], IDS);
            assert_int_equal(ev.token, alone.token);
            assert_memory_equal(ev.top_logits, alone.top_logits, sizeof ev.top_logits);
            assert_int_equal(ev.chunks.len, alone.chunks.len);
            for (uint32_t k = 0; k < ev.chunks.len; k++)
                assert_int_equal(ev.chunks.at[k].tokens, alone.chunks.at[k].tokens);
            assert_int_equal(ev.work.rows, alone.work.rows);
            assert_memory_equal(next(&r).kv_digest.bytes, digest.kv_digest.bytes, 16);
        }
        close_room(&r);
    }
    assert_true(pauses > 0);
}

static void a_job_may_be_cancelled_while_it_pauses(void **state)
{
    room r;
    size_t pauses = 0;
    (void)state;
    open_cut(&r, "chunk:16");
    for (uint32_t i = 0; i < 40; i++) {
        pf_worker_compute(r.worker, &(pf_worker_job){.slot = 1, .view = worker_kit_view(&r.kit, 1),
                                                     .ids = r.ids, .ids_len = IDS, .may_pause = true});
        pf_worker_pause(r.worker, 1, 16 + i);
        if (i % 2) pf_worker_cancel(r.worker, 1);
        const pf_worker_event ev = next_end(&r); /* whatever came first */
        assert_true(ev.type == PF_WORKER_PAUSED || ev.type == (i % 2 ? PF_WORKER_STOPPED : PF_WORKER_DIGEST));
        if (ev.type != PF_WORKER_PAUSED) continue;
        pauses++;
        if (i % 4) continue; /* nobody wants it any more */
        pf_worker_resume(r.worker, 1);
        pf_worker_cancel(r.worker, 1);
        const pf_worker_event last = next_end(&r);
        assert_true(last.type == PF_WORKER_STOPPED || last.type == PF_WORKER_DIGEST);
    }
    assert_true(pauses > 0);
    give(&r, 1, IDS); /* nothing of before sticks */
    assert_int_equal(next_end(&r).type, PF_WORKER_DIGEST);
    close_room(&r);
}

static void loses_nothing_for_a_slow_reader(void **state)
{
    room r;
    uint32_t events[PF_WORKER_STOPPED + 1] = {0}, done[SLOTS][16] = {{0}};
    (void)state;
    open_cut(&r, "chunk:16");
    for (uint32_t slot = 0; slot < 3; slot++) give(&r, slot, IDS);
    pf_worker_cancel(r.worker, 1);
    for (uint32_t ended = 0; ended < 3;) {
        struct pollfd p = {.fd = pf_worker_fd(r.worker), .events = POLLIN};
        pf_worker_event ev;
        assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
        if (!pf_worker_next(r.worker, &ev)) continue;
        if (ev.type == PF_WORKER_KV_READY) {
            assert_int_equal(ev.token_begin, done[ev.slot][ev.layer]);
            done[ev.slot][ev.layer] += ev.token_count;
        }
        events[ev.type]++;
        ended += ev.type == PF_WORKER_DIGEST || ev.type == PF_WORKER_STOPPED;
        pf_worker_again(r.worker); /* one event a call: still none is lost */
    }
    assert_int_equal(events[PF_WORKER_DIGEST] + events[PF_WORKER_STOPPED], 3);
    for (uint32_t l = 0; l < r.kit.model->hp.layers; l++) {
        assert_int_equal(done[0][l], IDS);
        assert_int_equal(done[2][l], IDS);
    }
    close_room(&r);
}

static void may_be_freed_with_jobs_in_work(void **state)
{
    (void)state;
    for (size_t i = 0; i < 10; i++) {
        room r;
        open_room(&r);
        for (uint32_t slot = 0; slot < i % (SLOTS + 1); slot++) give(&r, slot, IDS);
        if (i > 5) (void)next(&r);
        close_room(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(announces_every_row_once_before_the_end),
        cmocka_unit_test(announces_whole_blocks_whatever_the_chunks),
        cmocka_unit_test(takes_jobs_in_the_order_given),
        cmocka_unit_test(jobs_of_a_batch_are_what_each_is_alone),
        cmocka_unit_test(a_prompt_that_the_engine_refuses_fails_in_words),
        cmocka_unit_test(a_cancelled_job_ends_once_whenever_it_is_cancelled),
        cmocka_unit_test(announces_rows_while_later_ones_are_computed),
        cmocka_unit_test(an_engine_stops_within_one_layer),
        cmocka_unit_test(a_job_that_pauses_is_what_it_is_in_one_run),
        cmocka_unit_test(a_job_may_be_cancelled_while_it_pauses),
        cmocka_unit_test(loses_nothing_for_a_slow_reader),
        cmocka_unit_test(may_be_freed_with_jobs_in_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
