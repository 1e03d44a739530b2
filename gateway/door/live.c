/* The list of requests that are being answered, and what time does to them. */
#include "gateway/door/live.h"
#include "base/clock.h"
#include "base/log.h"
#include "gateway/door/rights.h"

#include <stdlib.h>

enum { SIGN_OF_LIFE_US = 10000000 };

void gw_live_free(gw_live *l)
{
    if (!l) return;
    gw_rights_end(l, NULL);
    gw_auth_give(l->key);
    gw_text_end(&l->text);
    gw_logprobs_end(&l->logprobs);
    bt_buf_done(&l->ids);
    gw_dialect_answer_done(&l->head);
    free(l->prompt_ids);
    free(l);
}

bt_err gw_live_open(gw_door *d, uint64_t most, bt_fault *fault)
{
    size_t n = 1;
    while (n < most) n *= 2;
    d->buckets = calloc(n, sizeof(gw_live *));
    d->bucket_mask = n - 1;
    return d->buckets ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for the HTTP door");
}

void gw_live_close(gw_door *d)
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): gw_live_remove moves d->first */
    while (d->first) gw_live_remove(d, d->first);
    free(d->buckets);
}

/* Numbers follow each other, so buckets fill evenly. */
static gw_live **bucket(const gw_door *d, uint64_t number) { return &d->buckets[number & d->bucket_mask]; }

void gw_live_add(gw_door *d, gw_live *l)
{
    gw_live **at = bucket(d, l->number);
    l->door = d;
    l->same = *at;
    *at = l;
    l->next = d->first;
    if (l->next) l->next->prev = l;
    d->first = l;
}

gw_live *gw_live_find(gw_door *d, uint64_t number)
{
    gw_live *l = *bucket(d, number);
    while (l && l->number != number) l = l->same;
    return l;
}

void gw_live_want(gw_live *l, bool cancel)
{
    gw_door *d = l->door;
    l->wants_cancel |= cancel;
    l->wants_finish |= !cancel;
    if (l->is_wanting) return;
    l->is_wanting = true;
    l->next_want = NULL;
    if (d->last_want) d->last_want->next_want = l;
    else d->first_want = l;
    d->last_want = l;
}

/* A walk through the list is cheap: it holds only the requests whose end or cancellation the brain learns
 * after the present step. */
static void forget_want(gw_door *d, const gw_live *l)
{
    gw_live **at = &d->first_want, *before = NULL;
    if (!l->is_wanting) return;
    while (*at != l) {
        before = *at;
        at = &(*at)->next_want;
    }
    *at = l->next_want;
    if (d->last_want == l) d->last_want = before;
}

void gw_live_take(gw_door *d, gw_live *l)
{
    gw_live **at = bucket(d, l->number);
    while (*at != l) at = &(*at)->same;
    *at = l->same;
    forget_want(d, l);
    if (l->prev) l->prev->next = l->next;
    else d->first = l->next;
    if (l->next) l->next->prev = l->prev;
}

void gw_live_remove(gw_door *d, gw_live *l)
{
    gw_live_take(d, l);
    gw_live_free(l);
}

void gw_live_give_up(gw_live *l)
{
    if (l->is_broken) return;
    l->is_broken = true;
    gw_live_want(l, true);
    if (!l->x) return;
    bt_log_request(BT_LOG_ERROR, gw_http_id(l->x), "out of memory: connection cut");
    gw_http_set_user(l->x, NULL);
    gw_http_abandon(l->x);
    l->x = NULL;
}

bool gw_live_begin_stream(gw_door *d, gw_live *l)
{
    if (l->has_begun) return true;
    l->has_begun = true;
    l->head.now_us = bt_clock_wall_us();
    if (gw_http_stream(l->x, l->head.dialect->stream_type) < 0 ||
        l->head.dialect->begin(gw_http_stream_buf(l->x), &l->head) < 0) {
        gw_live_give_up(l);
        return false;
    }
    gw_metrics_answered(d->env.metrics, 200);
    return true;
}

bool gw_live_next_event(gw_door *d, gw_event *ret)
{
    gw_live *l = d->first_want;
    if (!l) return false;
    *ret = (gw_event){.type = l->wants_cancel ? GW_EV_CANCEL : GW_EV_FINISH_EARLY, .u.request = l->number};
    forget_want(d, l);
    l->wants_cancel = l->wants_finish = l->is_wanting = false;
    return true;
}

void gw_live_tick(gw_door *d, int64_t now_us)
{
    for (gw_live *l = d->first; l; l = l->next) {
        if (!l->is_late && now_us - l->arrived_us >= d->env.options->timeout_ms * 1000) {
            l->is_late = true;
            gw_live_want(l, true);
        }
        if (!l->x || !l->is_stream || now_us - l->wrote_us < SIGN_OF_LIFE_US || !gw_live_begin_stream(d, l))
            continue;
        l->wrote_us = now_us;
        l->head.now_us = bt_clock_wall_us();
        if (l->head.dialect->alive(gw_http_stream_buf(l->x), &l->head) < 0) gw_live_give_up(l);
        else gw_http_flush(l->x);
    }
}
