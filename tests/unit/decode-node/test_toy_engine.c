/* Another decode engine is one file and one row: this test is the file of one, and puts its row behind those
 * that there are. All else finds it by its table: the door, its checks, the lists of names, the memory that
 * is told, and the worker of a decode node. */
#include "decode-node/worker.h"
#include "engine/decode_backend.h"
#include "engine/mixed.h"
#include "engine/needs.h"
#include "engine/prefill_backend.h"
#include "tests/helpers/model/engine_kit.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the file ----
 * What a row stores is its token, in the first element of its first K row. The token that it makes likely is
 * a function of all tokens before it, read back from the view. */

enum { TOY_BYTES = 4321 /* that it says it needs */ };

typedef struct toy_state {
    size_t vocab;
    uint64_t kv_bytes;
} toy_state;

static bt_err toy_needs(bt_needs *n, const bt_model *m, const bt_needs_want *want, bt_fault *fault)
{
    (void)m, (void)fault;
    n->part[BT_NEEDS_WORK] += TOY_BYTES * want->rows;
    return BT_OK;
}

static bt_err toy_load(void **ret, const bt_model *m, const bt_decode_config *config, bt_fault *fault)
{
    (void)config;
    toy_state *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "making an engine");
    s->vocab = m->hp.vocab;
    *ret = s;
    return BT_OK;
}

static size_t toy_next(size_t sum, size_t pos, size_t vocab) { return (sum * 7 + pos) % vocab; }

static void toy_row(toy_state *s, const bt_kv_view *kv, size_t pos, int32_t token, float *logits)
{
    uint16_t is = (uint16_t)token;
    size_t sum = 0;
    for (uint32_t l = 0; l < kv->layers; l++)
        for (uint32_t h = 0; h < kv->kv_heads; h++)
            for (int is_v = 0; is_v < 2; is_v++, s->kv_bytes += kv->head_bytes)
                memset(bt_kv_view_row(kv, l, is_v, pos, h), 0, kv->head_bytes);
    memcpy(bt_kv_view_row(kv, 0, 0, pos, 0), &is, sizeof is);
    for (size_t t = 0; logits && t <= pos; t++, sum += is)
        memcpy(&is, bt_kv_view_row(kv, 0, 0, t, 0), sizeof is);
    if (!logits) return;
    memset(logits, 0, s->vocab * sizeof *logits);
    logits[toy_next(sum, pos, s->vocab)] = 1;
}

static bt_err toy_step(void *state, const bt_decode_seq *seq, size_t n, bt_overflow *any,
                       const atomic_bool *cancel, float *logits, bt_fault *fault)
{
    toy_state *s = state;
    (void)any; /* its numbers are all 0 or 1 */
    for (size_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < seq[i].count; r++) {
            const bool is_wanted = r + seq[i].out >= seq[i].count;
            if (cancel && atomic_load(cancel)) return bt_fail(fault, BT_ECANCEL, "stopped");
            toy_row(s, seq[i].kv, seq[i].pos + r, seq[i].tokens[r], is_wanted ? logits : NULL);
            if (is_wanted) logits += s->vocab;
        }
    return BT_OK;
}

static const char *toy_word(const void *state)
{
    (void)state;
    return "toy";
}
static uint64_t toy_weight_bytes(const void *state)
{
    (void)state;
    return 0;
}
static uint64_t toy_kv_bytes(const void *state) { return ((const toy_state *)state)->kv_bytes; }

const bt_decode_backend bt_decode_toy = {
    .facts = {.name = "toy", .kv_elem_bytes = {2, 0}},
    .needs = toy_needs,
    .load = toy_load,
    .step = toy_step,
    .isa = toy_word,
    .weights = toy_word,
    .weight_bytes = toy_weight_bytes,
    .kv_bytes_written = toy_kv_bytes,
    .free = free,
};

/* ---- the row ----
 * A product's engine has it in BT_DECODE_ROWS. These lists stand in place of engine/rows.c. */
