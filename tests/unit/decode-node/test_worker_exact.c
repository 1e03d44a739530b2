/* A sequence's tokens and KV rows are what its prompt, its sampling and the engines make of them, and nothing
 * else: every request that goes through a worker is held against the same request alone, prefilled by the
 * prefill node's engine and decoded row by row. Where a program says what the answer may be, the open tokens
 * of the request alone are those that the program accepts, asked one by one. Neighbours, pieces of prefills,
 * tokens known from elsewhere, stops at any moment with rows kept or dropped, pages that grow, drafts, and
 * calls that rows of answers share with prompts where both are by one engine: all of them at random. Meant to
 * be run under the thread sanitizer too. */
#include "decode-node/worker.h"
#include "base/rng.h"
#include "kv/kv_pack.h"
#include "engine/prefill.h"
#include "model/vocab.h"
#include "node/node_setup.h"
#include "sample/sample.h"
#include "tests/helpers/model/worker_kit.h"
#include "tests/unit/grammar/kit.h"

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
    SLOTS = 10,
    ROWS = 16,
    CTX = 256,
    PAGE_TOKENS = 16,
    PROMPT = 90,
    ANSWER = 60,
    VOCAB = 384,
    DEADLINE_MS = 60000
};

/* A request and its answer when it is alone. */
typedef struct request {
    int32_t prompt[PROMPT];
    uint32_t prompt_tokens, max_tokens;
    bt_sampling sampling;
    bt_sample_bias bias[2];
    const bt_program *program; /* of sampling.program; NULL: none */
    uint32_t stop_ids_len;
    int32_t stop_ids[1];
    int32_t ids[ANSWER];
    uint32_t len;
    bt_finish reason;
    bt_msg_logprob logprob[ANSWER];
    bt_kv_view kv; /* prompt_tokens + len - 1 rows */
} request;

typedef struct slot_state {
    request r;
    bt_kv_view kv;
    size_t capacity;  /* what the worker knows of */
    uint32_t known;   /* tokens told, or given at START */
    uint32_t stop_at; /* STOP when so many are known; UINT32_MAX: never */
    bool busy, stopping;
} slot_state;

typedef struct room {
    worker_kit kit;
    const char *decodes; /* its engine; with "npu" a package for both roles */
    uint32_t elem_bytes; /* of KV */
    bt_pool *pool;
    bt_prefill *prefill;
    bt_decode *alone;
    bt_sample *sampler;
    bt_tokenizer *tok;
    bt_constraint_vocab *words;
    struct {
        bt_buf bytes;
        bt_program *program;
    } grammar[3];
    float *logits;
    dc_worker *worker;
    slot_state slot[SLOTS];
    uint64_t seed, draws;
    uint64_t drafted, accepted, mixed, restarts, firsts, needs, pieces, constrained, ended;
} room;

static void open_grammars(room *r)
{
    static const struct {
        grammar_form form;
        const char *text;
    } of[] = {
        {GRAMMAR_REGEX, "([a-z]+ ?){2,9}"},
        {GRAMMAR_GBNF, "root ::= \"[\" (root (\",\" root)*)? \"]\""},
        {GRAMMAR_SCHEMA, "{\"type\": \"array\", \"items\": {\"enum\": [\"a\", 12, true]}, \"maxItems\": 4}"},
    };
    bt_fault f = {""};
    assert_int_equal(bt_node_setup_words(&r->words, r->kit.model, &f), BT_OK);
    assert_int_equal(bt_vocab_load(&r->tok, r->kit.model->file, &f), BT_OK);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        bt_buf *b = &r->grammar[i].bytes;
        assert_int_equal(grammar_bytes(b, of[i].form, of[i].text, &f), BT_OK);
        assert_int_equal(bt_program_new(&r->grammar[i].program, b->data, b->len, &f), BT_OK);
    }
}

static void close_grammars(room *r)
{
    for (size_t i = 0; i < 3; i++) {
        bt_program_free(r->grammar[i].program);
        bt_buf_done(&r->grammar[i].bytes);
    }
    bt_constraint_vocab_free(r->words);
    bt_tokenizer_free(r->tok);
}

