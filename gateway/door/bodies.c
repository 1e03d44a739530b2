/* See bodies.h. Code that runs in a thread touches its gw_body, and of the door only what never changes after
 * the start. */
#include "gateway/door/bodies.h"
#include "base/clock.h"
#include "base/log.h"
#include "gateway/api/endpoints.h"
#include "gateway/api/json.h"
#include "gateway/api/refusal.h"
#include "gateway/api/structure.h"
#include "gateway/door/live.h"
#include "gateway/door/reply.h"
#include "gateway/door/rights.h"

#include <jansson.h>
#include <stdlib.h>
#include <time.h>

static bt_err read_prompt(gw_body *b)
{
    gw_live *l = b->live;
    const gw_door_env *env = &b->door->env;
    bt_fault fault;
    bt_err e = gw_text_shape(env->text, &b->request, &b->err);
    if (e == BT_OK) e = gw_structures_compile(b->door->structures, &b->request, b->is_quick, &b->err);
    if (e == BT_OK)
        e = gw_text_prompt(&l->prompt_ids, &l->prompt_len, env->text, &b->request, b->ctx_tokens, &b->err);
    if (e == BT_OK)
        e = gw_ask_bound(&l->bound, &b->err, &b->request, l->prompt_len, b->ctx_tokens,
                         (uint32_t)env->options->answers.max_answer);
    if (e == BT_OK && gw_text_begin(&l->text, env->text, &b->request, l->prompt_ids, l->prompt_len,
                                    l->bound.tokens, &fault) < 0)
        e = gw_error_no_memory(&b->err);
    return e;
}

static bt_err write_template(gw_body *b)
{
    bt_chat_prompt p;
    const bt_err e = gw_text_render(&p, b->door->env.text, &b->request, &b->err);
    if (e < 0) return e;
    json_t *j = json_pack("{s:s%}", "prompt", p.text, p.len);
    bt_chat_prompt_done(&p);
    return gw_json_add(&b->answer, j, JSON_COMPACT) < 0 ? gw_error_no_memory(&b->err) : BT_OK;
}

/* How many tokens the prompt has. */
static bt_err write_count(gw_body *b)
{
    int32_t *ids = NULL;
    size_t n = 0;
    const bt_err e = gw_text_prompt(&ids, &n, b->door->env.text, &b->request, b->ctx_tokens, &b->err);
    free(ids);
    if (e < 0) return e;
    return gw_json_add(&b->answer, json_pack("{s:I}", "input_tokens", (json_int_t)n), JSON_COMPACT) < 0
               ? gw_error_no_memory(&b->err)
               : BT_OK;
}

static bt_err write_loaded(gw_body *b)
{
    gw_answer a = gw_dialect_answer(b->dialect, &b->request);
    a.model = b->limits.names[0];
    a.created_us = a.now_us = bt_clock_wall_us();
    const bt_err e = b->dialect->loaded(&b->answer, &a);
    gw_dialect_answer_done(&a);
    return e < 0 ? gw_error_no_memory(&b->err) : BT_OK;
}

static void read_request(gw_body *b, const char *bytes, bt_err (*read)(gw_body *b))
{
    b->e = gw_dialect_read(&b->request, &b->err, b->dialect, bytes, b->len, &b->limits);
    if (b->e < 0) return;
    bt_chat_talk *talk = &b->request.talk;
    talk->now_s = b->now_s;
    talk->steps_max = b->is_quick ? GW_TEXT_QUICK_STEPS : 0;
    talk->bytes_max = b->is_quick ? GW_TEXT_QUICK_BYTES : 0;
    b->e = b->request.is_load ? write_loaded(b) : read(b);
    gw_ask_drop_texts(&b->request); /* millions of objects of JSON, maybe */
}

void gw_bodies_ask(gw_body *b, const char *bytes) { read_request(b, bytes, read_prompt); }
void gw_bodies_count(gw_body *b, const char *bytes) { read_request(b, bytes, write_count); }
void gw_bodies_template(gw_body *b, const char *bytes) { read_request(b, bytes, write_template); }

/* The log hears of it once; the metric counts. */
static void tell_left_out(gw_door *d, const gw_http_exchange *x)
{
    if (d->has_told_left_out || bt_tokenizer_left_out_bytes(d->env.text->tok) == 0) return;
    d->has_told_left_out = true;
    bt_log_request(BT_LOG_WARN, gw_http_id(x),
                   "a text has bytes for which the model's vocabulary has no token; they are left out, as "
                   "its own tokenizer does, and counted (baton_prompt_bytes_left_out_total)");
}

