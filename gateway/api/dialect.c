/* See dialect.h. */
#include "gateway/api/dialect.h"

#include <jansson.h>
#include <string.h>

const char gw_dialect_events[] = "text/event-stream; charset=utf-8",
           gw_dialect_lines[] = "application/x-ndjson";

static void start_from(bt_sampling *s, const bt_defaults *d)
{
    s->temperature = (float)d->value[BT_DEFAULT_TEMPERATURE];
    s->top_p = (float)d->value[BT_DEFAULT_TOP_P];
    s->top_k = (uint32_t)d->value[BT_DEFAULT_TOP_K];
    s->min_p = (float)d->value[BT_DEFAULT_MIN_P];
    s->repetition_penalty = (float)d->value[BT_DEFAULT_REPETITION_PENALTY];
}

bt_err gw_dialect_read(gw_ask *ret, gw_error *err, const gw_dialect *d, const char *body, size_t len,
                       const gw_ask_limits *limits)
{
    gw_reader p = {.err = err, .limits = limits, .own = d->own};
    p.r.prompt_field = d->prompt;
    p.r.is_chat = d->is_chat;
    p.r.is_stream = d->is_stream;
    p.r.default_tokens = d->default_tokens;
    p.r.tells_calls = d->call != NULL;
    p.r.talk.add_generation_prompt = true;
    start_from(&p.r.sampling, limits->defaults);
    bt_err e = gw_read_object(&p.r.root, &p, body, len);
    if (e < 0) return e;
    e = gw_fields_read(&p, p.r.root, d->where);
    if (e == BT_OK && d->made) e = d->made(&p, p.r.root);
    if (e < 0) {
        gw_ask_done(&p.r);
        return e;
    }
    *ret = p.r;
    return BT_OK;
}

gw_answer gw_dialect_answer(const gw_dialect *d, const gw_ask *r)
{
    enum { KEPT_MAX_BYTES = 256 << 20 };
    gw_answer a = {.dialect = d,
                   .has_usage_chunk = r->has_usage_chunk,
                   .is_baton = r->is_baton,
                   .hides_thoughts = r->hides_thoughts,
                   .sampling = r->sampling,
                   .is_stream = r->is_stream,
                   .ignores_eos = r->ignores_eos,
                   .is_unload = r->is_unload,
                   .max_tokens = r->max_tokens,
                   .echo = json_incref(r->echo)};
    a.sampling.bias = NULL;
    a.sampling.bias_len = 0;
    a.sampling.program = NULL;
    a.sampling.program_len = 0;
    for (int i = 0; i < 2; i++) bt_buf_init(&a.kept[i], KEPT_MAX_BYTES);
    bt_buf_init(&a.runs, KEPT_MAX_BYTES);
    return a;
}

void gw_dialect_answer_done(gw_answer *a)
{
    for (int i = 0; i < 2; i++) bt_buf_done(&a->kept[i]);
    bt_buf_done(&a->runs);
    json_decref(a->echo);
    a->echo = NULL;
}

static const char *type_of(const gw_dialect *d, const gw_error *err)
{
    const gw_error_kind *k = d->kinds;
    while (err->status < k->from || err->status > k->to) k++;
    return k->type;
}

bt_err gw_dialect_error(bt_buf *out, const gw_dialect *d, const gw_error *err)
{
    return gw_answer_add(out, d->error(err, type_of(d, err)), "", "");
}

bt_err gw_dialect_error_event(bt_buf *out, const gw_dialect *d, const gw_error *err)
{
    return gw_answer_add(out, d->error(err, type_of(d, err)), d->error_event, d->error_end);
}
