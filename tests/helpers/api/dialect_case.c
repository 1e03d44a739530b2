/* See dialect_case.h. Bodies are passed in heap blocks of their exact size. */
#include "tests/helpers/api/dialect_case.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {"tiny", "alias"};

static bt_err read_body(gw_ask *ret, gw_error *err, const gw_dialect *d, const char *body)
{
    const bt_defaults defaults = bt_defaults_of(NULL, NULL, NULL);
    const gw_ask_limits limits = {names, 2, 512, 3, &defaults, NULL};
    const size_t len = strlen(body);
    char *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, body, len);
    const bt_err e = gw_dialect_read(ret, err, d, exact, len, &limits);
    free(exact);
    return e;
}

gw_ask dialect_good(const gw_dialect *d, const char *body)
{
    gw_ask r;
    gw_error err = {0};
    if (read_body(&r, &err, d, body) < 0) fail_msg("%s: %s", body, err.message);
    return r;
}

void dialect_bad(const gw_dialect *d, const char *body, int status, const char *param, const char *words)
{
    gw_ask r;
    gw_error err = {0};
    if (read_body(&r, &err, d, body) == BT_OK) fail_msg("accepted: %s", body);
    if (!strstr(err.message, words)) fail_msg("%s: says '%s', not '%s'", body, err.message, words);
    assert_int_equal(err.status, status);
    assert_string_equal(err.param, param);
}

void dialect_talks(const gw_ask *r, const char *messages)
{
    char *text = json_dumps(r->talk.messages, JSON_COMPACT);
    assert_string_equal(text, messages);
    free(text);
}

gw_answer dialect_answer(const gw_dialect *d)
{
    const gw_ask r = {.sampling = {.temperature = 0.5f, .top_p = 0.95f}, .max_tokens = 7};
    gw_answer a = gw_dialect_answer(d, &r);
    a.model = "tiny";
    a.created_us = INT64_C(1700000000250000);
    a.now_us = INT64_C(1700000001500000);
    a.prompt_tokens = 5;
    a.cached_tokens = 2;
    (void)strcpy(a.id, d->id);
    (void)strcat(a.id, "1");
    return a;
}

gw_answer_report dialect_report(const char *said, const char *thoughts, gw_ending ending)
{
    return (gw_answer_report){.ending = ending,
                              .stop = {"END", 3},
                              .prompt_tokens = 5,
                              .cached_tokens = 2,
                              .completion_tokens = 3,
                              .thought_tokens = *thoughts ? 1 : 0,
                              .said = {said, strlen(said)},
                              .thoughts = {thoughts, strlen(thoughts)},
                              .has_prefill = true,
                              .has_decode = true,
                              .gateway_queue_us = 1000,
                              .reserve_us = 1000,
                              .queue_us = 2000,
                              .prefill_us = 6000,
                              .decode_us = 8000,
                              .decode_steps = 2,
                              .total_us = 20000};
}

static void is_text(bt_buf *b, const char *want)
{
    assert_string_equal(bt_buf_text(b), want);
    bt_buf_done(b);
}

static void keep(gw_answer *a, bool is_thought, bt_text_span s)
{
    if (s.len > 0) assert_int_equal(gw_answer_keep(a, &(bt_thoughts_part){is_thought, s}, 3), BT_OK);
}

void dialect_whole(const gw_dialect *d, const gw_answer_report *r, const char *want)
{
    bt_buf b;
    gw_answer a = dialect_answer(d);
    bt_buf_init(&b, 1 << 20);
    keep(&a, true, r->thoughts);
    keep(&a, false, r->said);
    assert_int_equal(d->whole(&b, &a, r, json_null()), BT_OK);
    gw_dialect_answer_done(&a);
    is_text(&b, want);
}

static void add_part(bt_buf *b, gw_answer *a, bool is_thought, bt_text_span s)
{
    if (s.len > 0)
        assert_int_equal(a->dialect->part(b, a, &(bt_thoughts_part){is_thought, s}, json_null()), BT_OK);
}

void dialect_stream(const gw_dialect *d, const gw_answer_report *r, const char *want)
{
    bt_buf b;
    gw_answer a = dialect_answer(d);
    bt_buf_init(&b, 1 << 20);
    assert_int_equal(d->begin(&b, &a), BT_OK);
    a.answer_tokens = 1;
    add_part(&b, &a, true, r->thoughts);
    a.answer_tokens = 2;
    add_part(&b, &a, false, r->said);
    assert_int_equal(d->end(&b, &a, r), BT_OK);
    gw_dialect_answer_done(&a);
    is_text(&b, want);
}

void dialect_error(const gw_dialect *d, int status, const char *want)
{
    bt_buf b;
    gw_error err;
    bt_buf_init(&b, 1 << 20);
    (void)gw_error_say(&err, status, "word", "field", "Why");
    assert_int_equal(gw_dialect_error(&b, d, &err), BT_OK);
    is_text(&b, want);
}
