/* A worker with a device: each step is told with its price before what came of it, and with a pace the next
 * one begins when it is let go. Tokens are those of a worker without. */
#include "decode-node/worker.h"
#include "tests/helpers/model/worker_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 2, PROMPT = 5, CTX = 512, FIRST = 40, TOKENS = 12 };
static const int32_t prompt[PROMPT] = {10, 11, 12, 13, 14};

typedef struct room {
    worker_kit kit;
    dc_worker_device device;
    dc_worker *worker;
} room;

/* rows of the prompt are zero: what is computed does not matter, only that it is the same */
static void open_room(room *r, bool has_device, uint64_t pace_milli)
{
    bt_decode *e = NULL;
    memset(r, 0, sizeof *r);
    worker_kit_open(&r->kit, NULL, SLOTS, CTX);
    assert_int_equal(bt_profile_load(&r->device.profile, "adreno-750", NULL), BT_OK);
    r->device.model = (bt_price_model){.body_weights = 1000000,
                                       .weight_bytes = 2000000,
                                       .kv_bytes = 1000,
                                       .operators = 10,
                                       .layers = 1,
                                       .hidden = 64,
                                       .heads = 1,
                                       .head_dim = 64,
                                       .weight_bits = 16,
                                       .input_bits = 16};
    r->device.pace.milli = pace_milli;
    assert_int_equal(bt_decode_new(&e, r->kit.model, &(bt_decode_config){.rows_max = 8}, NULL), BT_OK);
    const dc_worker_config c = {.engine = e, .slots = SLOTS, .page_tokens = WORKER_KIT_PAGE_TOKENS,
                                .device = has_device ? &r->device : NULL};
    assert_int_equal(dc_worker_new(&r->worker, &c, NULL), BT_OK);
}

static void close_room(room *r)
{
    dc_worker_free(r->worker);
    worker_kit_close(&r->kit);
}

static void start(room *r, uint32_t slot)
{
    const int32_t first = FIRST;
    dc_worker_start job = {.slot = slot,     .view = worker_kit_view(&r->kit, slot),
                           .prompt = prompt, .prompt_tokens = PROMPT,
                           .ids = &first,    .ids_len = 1,
                           .rows = PROMPT,   .max_tokens = TOKENS};
    dc_worker_start_slot(r->worker, &job);
}

static dc_worker_event next(room *r) { return worker_kit_decoded(r->worker); }

/* All tokens of slot 0, alone; the STEPs are checked and answered. *ret_late: begin of each is the last go.
 */
static void run_alone(room *r, int32_t ids[TOKENS])
{
    const bool has_pace = r->device.pace.milli > 0;
    int64_t go_us = 0;
    uint32_t told = 1;
    bool is_due = false; /* a STEP came, and no token of it */
    ids[0] = FIRST;
    start(r, 0);
    for (;;) {
        const dc_worker_event ev = next(r);
        if (ev.type == DC_WORKER_ENDED) break;
        if (ev.type == DC_WORKER_STEP) {
            bt_price_step s = {0};
            bt_work_step_add(&s, PROMPT + told - 1, 1, 1, 0);
            const bt_work want = bt_work_of_step(&r->device.profile, &r->device.model, &s);
            assert_false(is_due);
            is_due = true;
            assert_int_equal(ev.device.ns, want.ns);
            assert_int_equal(ev.due_us,
                             has_pace ? bt_pace_due_us(&r->device.pace, ev.begin_us, want.ns) : ev.begin_us);
            if (!has_pace) continue;
            if (go_us) assert_int_equal(ev.begin_us, go_us);
            /* nothing more than this step before it is let go: the worker waits */
            go_us = ev.due_us + 3;
            dc_worker_go(r->worker, go_us);
        } else if (ev.type == DC_WORKER_TOKEN) {
            assert_true(is_due);
            is_due = false;
            assert_int_equal(ev.index, told);
            assert_true(ev.device.ns > 0);
            assert_int_equal(ev.device.steps, 1);
            ids[told++] = ev.id;
        }
    }
    assert_int_equal(told, TOKENS);
}

