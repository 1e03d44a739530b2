/* Any bytes as the body of a request: no crash, and either a whole request, whose answer is JSON, or an error
 * that can be written as JSON. The first byte chooses: a tokenize, b detokenize, from c on the dialects in
 * the order of their table.
 */
#include "gateway/api/dialect.h"
#include "gateway/api/words.h"
#include "tests/helpers/model/small_vocab.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const gw_dialect *const dialects[] = {
#define X(name) &gw_dialect_##name,
#include "gateway/api/dialects_table.h"
#undef X
};
enum { DIALECTS = sizeof dialects / sizeof *dialects };

static void write_error(const gw_dialect *d, const gw_error *err)
{
    bt_buf out;
    bt_buf_init(&out, 1 << 16);
    if (gw_dialect_error(&out, d, err) < 0) abort();
    bt_buf_done(&out);
}

/* An answer is JSON; nothing comes beside an error. */
static void ask_words(gw_words *words, const char *body, size_t len, const gw_ask_limits *limits)
{
    static small_vocab v;
    static gw_text t;
    gw_error err;
    bt_buf out;
    if (!t.tok) {
        small_bpe(&v, "gpt-2");
        if (bt_tokenizer_new(&t.tok, &v.src, NULL) < 0) abort();
    }
    bt_buf_init(&out, 1 << 24);
    if (words(&out, &err, &t, body, len, limits) < 0) {
        write_error(&gw_dialect_chat, &err);
        if (out.len > 0) abort();
    } else {
        json_t *j = json_loadb(bt_buf_text(&out), out.len, JSON_ALLOW_NUL, NULL);
        if (!json_is_object(j)) abort();
        json_decref(j);
    }
    bt_buf_done(&out);
}

/* What answers repeat of a request outlives it, and is JSON. */
static void write_answer(const gw_dialect *d, gw_ask *r)
{
    const gw_answer_report report = {.said = {"a", 1}, .thoughts = {"b", 1}, .bound = {9, "request"}};
    gw_answer a = gw_dialect_answer(d, r);
    bt_buf out;
    bt_buf_init(&out, 1 << 24);
    a.model = "tiny";
    gw_ask_drop_texts(r);
    if (gw_answer_keep(&a, &(bt_thoughts_part){true, report.thoughts}, 1) < 0 ||
        gw_answer_keep(&a, &(bt_thoughts_part){false, report.said}, 2) < 0 ||
        (r->is_load ? d->loaded(&out, &a) : d->whole(&out, &a, &report, json_null())) < 0)
        abort();
    json_t *j = json_loadb(bt_buf_text(&out), out.len, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(j)) abort();
    json_decref(j);
    gw_dialect_answer_done(&a);
    bt_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const names[] = {"tiny"};
    const bt_defaults defaults = bt_defaults_of(NULL, NULL, NULL);
    const gw_ask_limits limits = {names, 1, 256, 4, &defaults, NULL};
    if (len == 0) return 0;
    const size_t what = (uint8_t)(data[0] - 'a') % (2 + DIALECTS);
    if (what < 2) {
        ask_words(what ? gw_words_detokenize : gw_words_tokenize, (const char *)data + 1, len - 1, &limits);
        return 0;
    }
    const gw_dialect *d = dialects[what - 2];
    gw_ask r;
    gw_error err;
    if (gw_dialect_read(&r, &err, d, (const char *)data + 1, len - 1, &limits) < 0) {
        write_error(d, &err);
        return 0;
    }
    if (r.is_load   ? !d->loaded
        : r.is_chat ? json_array_size(r.talk.messages) == 0
                    : !r.prompt == !r.prompt_ids)
        abort();
    for (size_t i = 0; i < r.stops; i++)
        if (r.stop_len[i] == 0) abort();
    for (size_t i = 0; i < r.prompt_ids_len; i++)
        if (r.prompt_ids[i] < 0 || r.prompt_ids[i] >= 256) abort();
    if (d->whole) write_answer(d, &r);
    gw_ask_done(&r);
    return 0;
}