static uint32_t draw(room *r, uint32_t n) { return (uint32_t)(bt_rng_u64(r->seed, r->draws++) % n); }

static const bt_obtain_want rows_too = {.shape_policy = "chunk:32+tail:1"};

static bt_decode *new_engine(const room *r, size_t rows_max, bt_pool *pool)
{
    bt_decode *e = NULL;
    bt_fault fault;
    if (bt_decode_new(&e, r->kit.model,
                      &(bt_decode_config){.engine = r->decodes, .want = rows_too, .rows_max = rows_max,
                                          .pool = pool, .kv_elem_bytes = r->elem_bytes},
                      &fault) < 0)
        fail_msg("%s", fault.text);
    return e;
}

static void open_room(room *r, const char *arch, const char *engine, const char *decodes, uint32_t elem_bytes,
                      uint32_t draft_max)
{
    bt_fault fault = {""};
    tiny_gguf_spec spec = tiny_gguf_default();
    memset(r, 0, sizeof *r);
    spec.arch = arch;
    spec.layers = strcmp(arch, "smollm3") ? 2 : 4; /* the fourth is not rotated */
    spec.ctx = CTX;
    r->seed = 5;
    r->decodes = decodes;
    r->elem_bytes = elem_bytes;
    worker_kit_open(&r->kit, &spec, 0, 0);
    assert_int_equal(bt_pool_new(&r->pool, 2, NULL), BT_OK);
    if (bt_prefill_new(&r->prefill, r->kit.model,
                       &(bt_prefill_config){.engine = engine, .want = rows_too, .threads = 1,
                                            .kv_elem_bytes = elem_bytes},
                       &fault) < 0)
        fail_msg("%s", fault.text);
    r->alone = new_engine(r, 1, NULL); /* the pool is the worker's */
    assert_int_equal(bt_sample_new(&r->sampler, NULL, r->kit.model->hp.vocab, NULL), BT_OK);
    r->logits = engine_kit_floats(r->kit.model->hp.vocab);
    open_grammars(r);
    dc_worker_config c = {.engine = new_engine(r, ROWS, r->pool),
                          .words = r->words,
                          .pool = r->pool,
                          .slots = SLOTS,
                          .page_tokens = PAGE_TOKENS,
                          .chunk_tokens = 24,
                          .replay_rows = 5,
                          .ahead_tokens = 3,
                          .draft_max = draft_max};
    const bt_prefill_config lc = {
        .engine = engine,  .want = rows_too, .pkg = bt_decode_shared_package(c.engine),
        .ctx_tokens = CTX, .pool = r->pool,  .kv_elem_bytes = elem_bytes};
    if (bt_prefill_new(&c.local, r->kit.model, &lc, &fault) < 0 || dc_worker_new(&r->worker, &c, &fault) < 0)
        fail_msg("%s", fault.text);
}

static void close_room(room *r)
{
    dc_worker_free(r->worker);
    close_grammars(r);
    bt_decode_free(r->alone);
    bt_prefill_free(r->prefill);
    bt_pool_free(r->pool);
    bt_sample_free(r->sampler);
    free(r->logits);
    worker_kit_close(&r->kit);
}

/* ---- a request, alone ---- */

/* Each token is asked by itself, from the beginning of the answer on. */
static const uint64_t *open_of(room *r, const request *q)
{
    static uint64_t bits[VOCAB / 64];
    if (!q->program) return NULL;
    bt_program_state s;
    bt_program_begin(&s, q->program);
    for (uint32_t i = 0; i < q->len; i++) {
        const bt_text_span t = bt_tokenizer_piece(r->tok, q->ids[i]);
        if (!bt_tokenizer_is_eog(r->tok, q->ids[i]))
            assert_int_equal(bt_program_accept(&s, q->program, t.ptr, t.len, NULL), BT_OK);
    }
    memset(bits, 0, sizeof bits);
    for (int32_t id = 0; id < VOCAB; id++) {
        const bt_token_type type = bt_tokenizer_type(r->tok, id);
        const bt_text_span t = bt_tokenizer_piece(r->tok, id);
        bt_program_state next = s;
        const bool is_open = bt_tokenizer_is_eog(r->tok, id) ? bt_program_may_end(&s, q->program)
                             : type == BT_TOKEN_CONTROL || type == BT_TOKEN_UNKNOWN
                                 ? false
                                 : bt_program_accept(&next, q->program, t.ptr, t.len, NULL) == BT_OK;
        bits[id / 64] |= (uint64_t)is_open << id % 64;
    }
    r->constrained++;
    r->ended += bt_program_may_end(&s, q->program);
    return bits;
}

