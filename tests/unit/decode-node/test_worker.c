/* The compute thread of the decode node: tokens come in order and are the engine's own, sequences take turns,
 * every one ends once, and stopping at any moment loses nothing. Meant to be run under the thread
 * sanitizer too. */
#include "decode-node/worker.h"
#include "base/rng.h"
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

enum { SLOTS = 3, ROWS = 8, PROMPT = 5, CTX = 2048, FIRST = 40 };

static const int32_t prompt[PROMPT] = {10, 11, 12, 13, 14};

typedef struct room {
    worker_kit kit; /* its last sequence is for the engine on its own */
    dc_worker *worker;
    bt_decode *engine;
    float *logits;
} room;

static bt_decode *new_engine(const bt_model *m, size_t rows_max)
{
    bt_decode *e = NULL;
    bt_fault fault;
    if (bt_decode_new(&e, m, &(bt_decode_config){.rows_max = rows_max}, &fault) < 0)
        fail_msg("%s", fault.text);
    return e;
}

static bt_err run_row(bt_decode *e, const bt_kv_view *kv, int32_t token, size_t pos, float *logits)
{
    const bt_decode_seq seq = {.kv = kv, .pos = pos, .tokens = &token, .count = 1, .out = 1};
    return bt_decode_step(e, &seq, 1, NULL, logits, NULL);
}

static dc_worker *new_worker(const bt_model *m)
{
    dc_worker *w = NULL;
    const dc_worker_config c = {.engine = new_engine(m, ROWS), .slots = SLOTS,
                                .page_tokens = WORKER_KIT_PAGE_TOKENS};
    assert_int_equal(dc_worker_new(&w, &c, NULL), BT_OK);
    return w;
}

static bt_kv_view view_of(const room *r, uint32_t slot) { return worker_kit_view(&r->kit, slot); }

/* A model that never says its end, KV of a prompt in every slot, a worker, and an engine of our own. */
static void open_room(room *r)
{
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.ctx = CTX;
    worker_kit_open(&r->kit, &spec, SLOTS + 1, CTX);
    r->engine = new_engine(r->kit.model, 1);
    r->logits = calloc(spec.vocab, sizeof *r->logits);
    for (uint32_t s = 0; s <= SLOTS; s++) {
        const bt_kv_view v = view_of(r, s);
        for (size_t i = 0; i < PROMPT; i++)
            assert_int_equal(run_row(r->engine, &v, prompt[i], i, r->logits), BT_OK);
    }
    r->worker = new_worker(r->kit.model);
}

static void close_room(room *r)
{
    dc_worker_free(r->worker);
    bt_decode_free(r->engine);
    free(r->logits);
    worker_kit_close(&r->kit);
}

static void start(room *r, uint32_t slot, uint32_t max_tokens, int32_t stop_id)
{
    const int32_t first = FIRST;
    dc_worker_start job = {.slot = slot,     .view = view_of(r, slot),
                           .prompt = prompt, .prompt_tokens = PROMPT,
                           .ids = &first,    .ids_len = 1,
                           .rows = PROMPT,   .max_tokens = max_tokens};
    if (stop_id >= 0) job.stop_ids[job.stop_ids_len++] = stop_id;
    dc_worker_start_slot(r->worker, &job);
}

static dc_worker_event next(room *r) { return worker_kit_decoded(r->worker); }

/* Greedy, by the engine alone: ids[0] is FIRST. */
static void expect_ids(room *r, int32_t *ids, size_t n)
{
    const bt_kv_view v = view_of(r, SLOTS);
    ids[0] = FIRST;
    for (size_t i = 1; i < n; i++) {
        assert_int_equal(run_row(r->engine, &v, ids[i - 1], PROMPT + i - 1, r->logits), BT_OK);
        int32_t best = 0;
        for (int32_t k = 1; k < (int32_t)r->kit.model->hp.vocab; k++)
            if (r->logits[k] > r->logits[best]) best = k;
        ids[i] = best;
    }
}

