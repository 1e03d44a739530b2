/* Whole answers: how each is sent, counted and logged. */
#include "gateway/door/reply.h"
#include "base/log.h"
#include "gateway/api/endpoints.h"
#include "rt/metrics.h"

void gw_reply_bytes(gw_door *d, gw_http_exchange *x, int status, const gw_http_headers *h, bt_buf *body)
{
    if (body->err < 0 || gw_http_answer(x, status, h, body) < 0) {
        gw_http_abandon(x);
        bt_log_request(BT_LOG_ERROR, gw_http_id(x), "out of memory: connection cut");
        return;
    }
    gw_metrics_answered(d->env.metrics, status);
}

void gw_reply_json(gw_door *d, gw_http_exchange *x, bt_buf *b)
{
    gw_reply_bytes(d, x, 200, &(gw_http_headers){.content_type = "application/json"}, b);
    bt_buf_done(b);
}

void gw_reply_error(gw_door *d, gw_http_exchange *x, const gw_error *err, const char *allow)
{
    const gw_dialect *t = gw_endpoints_dialect(gw_http_path(x));
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    const gw_http_headers h = {.content_type = "application/json", .allow = allow,
                               .retry_after_s = err->retry_after_s,
                               .www_authenticate = err->status == 401 ? "Bearer" : NULL};
    if (gw_dialect_error(&b, t, err) < 0) b.err = BT_ENOMEM;
    gw_reply_bytes(d, x, err->status, &h, &b);
    bt_buf_done(&b);
    /* A 503 is what probes of /health get for minutes; that nodes are missing is logged once, when it
     * happens. */
    const bt_log_level level = err->status == 503   ? BT_LOG_DEBUG
                               : err->status >= 500 ? BT_LOG_WARN
                                                    : BT_LOG_INFO;
    if (err->status < 500 && ++d->refusals > GW_REPLY_LOGGED_A_SECOND) d->refusals_unsaid++;
    else bt_log_request(level, gw_http_id(x), "%d: %s", err->status, err->message);
}

void gw_reply_tick(gw_door *d)
{
    if (d->refusals_unsaid > 0)
        bt_log(BT_LOG_INFO, "%u more requests were answered 4xx within a second", d->refusals_unsaid);
    d->refusals = d->refusals_unsaid = 0;
}

bool gw_reply_not_ready(const gw_door *d, gw_error *err)
{
    if (d->is_draining)
        (void)gw_error_say(err, 503, "draining", NULL,
                           "The server is shutting down and takes no new requests.");
    else if (!gw_brain_is_ready(d->env.brain))
        (void)gw_error_say(err, 503, "no_node", NULL,
                           "Neither a prefill node and a decode node that fit each other, nor a decode "
                           "node that computes prompts itself, are ready.");
    else return false;
    err->retry_after_s = 1;
    return true;
}