static void one_token(room *r, request *q)
{
    const bt_sample_history h = {.prompt = q->prompt, .prompt_len = q->prompt_tokens, .generated = q->ids,
                                 .generated_len = q->len, .open = open_of(r, q)};
    assert_int_equal(bt_sample_token(&q->ids[q->len], &q->logprob[q->len], r->sampler, &q->sampling,
                                     r->logits, &h, NULL),
                     BT_OK);
    q->len++;
    if (q->len == q->max_tokens) q->reason = BT_FINISH_LENGTH;
    if (q->stop_ids_len && q->ids[q->len - 1] == q->stop_ids[0]) q->reason = BT_FINISH_STOP;
}

static void run_alone(room *r, request *q)
{
    q->kv = engine_kit_pages(r->kit.model, CTX, PAGE_TOKENS, r->elem_bytes);
    q->sampling.bias = q->bias;
    assert_int_equal(bt_prefill_run(r->prefill, &q->kv, q->prompt, q->prompt_tokens, 0, NULL, r->logits,
                                    BT_PREFILL_LAST, NULL),
                     BT_OK);
    for (one_token(r, q); !q->reason; one_token(r, q)) {
        const bt_decode_seq s = {.kv = &q->kv, .pos = q->prompt_tokens + q->len - 1,
                                 .tokens = &q->ids[q->len - 1], .count = 1, .out = 1};
        assert_int_equal(bt_decode_step(r->alone, &s, 1, NULL, r->logits, NULL), BT_OK);
    }
}

/* Prompts of few words, which come again: drafts are found and are sometimes right. */
static request make_request(room *r)
{
    request q = {.prompt_tokens = 1 + draw(r, PROMPT), .max_tokens = 1 + draw(r, ANSWER),
                 .sampling = bt_sample_greedy()};
    const uint32_t words = 2 + draw(r, 12);
    for (uint32_t i = 0; i < q.prompt_tokens; i++) q.prompt[i] = (int32_t)(3 + draw(r, words) * 29);
    if (draw(r, 3) == 0) {
        q.sampling.temperature = 0.2f + 0.1f * (float)draw(r, 10);
        q.sampling.top_k = 1 + draw(r, 20);
        q.sampling.seed = draw(r, 1000);
    }
    if (draw(r, 3) == 0) q.sampling.repetition_penalty = 1.3f;
    if (draw(r, 4) == 0) q.sampling.frequency_penalty = 0.5f;
    if (draw(r, 4) == 0) q.sampling.presence_penalty = -0.25f;
    if (draw(r, 4) == 0) q.sampling.logprobs = true;
    q.sampling.top_logprobs = q.sampling.logprobs ? draw(r, 4) : 0;
    if (draw(r, 5) == 0) {
        q.bias[0] = (bt_sample_bias){.id = 32, .bias = 2};
        q.bias[1] = (bt_sample_bias){.id = 61, .bias = -3};
        q.sampling.bias_len = 2;
    }
    if (draw(r, 3) == 0) q.stop_ids[q.stop_ids_len++] = (int32_t)(3 + draw(r, 380));
    if (draw(r, 12) == 0) {
        const uint32_t g = draw(r, 3);
        q.program = r->grammar[g].program;
        q.sampling.program = r->grammar[g].bytes.data;
        q.sampling.program_len = (uint32_t)r->grammar[g].bytes.len;
        if (draw(r, 2)) q.stop_ids[0] = 2, q.stop_ids_len = 1; /* EOS */
    }
    return q;
}

/* ---- the same, through the worker ---- */