static void tokens_are_those_of_the_engine_alone(void **state)
{
    enum { N = 100 };
    int32_t ids[N];
    room r;
    (void)state;
    open_room(&r);
    expect_ids(&r, ids, N);
    start(&r, 1, N, -1);
    for (uint32_t i = 1; i < N; i++) {
        const dc_worker_event ev = next(&r);
        assert_int_equal(ev.type, DC_WORKER_TOKEN);
        assert_int_equal(ev.slot, 1);
        assert_int_equal(ev.index, i);
        assert_int_equal(ev.id, ids[i]);
    }
    const dc_worker_event end = next(&r);
    assert_int_equal(end.type, DC_WORKER_ENDED);
    assert_int_equal(end.reason, BT_FINISH_LENGTH);
    assert_int_equal(end.steps, N - 1);
    close_room(&r);
}

static void a_stop_id_ends_it_where_it_comes_first(void **state)
{
    enum { N = 12 };
    int32_t ids[N];
    room r;
    (void)state;
    open_room(&r);
    expect_ids(&r, ids, N);
    uint32_t at = 1;
    while (ids[at] != ids[N - 1]) at++;
    start(&r, 0, 100, ids[at]);
    for (uint32_t i = 1; i <= at; i++) assert_int_equal(next(&r).id, ids[i]);
    dc_worker_event end = next(&r);
    assert_int_equal(end.type, DC_WORKER_ENDED);
    assert_int_equal(end.reason, BT_FINISH_STOP);
    start(&r, 0, 100, FIRST); /* token 0 is it */
    end = next(&r);
    assert_int_equal(end.type, DC_WORKER_ENDED);
    assert_int_equal(end.reason, BT_FINISH_STOP);
    assert_int_equal(end.steps, 0);
    start(&r, 0, 1, -1); /* token 0 is all */
    end = next(&r);
    assert_int_equal(end.reason, BT_FINISH_LENGTH);
    assert_int_equal(end.steps, 0);
    close_room(&r);
}

static void sequences_take_turns_and_do_not_touch_each_other(void **state)
{
    enum { N = 60 };
    int32_t ids[N];
    uint32_t have[SLOTS] = {0}, ended = 0;
    room r;
    (void)state;
    open_room(&r);
    expect_ids(&r, ids, N);
    for (uint32_t s = 0; s < SLOTS; s++) start(&r, s, N, -1);
    while (ended < SLOTS) {
        const dc_worker_event ev = next(&r);
        ended += ev.type == DC_WORKER_ENDED;
        if (ev.type != DC_WORKER_TOKEN) continue;
        assert_int_equal(ev.id, ids[ev.index]);
        assert_int_equal(ev.index, ++have[ev.slot]);
    }
    for (uint32_t s = 0; s < SLOTS; s++) assert_int_equal(have[s], N - 1);
    close_room(&r);
}

static void what_no_step_could_serve_ends_at_once_in_words(void **state)
{
    const int32_t wild = 1 << 20;
    room r;
    (void)state;
    open_room(&r);
    dc_worker_start good = {.slot = 1,     .view = view_of(&r, 1), .prompt = prompt, .prompt_tokens = PROMPT,
                            .ids = prompt, .ids_len = 1,           .rows = PROMPT,   .max_tokens = 9};
    static const uint8_t program[64] = "BTPD";
    dc_worker_start bad[7] = {good, good, good, good, good, good, good};
    bad[0].max_tokens = CTX; /* longer than the context */
    bad[1].ids = &wild;
    bad[2].view.page_tokens = 16;
    bad[3].view.elem_bytes = 4;
    bad[4].rows = PROMPT + 1;          /* more than is known */
    bad[5].rows = 0;                   /* nobody prefills here */
    bad[6].sampling.program = program; /* and this worker has no vocabulary */
    bad[6].sampling.program_len = sizeof program;
    start(&r, 0, 400, -1);
    for (size_t i = 0; i < 7; i++) {
        dc_worker_start_slot(r.worker, &bad[i]);
        dc_worker_event ev;
        while ((ev = next(&r)).slot != 1)
            assert_true(ev.type != DC_WORKER_ENDED || ev.reason == BT_FINISH_LENGTH);
        assert_int_equal(ev.type, DC_WORKER_ENDED);
        assert_int_equal(ev.reason, BT_FINISH_ERROR);
        assert_true(strlen(ev.u.text) > 0);
    }
    close_room(&r);
}

