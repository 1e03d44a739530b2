/* What a GET shows. */
#include "gateway/door/pages.h"
#include "base/clock.h"
#include "gateway/api/openapi.h"
#include "gateway/door/props.h"
#include "gateway/door/reply.h"
#include "gateway/door/status.h"
#include "rt/metrics.h"
#include "text/utf8.h"

#include <string.h>

static const char BAD[] = "invalid_request_error";

void gw_pages_health(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    static const char ok[] = "{\"status\":\"ok\"}";
    gw_openai_error err;
    if (gw_reply_not_ready(d, &err)) {
        gw_reply_error(d, x, &err, NULL);
        return;
    }
    bt_buf b;
    bt_buf_init(&b, sizeof ok);
    (void)bt_buf_str(&b, ok);
    gw_reply_json(d, x, &b);
}

void gw_pages_metrics(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    gw_openai_error err;
    if (d->env.options->no_metrics) {
        (void)gw_openai_fail(&err, 404, BAD, "not_found", NULL, "This server was started with --no-metrics.");
        gw_reply_error(d, x, &err, NULL);
        return;
    }
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    const bt_link_counters link = gw_node_link_counters(d->env.link);
    gw_metrics_captured(d->env.metrics, d->env.capture);
    if (gw_metrics_render(d->env.metrics, &b, d->env.brain, &link, gw_http_connections(d->http)) < 0)
        b.err = BT_ENOMEM;
    gw_reply_bytes(d, x, 200, &(gw_http_headers){.content_type = BT_METRICS_CONTENT_TYPE}, &b);
    bt_buf_done(&b);
}

void gw_pages_models(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_answer_models(&b, d->env.names, d->env.names_len, d->started_s) < 0) b.err = BT_ENOMEM;
    gw_reply_json(d, x, &b);
}

/* What follows the path's beginning is the id, slashes and all; libmicrohttpd has decoded it. */
void gw_pages_model(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    const char *id = r->path + strlen("/v1/models/");
    char shown[201];
    size_t i = 0;
    while (i < d->env.names_len && strcmp(d->env.names[i], id) != 0) i++;
    if (i == d->env.names_len) {
        gw_openai_error err;
        (void)gw_openai_fail(&err, 404, BAD, "model_not_found", "model",
                             "The model '%s' does not exist here; this server has '%s'.",
                             bt_utf8_show(shown, sizeof shown, id, strlen(id)), d->env.names[0]);
        gw_reply_error(d, x, &err, NULL);
        return;
    }
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_answer_model(&b, id, d->started_s) < 0) b.err = BT_ENOMEM;
    gw_reply_json(d, x, &b);
}

void gw_pages_props(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    const gw_props_facts f = {.brain = d->env.brain,
                              .text = d->env.text,
                              .defaults = d->env.defaults,
                              .alias = d->env.names[0],
                              .path = d->env.options->model,
                              .ctx_tokens = gw_door_context_tokens(d),
                              .max_answer = (uint32_t)d->env.options->answers.max_answer};
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_props_render(&b, &f) < 0) b.err = BT_ENOMEM;
    gw_reply_json(d, x, &b);
}

void gw_pages_openapi(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_openapi_render(&b) < 0) b.err = BT_ENOMEM;
    gw_reply_json(d, x, &b);
}

void gw_pages_status(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    gw_status_facts f = {
        .brain = d->env.brain,
        .self = d->env.self,
        .node_id = d->env.node_id,
        .url = d->url,
        .state = d->is_draining                    ? "draining"
                 : gw_brain_is_ready(d->env.brain) ? "ready"
                                                   : "starting",
        .policy = gw_options_policies[d->env.options->policy],
        .control = gw_node_link_endpoint(d->env.link),
        .model_name = d->env.names[0],
        .ctx_tokens = d->env.ctx_tokens,
        .queue_max = (uint32_t)d->env.options->max_queue,
        .now_us = bt_clock_us(),
    };
    memcpy(f.model_id, d->env.model_id, sizeof f.model_id);
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_status_render(&b, &f) < 0) b.err = BT_ENOMEM;
    gw_reply_json(d, x, &b);
}