static void free_body(gw_body *b)
{
    gw_live_free(b->live);
    gw_ask_done(&b->request);
    bt_buf_done(&b->bytes);
    bt_buf_done(&b->answer);
    free(b);
}

/* ---- by a thread ---- */

static void run(bt_aside_item *item)
{
    gw_body *b = (gw_body *)item;
    b->read(b, bt_buf_text(&b->bytes));
    bt_buf_done(&b->bytes);
}

/* The body's memory is free again. */
static void leave_line(gw_body *b)
{
    gw_door *d = b->door;
    d->unread_count--;
    d->unread_bytes -= b->len;
    if (d->http) gw_http_body_read(d->http, b->len);
    gw_metrics_bodies_waiting(d->env.metrics, d->unread_count);
}

static void done(bt_aside_item *item)
{
    gw_body *b = (gw_body *)item;
    gw_turn *t = b->door->env.turn;
    const gw_turn_part before = gw_turn_go(t, GW_TURN_BODIES);
    leave_line(b);
    gw_metrics_body(b->door->env.metrics, true);
    if (b->live->x) {
        b->live->unread = NULL;
        tell_left_out(b->door, b->live->x);
        b->then(b);
    }
    free_body(b);
    gw_turn_go(t, before);
}

void gw_bodies_forget(gw_body *b)
{
    b->live->x = NULL;
    if (!bt_aside_withdraw(b->door->env.aside, &b->item)) return;
    leave_line(b);
    free_body(b);
}

static void stand_in_line(gw_body *b, gw_http_exchange *x)
{
    gw_door *d = b->door;
    b->item = (bt_aside_item){.run = run, .done = done};
    b->is_quick = false;
    b->live->unread = b;
    gw_http_take_body(x, &b->bytes);
    gw_http_set_user(x, b->live);
    d->unread_count++;
    d->unread_bytes += b->len;
    gw_metrics_bodies_waiting(d->env.metrics, d->unread_count);
    bt_aside_add(d->env.aside, b->len > GW_BODIES_LONG_BYTES ? GW_LANE_LONG_BODIES : GW_LANE_BODIES,
                 &b->item);
}

/* ---- all of them ---- */

static int64_t local_now_s(void)
{
    struct tm local = {.tm_sec = 0};
    const time_t now = (time_t)bt_clock_wall_s();
    return localtime_r(&now, &local) ? (int64_t)now + local.tm_gmtoff : (int64_t)now;
}

void gw_bodies_read(gw_door *d, gw_http_exchange *x, const gw_http_request *r,
                    void (*read)(gw_body *b, const char *bytes), void (*then)(gw_body *b))
{
    const size_t most = gw_http_bodies_max_bytes(d->http) / 2;
    gw_error err;
    gw_body *b = calloc(1, sizeof *b);
    gw_live *l = calloc(1, sizeof *l);
    if (!b || !l) {
        free(b);
        free(l);
        (void)gw_error_no_memory(&err);
        gw_reply_error(d, x, &err, NULL);
        return;
    }
    l->x = x;
    l->arrived_us = bt_clock_us();
    l->key = r->caller ? gw_auth_hold(r->caller) : NULL;
    l->share = gw_rights_share(d, r);
    *b =
        (gw_body){.door = d,
                  .live = l,
                  .len = r->body_len,
                  .dialect = gw_endpoints_dialect(r->path),
                  .read = read,
                  .then = then,
                  .now_s = local_now_s(),
                  .ctx_tokens = gw_rights_context(l->key, gw_door_context_tokens(d)),
                  .limits = {d->env.model->names, d->env.model->names_len,
                             (uint32_t)bt_tokenizer_count(d->env.text->tok),
                             BT_MSG_MAX_STOP_IDS - d->env.text->stop_ids_len, d->env.defaults, d->env.model}};
    bt_buf_init(&b->answer, GW_DOOR_ANSWER_MAX_BYTES);
    b->is_quick = b->len <= GW_BODIES_SHORT_BYTES;
    if (b->is_quick) b->read(b, r->body);
    const bool is_read = b->is_quick && b->e != BT_EAGAIN;
    if (!is_read && b->len <= most - d->unread_bytes) {
        gw_ask_done(&b->request);
        stand_in_line(b, x);
        return;
    }
    if (is_read) {
        gw_metrics_body(d->env.metrics, false);
        tell_left_out(d, x);
    } else {
        (void)gw_refusal_tell(&b->err, GW_HTTP_TOO_BUSY, b->len);
        b->e = BT_EAGAIN;
    }
    then(b);
    free_body(b);
}