static void a_stopped_sequence_ends_once_whenever_it_is_stopped(void **state)
{
    enum { ROUNDS = 80 };
    room r;
    size_t stopped = 0;
    (void)state;
    open_room(&r);
    for (size_t i = 0; i < ROUNDS; i++) {
        uint32_t wait = (uint32_t)(bt_rng_u64(1, i) % 6);
        bool other_ended = false, ended = false;
        start(&r, 0, 400, -1);
        start(&r, 2, 4, -1);
        while (wait > 0) {
            const dc_worker_event ev = next(&r);
            if (ev.slot == 0) wait--;
            if (ev.slot == 2 && ev.type == DC_WORKER_ENDED) other_ended = true;
        }
        dc_worker_stop_slot(r.worker, 0);
        while (!ended || !other_ended) {
            const dc_worker_event ev = next(&r);
            if (ev.type == DC_WORKER_TOKEN) continue;
            if (ev.slot == 0) {
                assert_false(ended);
                ended = true;
                stopped += ev.type == DC_WORKER_STOPPED;
            } else {
                assert_int_equal(ev.type, DC_WORKER_ENDED);
                other_ended = true;
            }
        }
    }
    assert_true(stopped > ROUNDS / 2);
    close_room(&r);
}

static void waits_for_a_reader_that_is_late_and_loses_nothing(void **state)
{
    enum { TOKENS = 2000 }; /* three times as many are more than the ring of events holds */
    room r;
    uint32_t next_index[SLOTS];
    size_t ended = 0;
    (void)state;
    open_room(&r);
    for (uint32_t s = 0; s < SLOTS; s++) {
        next_index[s] = 1;
        start(&r, s, TOKENS, -1);
    }
    (void)poll(NULL, 0, 300); /* lateness is what is tested; the outcome does not depend on how long */
    while (ended < SLOTS) {
        const dc_worker_event ev = next(&r);
        if (ev.type == DC_WORKER_TOKEN) assert_int_equal(ev.index, next_index[ev.slot]++);
        else ended++;
    }
    for (uint32_t s = 0; s < SLOTS; s++) assert_int_equal(next_index[s], TOKENS);
    close_room(&r);
}

static void may_be_freed_with_sequences_in_work(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        room r;
        open_room(&r);
        for (uint32_t s = 0; s < i % (SLOTS + 1); s++) start(&r, s, 400, -1);
        if (i > 4) (void)next(&r);
        close_room(&r);
    }
    room r; /* idle, over and over: the thread is on its way to sleep or asleep */
    open_room(&r);
    for (uint32_t i = 0; i < 200; i++) {
        dc_worker_free(r.worker);
        r.worker = new_worker(r.kit.model);
        if (i % 2) {
            start(&r, 0, 2, -1);
            while (next(&r).type == DC_WORKER_TOKEN) {}
        }
    }
    close_room(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_of_the_engine_alone),
        cmocka_unit_test(a_stop_id_ends_it_where_it_comes_first),
        cmocka_unit_test(sequences_take_turns_and_do_not_touch_each_other),
        cmocka_unit_test(what_no_step_could_serve_ends_at_once_in_words),
        cmocka_unit_test(a_stopped_sequence_ends_once_whenever_it_is_stopped),
        cmocka_unit_test(waits_for_a_reader_that_is_late_and_loses_nothing),
        cmocka_unit_test(may_be_freed_with_sequences_in_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