static void tokens_are_those_of_a_worker_without_a_device(void **state)
{
    (void)state;
    int32_t plain[TOKENS] = {FIRST}, priced[TOKENS], paced[TOKENS];
    room r;
    open_room(&r, false, 0);
    start(&r, 0);
    for (dc_worker_event ev; (ev = next(&r)).type != DC_WORKER_ENDED;) {
        assert_int_not_equal(ev.type, DC_WORKER_STEP);
        if (ev.type != DC_WORKER_TOKEN) continue;
        plain[ev.index] = ev.id;
        assert_int_equal(ev.device.ns, 0);
    }
    close_room(&r);
    open_room(&r, true, 0);
    run_alone(&r, priced);
    close_room(&r);
    open_room(&r, true, 500);
    run_alone(&r, paced);
    close_room(&r);
    assert_memory_equal(plain, priced, sizeof plain);
    assert_memory_equal(plain, paced, sizeof plain);
}

static void who_comes_while_a_step_is_held_is_in_the_next_one(void **state)
{
    (void)state;
    room r;
    open_room(&r, true, 1000);
    start(&r, 0);
    dc_worker_event ev = next(&r);
    while (ev.type == DC_WORKER_NEED) ev = next(&r);
    assert_int_equal(ev.type, DC_WORKER_STEP);
    const uint64_t alone_ns = ev.device.ns;
    start(&r, 1);
    assert_int_equal(next(&r).type, DC_WORKER_TOKEN);
    assert_false(dc_worker_next(r.worker, &ev)); /* no second step */
    dc_worker_go(r.worker, ev.due_us);
    while ((ev = next(&r)).type != DC_WORKER_STEP) assert_int_equal(ev.type, DC_WORKER_NEED);
    bt_price_step both = {0};
    bt_work_step_add(&both, PROMPT + 1, 1, 1, 0);
    bt_work_step_add(&both, PROMPT, 1, 1, 0);
    const bt_work want = bt_work_of_step(&r.device.profile, &r.device.model, &both);
    assert_int_equal(ev.device.ns, want.ns);
    assert_true(want.ns > alone_ns);
    for (int i = 0; i < 2; i++) {
        const dc_worker_event token = next(&r);
        assert_int_equal(token.type, DC_WORKER_TOKEN);
        assert_int_equal(token.device.ns, want.ns); /* all of the step's time, half of the rest */
        assert_int_equal(token.device.ideal_ns, bt_time_scale(want.ideal_ns, 1, 2));
    }
    close_room(&r); /* with a step that nobody lets go */
}

/* Twelve known tokens whose rows are to be made again, eight a step: the first step brings no token. */
static void a_step_without_a_token_is_paced_and_late_in_the_next_token(void **state)
{
    (void)state;
    enum { KNOWN = 12, LATE_US = 7 };
    int32_t ids[KNOWN];
    room r;
    open_room(&r, true, 1000);
    for (int i = 0; i < KNOWN; i++) ids[i] = FIRST + i;
    const dc_worker_start job = {.slot = 0,        .view = worker_kit_view(&r.kit, 0),
                                 .prompt = prompt, .prompt_tokens = PROMPT,
                                 .ids = ids,       .ids_len = KNOWN,
                                 .rows = PROMPT,   .max_tokens = KNOWN + 4};
    dc_worker_start_slot(r.worker, &job);
    uint64_t steps = 0, ns = 0, paced_us = 0;
    dc_worker_event ev;
    while ((ev = next(&r)).type != DC_WORKER_TOKEN) {
        if (ev.type != DC_WORKER_STEP) continue;
        steps++;
        ns += ev.device.ns;
        paced_us += (uint64_t)(ev.due_us - ev.begin_us);
        dc_worker_go(r.worker, ev.due_us + LATE_US);
    }
    assert_int_equal(steps, 2);
    assert_int_equal(ev.device.steps, steps);
    assert_int_equal(ev.device.ns, ns);
    assert_int_equal(ev.device.paced_us, paced_us);
    assert_int_equal(ev.device.late_us, LATE_US); /* the last step's is not known to the worker */
    close_room(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_of_a_worker_without_a_device),
        cmocka_unit_test(a_step_without_a_token_is_paced_and_late_in_the_next_token),
        cmocka_unit_test(who_comes_while_a_step_is_held_is_in_the_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
