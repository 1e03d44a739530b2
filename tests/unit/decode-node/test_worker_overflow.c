/* The compute thread of the decode node, where numbers leave their range: the sequence ends with its place,
 * after every token before it; the others go on; a draft that would overflow and is wrong changes nothing. */
#include "decode-node/worker.h"
#include "tests/helpers/model/worker_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS = 2, PROMPT = 9, LONG = 200, CTX = 256, HOT = 113, TOKEN = 11, ANSWER = 12 };

/* The tokens whose rows lie in the pages, and the tokens that the worker is told: drafts come from the
 * latter. */
static const int32_t stored[PROMPT] = {11, 11, 11, 12, 12, 12, 10, 11, 11},
                     told[PROMPT] = {11, 11, 11, HOT, HOT, HOT, 10, 11, 11};

typedef struct room {
    worker_kit kit;
    dc_worker *worker;
} room;

static bt_kv_view view_of(const room *r, uint32_t slot) { return worker_kit_view(&r->kit, slot); }

static bt_decode *new_engine(const bt_model *m)
{
    bt_decode *e = NULL;
    assert_int_equal(bt_decode_new(&e, m, &(bt_decode_config){.rows_max = 16, .ctx_tokens = CTX}, NULL),
                     BT_OK);
    return e;
}

static void open_room(room *r, uint32_t draft_max, bool prefills)
{
    tiny_gguf_spec spec = tiny_gguf_default();
    spec.hot_token = HOT, spec.hot_embed = 1000, spec.hot_k = 20000;
    worker_kit_open(&r->kit, &spec, SLOTS, CTX);
    bt_decode *e = new_engine(r->kit.model);
    for (uint32_t s = 0; s < SLOTS; s++) {
        const bt_kv_view v = view_of(r, s);
        const bt_decode_seq seq = {.kv = &v, .tokens = stored, .count = PROMPT};
        assert_int_equal(bt_decode_step(e, &seq, 1, NULL, NULL, NULL), BT_OK);
    }
    bt_decode_free(e);
    dc_worker_config c = {.engine = new_engine(r->kit.model), .slots = SLOTS,
                          .page_tokens = WORKER_KIT_PAGE_TOKENS, .draft_max = draft_max, .chunk_tokens = 1};
    const bt_prefill_config lc = {.engine = "host", .ctx_tokens = CTX,
                                  .weights = bt_decode_shared_weights(c.engine)};
    if (prefills) assert_int_equal(bt_prefill_new(&c.local, r->kit.model, &lc, NULL), BT_OK);
    assert_int_equal(dc_worker_new(&r->worker, &c, NULL), BT_OK);
}

static void close_room(room *r)
{
    dc_worker_free(r->worker);
    worker_kit_close(&r->kit);
}

/* Every token of the answer is `token`. */
static void start(room *r, uint32_t slot, int32_t token)
{
    const int32_t first = TOKEN;
    const bt_sample_bias bias = {token, 100};
    const dc_worker_start job = {.slot = slot,
                                 .view = view_of(r, slot),
                                 .prompt = told,
                                 .prompt_tokens = PROMPT,
                                 .ids = &first,
                                 .ids_len = 1,
                                 .rows = PROMPT,
                                 .max_tokens = ANSWER,
                                 .sampling = {.top_p = 1, .bias = &bias, .bias_len = 1}};
    dc_worker_start_slot(r->worker, &job);
}

static dc_worker_event next(room *r) { return worker_kit_decoded(r->worker); }

static void a_sequence_that_overflows_ends_alone_after_the_tokens_before(void **state)
{
    room r;
    uint32_t tokens[SLOTS] = {0};
    (void)state;
    open_room(&r, 0, false);
    start(&r, 0, TOKEN);
    start(&r, 1, HOT);
    for (uint32_t ended = 0; ended < SLOTS;) {
        const dc_worker_event ev = next(&r);
        if (ev.type == DC_WORKER_TOKEN) {
            assert_int_equal(ev.index, ++tokens[ev.slot]);
            assert_int_equal(ev.id, ev.slot ? HOT : TOKEN);
            continue;
        }
        assert_int_equal(ev.type, DC_WORKER_ENDED);
        assert_int_equal(ev.reason, ev.slot ? BT_FINISH_ERROR : BT_FINISH_LENGTH);
        assert_int_equal(ev.code, ev.slot ? BT_ERANGE : BT_OK);
        if (ev.slot)
            assert_non_null(strstr(ev.u.text, "layer 0, token 10: K is beyond what f16 KV holds (65,504)"));
        ended++;
    }
    assert_int_equal(tokens[0], ANSWER - 1);
    assert_int_equal(tokens[1], 1);
    close_room(&r);
}

/* The prompt goes token by token, so that the other sequence's steps are in calls with it. */
static void in_a_call_with_a_prompt_it_ends_alone_too(void **state)
{
    room r;
    int32_t prompt[LONG];
    const bt_sample_bias bias = {TOKEN, 100};
    uint32_t tokens[SLOTS] = {0};
    (void)state;
    open_room(&r, 0, true);
    for (size_t i = 0; i < LONG; i++) prompt[i] = TOKEN + (int32_t)i % 3;
    const dc_worker_start job = {.slot = 0,
                                 .view = view_of(&r, 0),
                                 .prompt = prompt,
                                 .prompt_tokens = LONG,
                                 .max_tokens = ANSWER,
                                 .sampling = {.top_p = 1, .bias = &bias, .bias_len = 1}};
    dc_worker_start_slot(r.worker, &job);
    start(&r, 1, HOT);
    for (uint32_t ended = 0; ended < SLOTS;) {
        const dc_worker_event ev = next(&r);
        if (ev.type == DC_WORKER_PIECE) continue;
        if (ev.type == DC_WORKER_FIRST || ev.type == DC_WORKER_TOKEN) {
            assert_int_equal(ev.id, ev.slot ? HOT : TOKEN);
            tokens[ev.slot]++;
            continue;
        }
        assert_int_equal(ev.type, DC_WORKER_ENDED);
        assert_int_equal(ev.code, ev.slot ? BT_ERANGE : BT_OK);
        if (ev.slot) {
            assert_non_null(strstr(ev.u.text, "layer 0, token 10: K is beyond what f16 KV holds (65,504)"));
            assert_int_equal(ev.mixed, ev.steps);
        }
        ended++;
    }
    assert_int_equal(tokens[0], ANSWER);
    assert_int_equal(tokens[1], 1);
    close_room(&r);
}

static void a_wrong_draft_that_overflows_changes_nothing(void **state)
{
    room r;
    (void)state;
    open_room(&r, 4, false);
    start(&r, 0, TOKEN);
    for (uint32_t i = 1; i < ANSWER; i++) {
        const dc_worker_event ev = next(&r);
        if (ev.type != DC_WORKER_TOKEN) fail_msg("%s", ev.u.text);
        assert_int_equal(ev.index, i);
        assert_int_equal(ev.id, TOKEN);
    }
    const dc_worker_event end = next(&r);
    assert_int_equal(end.type, DC_WORKER_ENDED);
    assert_int_equal(end.reason, BT_FINISH_LENGTH);
    assert_true(end.drafted > end.accepted); /* the hot ones were tried */
    close_room(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_that_overflows_ends_alone_after_the_tokens_before),
        cmocka_unit_test(in_a_call_with_a_prompt_it_ends_alone_too),
        cmocka_unit_test(a_wrong_draft_that_overflows_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