#define PREFILL(name) &bt_prefill_##name,
#define DECODE(name)  &bt_decode_##name,
const bt_prefill_backend *const bt_prefill_rows[] = {BT_PREFILL_ROWS(PREFILL) NULL};
const bt_decode_backend *const bt_decode_rows[] = {BT_DECODE_ROWS(DECODE) DECODE(toy) NULL};

/* ---- what follows from both ---- */

enum { ROWS = 4, CTX = 256, PAGE_TOKENS = 64, DEADLINE_MS = 60000 };

static bool is_listed(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name)) names++;
    return *names != NULL;
}

static bt_decode *toy_engine(const bt_model *m)
{
    bt_decode *d = NULL;
    bt_fault fault = {""};
    const bt_decode_config c = {.engine = "toy", .rows_max = ROWS, .ctx_tokens = CTX};
    if (bt_decode_new(&d, m, &c, &fault) < 0) fail_msg("%s", fault.text);
    return d;
}

static void every_option_of_decoding_lists_it_and_none_of_prompts(void **state)
{
    (void)state;
    assert_true(is_listed(bt_engine_decode_names, "toy"));
    assert_true(is_listed(bt_engine_decode_auto_names, "toy"));
    assert_true(is_listed(bt_engine_door_names, "decode-toy"));
    assert_false(is_listed(bt_engine_prefill_names, "toy"));
    assert_false(is_listed(bt_engine_chunked_names, "toy"));
    assert_ptr_equal(bt_engine_decode("toy"), &bt_decode_toy.facts);
    assert_ptr_equal(bt_engine_door_decode("decode-toy"), &bt_decode_toy.facts);
    assert_null(bt_engine_prefill("toy"));
    assert_true(bt_engine_shares_kv(bt_engine_prefill("npu"), &bt_decode_toy.facts));
    assert_false(bt_engine_shares_kv(bt_engine_prefill("reference"), &bt_decode_toy.facts));
    assert_int_equal(bt_mixed_logits("toy", "toy", BT_FORM_F16), 0);
}

static void memory_is_told_as_its_table_says(void **state)
{
    (void)state;
    engine_kit k = engine_kit_model("llama");
    const bt_needs_want want = {.decode = "toy", .ctx_tokens = CTX, .rows = ROWS, .threads = 1};
    bt_needs n;
    bt_fault fault = {""};
    assert_int_equal(bt_needs_of(&n, k.model, &want, NULL), BT_OK);
    assert_int_equal(n.part[BT_NEEDS_WORK], TOY_BYTES * ROWS + ROWS * k.model->hp.vocab * sizeof(float));
    assert_int_equal(n.part[BT_NEEDS_WEIGHTS] + n.part[BT_NEEDS_PACKAGE], 0);
    /* neither other weights nor KV of int8 are offered: it has none */
    assert_int_equal(bt_needs_check(k.model, &want, 1, 1, &fault), BT_ELIMIT);
    assert_non_null(strstr(fault.text, "no other --weights, --kv-dtype or --ctx-size fits"));
    engine_kit_done(&k);
}

static void refused(bt_decode *d, const bt_decode_seq *s, bt_err want)
{
    const bt_decode_stats before = bt_decode_stats_of(d);
    float logits[1];
    assert_int_equal(bt_decode_step(d, s, 1, NULL, logits, NULL), want);
    assert_int_equal(bt_decode_stats_of(d).kv_bytes_written, before.kv_bytes_written);
}