static bt_kv_view told_view(const slot_state *s)
{
    bt_kv_view v = s->kv;
    v.tokens_capacity = s->capacity;
    return v;
}

static void start(room *r, uint32_t slot, uint32_t rows)
{
    slot_state *s = &r->slot[slot];
    const uint32_t want = rows > s->r.prompt_tokens ? rows : s->r.prompt_tokens;
    const size_t least = (want + PAGE_TOKENS - 1) / PAGE_TOKENS * PAGE_TOKENS;
    if (s->capacity < least) s->capacity = least;
    dc_worker_start a = {.slot = slot,
                         .view = told_view(s),
                         .prompt = s->r.prompt,
                         .prompt_tokens = s->r.prompt_tokens,
                         .ids = s->r.ids,
                         .ids_len = s->known,
                         .rows = rows,
                         .max_tokens = s->r.max_tokens,
                         .sampling = s->r.sampling,
                         .stop_ids_len = s->r.stop_ids_len};
    memcpy(a.stop_ids, s->r.stop_ids, s->r.stop_ids_len * sizeof *a.stop_ids);
    a.sampling.bias = s->r.bias;
    s->busy = true;
    s->stopping = false;
    s->stop_at = draw(r, 3) ? UINT32_MAX : draw(r, ANSWER);
    dc_worker_start_slot(r->worker, &a);
    if (s->stop_at <= s->known) {
        s->stopping = true;
        dc_worker_stop_slot(r->worker, slot);
    }
}

/* Rows [0, rows) of a slot as the request alone made them: a hand-over. Whatever lies behind them is not a
 * number. */
static void give_rows(slot_state *s, uint32_t rows)
{
    const size_t bytes = rows ? bt_kv_pack_bytes(&s->kv, rows) : 0;
    uint8_t *body = engine_kit_alloc(bytes);
    for (uint32_t l = 0; l < s->kv.layers && rows; l++) {
        assert_int_equal(bt_kv_pack_take(body, bytes, &s->r.kv, l, 0, rows, NULL), BT_OK);
        assert_int_equal(bt_kv_pack_place(&s->kv, l, 0, rows, body, bytes, NULL), BT_OK);
    }
    free(body);
}

/* A new request, `known` tokens of whose answer and `rows` of whose rows are here already. */
static void take(room *r, uint32_t slot, const request *q, uint32_t known, uint32_t rows)
{
    slot_state *s = &r->slot[slot];
    *s = (slot_state){.r = *q, .kv = engine_kit_pages(r->kit.model, CTX, PAGE_TOKENS, r->elem_bytes),
                      .known = known};
    give_rows(s, rows);
    start(r, slot, rows);
}

static void drop(slot_state *s)
{
    engine_kit_pages_free(&s->kv);
    engine_kit_pages_free(&s->r.kv);
    s->busy = false;
}

static void check_logprob(const request *q, const dc_worker_event *ev)
{
    const bt_msg_logprob *want = &q->logprob[ev->index];
    assert_int_equal(ev->has_logprob, q->sampling.logprobs);
    if (!ev->has_logprob) return;
    assert_memory_equal(&ev->logprob.own, &want->own, sizeof want->own);
    assert_int_equal(ev->logprob.top_len, want->top_len);
    assert_memory_equal(ev->logprob.top_ids, want->top_ids, want->top_len * sizeof *want->top_ids);
    assert_memory_equal(ev->logprob.top, want->top, want->top_len * sizeof *want->top);
}

static void on_token(room *r, const dc_worker_event *ev)
{
    slot_state *s = &r->slot[ev->slot];
    assert_int_equal(ev->index, s->known);
    assert_true(ev->index < s->r.len);
    if (ev->id != s->r.ids[ev->index])
        fail_msg("slot %u, prompt of %u: token %u is %d, alone it is %d", ev->slot, s->r.prompt_tokens,
                 ev->index, ev->id, s->r.ids[ev->index]);
    check_logprob(&s->r, ev);
    s->known++;
    if (ev->type == DC_WORKER_FIRST) {
        bt_digest16 want;
        assert_int_equal(bt_kv_pack_digest(want.bytes, &s->r.kv, s->r.prompt_tokens, NULL), BT_OK);
        assert_memory_equal(want.bytes, ev->u.first.kv_digest.bytes, sizeof want.bytes);
        assert_true(ev->u.first.work.rows > 0 && ev->u.first.top_len == BT_MSG_TOP_LOGITS);
        r->firsts++;
    }
    if (s->known >= s->stop_at && !s->stopping) {
        s->stopping = true;
        dc_worker_stop_slot(r->worker, ev->slot);
    }
}

