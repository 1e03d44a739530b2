/* The list of requests that are being answered, and what time does to them. */
#include "gateway/door/live.h"
#include "base/log.h"

#include <stdlib.h>

enum { SIGN_OF_LIFE_US = 10000000 };

void gw_live_free(gw_live *l)
{
    if (!l) return;
    gw_text_end(&l->text);
    gw_logprobs_end(&l->logprobs);
    bt_buf_done(&l->ids);
    free(l->prompt_ids);
    free(l);
}

gw_live *gw_live_find(gw_door *d, uint64_t number)
{
    gw_live *l = d->first;
    while (l && l->number != number) l = l->next;
    return l;
}

void gw_live_remove(gw_door *d, gw_live *l)
{
    gw_live **at = &d->first;
    while (*at != l) at = &(*at)->next;
    *at = l->next;
    gw_live_free(l);
}

void gw_live_give_up(gw_live *l)
{
    if (l->is_broken) return;
    l->is_broken = l->wants_cancel = true;
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
    if (gw_http_stream(l->x) < 0 || gw_answer_role(gw_http_stream_buf(l->x), &l->head) < 0) {
        gw_live_give_up(l);
        return false;
    }
    gw_metrics_answered(d->env.metrics, 200);
    return true;
}

bool gw_live_next_event(gw_door *d, gw_event *ret)
{
    for (gw_live *l = d->first; l; l = l->next) {
        if (!l->wants_cancel && !l->wants_finish) continue;
        *ret =
            (gw_event){.type = l->wants_cancel ? GW_EV_CANCEL : GW_EV_FINISH_EARLY, .u.request = l->number};
        l->wants_cancel = l->wants_finish = false;
        return true;
    }
    return false;
}

void gw_live_tick(gw_door *d, int64_t now_us)
{
    for (gw_live *l = d->first; l; l = l->next) {
        if (!l->is_late && now_us - l->arrived_us >= d->env.options->timeout_ms * 1000)
            l->is_late = l->wants_cancel = true;
        if (!l->x || !l->is_stream || now_us - l->wrote_us < SIGN_OF_LIFE_US || !gw_live_begin_stream(d, l))
            continue;
        l->wrote_us = now_us;
        if (bt_buf_str(gw_http_stream_buf(l->x), ": keep-alive\n\n") < 0) gw_live_give_up(l);
        else gw_http_flush(l->x);
    }
}