static void the_door_checks_before_it_is_called(void **state)
{
    (void)state;
    engine_kit k = engine_kit_model("llama");
    bt_decode *d = NULL;
    bt_fault fault = {""};
    const bt_decode_config int8 = {.engine = "toy", .kv_elem_bytes = 1}, none = {.engine = "tyo"};
    assert_int_equal(bt_decode_new(&d, k.model, &int8, &fault), BT_EARG);
    assert_string_equal(fault.text,
                        "engine 'toy' has no KV of int8: choose another --kv-dtype, or another engine");
    assert_int_equal(bt_decode_new(&d, k.model, &none, &fault), BT_EARG);
    assert_string_equal(fault.text, "engine 'tyo' is not one of npu, host, reference or toy");

    d = toy_engine(k.model);
    bt_kv_view kv = engine_kit_pages(k.model, CTX, PAGE_TOKENS, 2),
               f32 = engine_kit_pages(k.model, CTX, 64, 4);
    const int32_t good[ROWS + 1] = {1}, bad[] = {(int32_t)k.model->hp.vocab};
    refused(d, &(bt_decode_seq){.kv = &kv, .tokens = bad, .count = 1}, BT_EARG);
    refused(d, &(bt_decode_seq){.kv = &f32, .tokens = good, .count = 1}, BT_EARG);
    refused(d, &(bt_decode_seq){.kv = &kv, .tokens = good, .count = ROWS + 1}, BT_EARG);
    refused(d, &(bt_decode_seq){.kv = &kv, .pos = CTX, .tokens = good, .count = 1}, BT_ELIMIT);
    assert_string_equal(bt_decode_name(d), "toy");
    bt_decode_free(d);
    engine_kit_pages_free(&kv);
    engine_kit_pages_free(&f32);
    engine_kit_done(&k);
}

static dc_worker_event next(dc_worker *w)
{
    dc_worker_event ev;
    while (!dc_worker_next(w, &ev)) {
        struct pollfd p = {.fd = dc_worker_fd(w), .events = POLLIN};
        assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
    }
    return ev;
}

static void a_decode_nodes_worker_generates_with_it(void **state)
{
    (void)state;
    enum { PROMPT = 3, TOKENS = 20, FIRST = 40 };
    const int32_t prompt[PROMPT] = {10, 11, 12}, first = FIRST;
    engine_kit k = engine_kit_model("llama");
    bt_kv_view kv = engine_kit_pages(k.model, CTX, PAGE_TOKENS, 2);
    bt_decode *alone = toy_engine(k.model);
    const bt_decode_seq rows = {.kv = &kv, .tokens = prompt, .count = PROMPT};
    assert_int_equal(bt_decode_step(alone, &rows, 1, NULL, NULL, NULL), BT_OK);

    dc_worker *w = NULL;
    const dc_worker_config c = {.engine = toy_engine(k.model), .slots = 1, .page_tokens = PAGE_TOKENS};
    assert_int_equal(dc_worker_new(&w, &c, NULL), BT_OK);
    dc_worker_start_slot(w, &(dc_worker_start){.view = kv, .prompt = prompt, .prompt_tokens = PROMPT,
                                               .ids = &first, .ids_len = 1, .rows = PROMPT,
                                               .max_tokens = TOKENS});
    size_t sum = 10 + 11 + 12 + FIRST;
    for (uint32_t i = 1; i < TOKENS; i++) {
        const size_t id = toy_next(sum, PROMPT + i - 1, k.model->hp.vocab);
        const dc_worker_event ev = next(w);
        assert_int_equal(ev.type, DC_WORKER_TOKEN);
        assert_int_equal(ev.index, i);
        assert_int_equal(ev.id, id);
        sum += id;
    }
    const dc_worker_event end = next(w);
    assert_int_equal(end.type, DC_WORKER_ENDED);
    assert_int_equal(end.reason, BT_FINISH_LENGTH);
    dc_worker_free(w);
    bt_decode_free(alone);
    engine_kit_pages_free(&kv);
    engine_kit_done(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_of_decoding_lists_it_and_none_of_prompts),
        cmocka_unit_test(memory_is_told_as_its_table_says),
        cmocka_unit_test(the_door_checks_before_it_is_called),
        cmocka_unit_test(a_decode_nodes_worker_generates_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