static void on_ended(room *r, const dc_worker_event *ev)
{
    slot_state *s = &r->slot[ev->slot];
    if (ev->reason == BT_FINISH_ERROR) fail_msg("slot %u: %s", ev->slot, ev->u.text);
    assert_int_equal(s->known, s->r.len);
    assert_int_equal(ev->reason, s->r.reason);
    const size_t rows = s->r.prompt_tokens + s->r.len - 1;
    assert_int_equal(engine_kit_hash(&s->kv, rows), engine_kit_hash(&s->r.kv, rows));
    r->drafted += ev->drafted;
    r->accepted += ev->accepted;
    r->mixed += ev->mixed;
    drop(s);
}

/* Stopped: for good, or it goes on: with its rows, with those of the prompt, or with none. */
static void on_stopped(room *r, const dc_worker_event *ev)
{
    slot_state *s = &r->slot[ev->slot];
    const uint32_t how = draw(r, 4);
    assert_true(s->stopping);
    r->drafted += ev->drafted;
    r->accepted += ev->accepted;
    r->mixed += ev->mixed;
    if (s->known && ev->rows >= s->r.prompt_tokens)
        assert_true(ev->rows <= s->r.prompt_tokens + s->known - 1);
    else assert_true(ev->rows <= s->r.prompt_tokens);
    assert_int_equal(engine_kit_hash(&s->kv, ev->rows), engine_kit_hash(&s->r.kv, ev->rows));
    if (how == 0) {
        drop(s);
        return;
    }
    r->restarts++;
    start(r, ev->slot,
          how == 1                                                ? ev->rows
          : how == 2 && s->known && ev->rows > s->r.prompt_tokens ? s->r.prompt_tokens
                                                                  : 0);
}

/* The capacity of the pages grows when it is asked for, by a page at a time, sometimes by more. */
static void on_need(room *r, const dc_worker_event *ev)
{
    slot_state *s = &r->slot[ev->slot];
    assert_true(s->busy && ev->tokens > s->capacity &&
                ev->tokens <= s->r.prompt_tokens + s->r.max_tokens - 1);
    s->capacity += PAGE_TOKENS * (1 + draw(r, 3));
    if (s->capacity > CTX) s->capacity = CTX;
    const bt_kv_view v = told_view(s);
    dc_worker_grow_slot(r->worker, ev->slot, &v);
    r->needs++;
}

static bool pump(room *r, bool wait)
{
    dc_worker_event ev;
    while (!dc_worker_next(r->worker, &ev)) {
        struct pollfd p = {.fd = dc_worker_fd(r->worker), .events = POLLIN};
        if (!wait) return false;
        assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
    }
    switch (ev.type) {
    case DC_WORKER_FIRST:
    case DC_WORKER_TOKEN: on_token(r, &ev); break;
    case DC_WORKER_NEED: on_need(r, &ev); break;
    case DC_WORKER_ENDED: on_ended(r, &ev); break;
    case DC_WORKER_STOPPED: on_stopped(r, &ev); break;
    case DC_WORKER_PIECE: r->pieces++; break;
    case DC_WORKER_STEP: fail_msg("a price without a device"); break;
    }
    return true;
}

static void pump_all(room *r)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        while (r->slot[i].busy) (void)pump(r, true);
}

static void soak(room *r, uint32_t requests)
{
    printf("seed %llu\n", (unsigned long long)r->seed);
    for (uint32_t i = 0; i < requests; i++) {
        request q = make_request(r);
        uint32_t slot = 0;
        run_alone(r, &q);
        while (pump(r, false)) {}
        while (r->slot[slot].busy)
            if (++slot == SLOTS) {
                (void)pump(r, true);
                slot = 0;
            }
        /* Prefilled here from some row on, or handed over with some tokens known. */
        const uint32_t known = q.len > 1 && draw(r, 2) ? 1 + draw(r, q.len - 1) : 0;
        take(r, slot, &q, known,
             known ? q.prompt_tokens + (draw(r, 2) ? 0 : draw(r, known)) : draw(r, q.prompt_tokens));
    }
    pump_all(r);
    printf("%u requests: %llu prefilled here, %llu went on after a stop, %llu needs, %llu drafts, %llu "
           "right, %llu "
           "steps of them with prompts\n",
           requests, (unsigned long long)r->firsts, (unsigned long long)r->restarts,
           (unsigned long long)r->needs, (unsigned long long)r->drafted, (unsigned long long)r->accepted,
           (unsigned long long)r->mixed);
    assert_true(r->firsts > 0 && r->needs > 0 && r->pieces > 0);
    assert_true(r->constrained > 0 && r->ended > 0 && r->ended < r->constrained);
}

static void two_thousand_random_requests_give_what_each_gives_alone(void **state)
{
    room r;
    (void)state;
    open_room(&r, "llama", "host", "host", 2, 4);
    soak(&r, 2000);
    assert_true(r.restarts > 0);
    assert_true(r.drafted > 0 && r.mixed > 0);
    close_room(&r);
}

static void without_drafts_too_with_prompts_by_the_integer_npu_and_kv_of_8_bits(void **state)
{
    room r;
    (void)state;
    open_room(&r, "llama", "npu", "host", 1, 0);
    soak(&r, 300);
    assert_true(r.restarts > 0);
    assert_int_equal(r.drafted, 0);
    assert_int_equal(r.mixed, 0); /* rows of prompts and of answers are by two engines */
    close_room(&r);
}

static void by_the_integer_npu_from_end_to_end(void **state)
{
    room r;
    (void)state;
    open_room(&r, "llama", "npu", "npu", 2, 4);
    soak(&r, 300);
    assert_true(r.restarts > 0);
    assert_true(r.drafted > 0 && r.mixed > 0);
    close_room(&r);
}

static void goes_on_from_every_number_of_known_tokens(void **state)
{
    room r;
    (void)state;
    open_room(&r, "llama", "host", "host", 2, 0);
    for (uint32_t seeded = 0; seeded < 2; seeded++)
        for (uint32_t n = 1; n < 40; n++) {
            request q = {.prompt_tokens = 37, .max_tokens = 40, .sampling = bt_sample_greedy()};
            if (seeded) q.sampling.temperature = 1;
            q.sampling.seed = seeded;
            engine_kit_ids(q.prompt, q.prompt_tokens, r.kit.model, 3);
            run_alone(&r, &q);
            take(&r, n % SLOTS, &q, n, q.prompt_tokens);
            pump_all(&r);
        }
    close_room(&r);
}

/* Hand-overs, stops, drafts and restarts of the architectures that are unlike llama. */
static void other_architectures_give_what_each_request_gives_alone(void **state)
{
    room r;
    uint64_t restarts = 0; /* a stop may come when its answer is over, so a few requests may have none */
    (void)state;
    for (int a = BT_ARCH_QWEN2; a < TINY_GGUF_ARCHS; a++) {
        const char *arch = tiny_gguf_arch(a);
        open_room(&r, arch, "host", "host", 2, 4);
        soak(&r, 60);
        restarts += r.restarts;
        close_room(&r);
        open_room(&r, arch, "npu", "npu", 1, 4);
        soak(&r, 40);
        restarts += r.restarts;
        close_room(&r);
    }
    assert_true(restarts > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_from_every_number_of_known_tokens),
        cmocka_unit_test(two_thousand_random_requests_give_what_each_gives_alone),
        cmocka_unit_test(without_drafts_too_with_prompts_by_the_integer_npu_and_kv_of_8_bits),
        cmocka_unit_test(by_the_integer_npu_from_end_to_end),
        cmocka_unit_test(other_architectures_give_what_each_request_gives_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
