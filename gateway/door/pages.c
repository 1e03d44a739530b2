/* The pages that a GET shows. */
#include "gateway/door/pages.h"
#include "base/clock.h"
#include "base/hash.h"
#include "gateway/api/endpoints.h"
#include "gateway/api/json.h"
#include "gateway/api/models.h"
#include "gateway/api/ollama.h"
#include "gateway/api/openapi.h"
#include "gateway/door/metrics.h"
#include "gateway/door/reply.h"
#include "gateway/door/rights.h"
#include "rt/metrics.h"
#include "text/utf8.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gw_pages_health(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    static const char ok[] = "{\"status\":\"ok\"}";
    gw_error err;
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
    gw_error err;
    if (gw_options_metrics(d->env.options) == GW_METRICS_OFF) {
        (void)gw_error_say(&err, 404, "not_found", NULL, "This server was started with --metrics off.");
        gw_reply_error(d, x, &err, NULL);
        return;
    }
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    const bt_link_counters link = gw_node_link_counters(d->env.link);
    gw_metrics_captured(d->env.metrics, d->env.capture);
    gw_metrics_left_out(d->env.metrics, bt_tokenizer_left_out_bytes(d->env.text->tok));
    gw_metrics_put_off(d->env.metrics, gw_http_put_off(d->http));
    gw_metrics_tls(d->env.metrics, gw_http_tls(d->http));
    if (gw_metrics_render(d->env.metrics, &b, d->env.brain, &link, gw_http_connections(d->http)) < 0 ||
        (d->env.auth && gw_metrics_render_keys(&b, d->env.auth, d->env.brain) < 0))
        b.err = BT_ENOMEM;
    gw_reply_bytes(d, x, 200, &(gw_http_headers){.content_type = BT_METRICS_CONTENT_TYPE}, &b);
    bt_buf_done(&b);
}

void gw_pages_models(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_models_list(&b, d->env.model, gw_door_context_tokens(d)) < 0) b.err = BT_ENOMEM;
    gw_reply_json(d, x, &b);
}

/* The rest of the path behind its beginning is the id, slashes and all; libmicrohttpd has decoded it. */
void gw_pages_model(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    const char *id = r->path + strlen("/v1/models/");
    char shown[201];
    size_t i = 0;
    while (i < d->env.model->names_len && strcmp(d->env.model->names[i], id) != 0) i++;
    if (i == d->env.model->names_len) {
        gw_error err;
        (void)gw_error_say(&err, 404, "model_not_found", "model",
                           "The model '%s' does not exist here; this server has '%s'.",
                           bt_utf8_show(shown, sizeof shown, id, strlen(id)), d->env.model->names[0]);
        gw_reply_error(d, x, &err, NULL);
        return;
    }
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_models_one(&b, d->env.model, id, gw_door_context_tokens(d)) < 0) b.err = BT_ENOMEM;
    gw_reply_json(d, x, &b);
}

void gw_pages_root(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    (void)bt_buf_str(&b, "Baton " BT_VERSION " is running. There is: ");
    gw_endpoints_list(&b);
    (void)bt_buf_str(&b, ".\n");
    gw_reply_bytes(d, x, 200, &(gw_http_headers){.content_type = "text/plain; charset=utf-8"}, &b);
    bt_buf_done(&b);
}

void gw_pages_openapi(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (d->openapi.len == 0 && gw_openapi_render(&d->openapi) < 0) b.err = BT_ENOMEM;
    else (void)bt_buf_add(&b, d->openapi.data, d->openapi.len);
    gw_reply_json(d, x, &b);
}

void gw_pages_ollama_tags(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_ollama_tags(&b, d->env.model) < 0) b.err = BT_ENOMEM;
    gw_reply_json(d, x, &b);
}

void gw_pages_ollama_ps(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_ollama_ps(&b, d->env.model, gw_door_context_tokens(d)) < 0) b.err = BT_ENOMEM;
    gw_reply_json(d, x, &b);
}

void gw_pages_ollama_version(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_ollama_version(&b) < 0) b.err = BT_ENOMEM;
    gw_reply_json(d, x, &b);
}

/* Takes j; NULL: out of memory. */
static void show(gw_door *d, gw_http_exchange *x, json_t *j, size_t flags)
{
    bt_buf b;
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_json_add(&b, j, JSON_COMPACT | flags) < 0) b.err = BT_ENOMEM;
    gw_reply_json(d, x, &b);
}

/* The words of a node or of an option may be any bytes; JSON takes only UTF-8. */
static const char *shown(char *ret, size_t cap, const char *text)
{
    return bt_utf8_show(ret, cap, text, strlen(text));
}

/* ---- /props: what answers are made with where a request does not say ---- */

/* Digits as people write them: 0.6 and not the float next to it. */
enum { DIGITS = 6 };

static json_t *defaults(const bt_defaults *d)
{
    json_t *all = json_object();
    for (int i = 0; all && i < BT_DEFAULT_FIELDS; i++) {
        const bt_default_field f = (bt_default_field)i;
        if (json_object_set_new(all, bt_defaults_name(f),
                                json_pack("{s:o,s:s}", "value", gw_json_number(d->value[f]), "from",
                                          bt_defaults_source_name(d->source[f]))) < 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static json_t *params(const bt_defaults *d, uint32_t max_answer)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:i,s:i,s:i,s:i,s:i}", "temperature",
                     gw_json_number(d->value[BT_DEFAULT_TEMPERATURE]), "top_p",
                     gw_json_number(d->value[BT_DEFAULT_TOP_P]), "top_k",
                     gw_json_number(d->value[BT_DEFAULT_TOP_K]), "min_p",
                     gw_json_number(d->value[BT_DEFAULT_MIN_P]), "repeat_penalty",
                     gw_json_number(d->value[BT_DEFAULT_REPETITION_PENALTY]), "presence_penalty", 0,
                     "frequency_penalty", 0, "seed", -1, "max_tokens", (int)max_answer, "n_predict",
                     (int)max_answer);
}

static uint64_t count_slots(const gw_door *d)
{
    const gw_registry *r = gw_brain_registry(d->env.brain);
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->used; i++)
        if (r->nodes[i].in_use && r->nodes[i].state != GW_NODE_GONE &&
            r->nodes[i].hello.role == BT_ROLE_DECODE)
            n += r->nodes[i].load.slots_total;
    return n;
}

static json_t *token_text(const gw_text *t, int32_t id)
{
    char text[256];
    const bt_text_span s = bt_tokenizer_piece(t->tok, id);
    return s.ptr ? json_string(bt_utf8_show(text, sizeof text, s.ptr, s.len)) : json_null();
}

/* How chats become prompts, and where answers end. */
static json_t *chat_facts(const gw_text *t)
{
    char from[4096];
    const bt_templates *m = &t->templates;
    json_t *names = json_array(), *ends = json_array();
    int failed = 0;
    for (size_t i = 0; i < m->names; i++) failed |= json_array_append_new(names, json_string(m->name[i]));
    for (uint32_t i = 0; i < t->stop_ids_len; i++)
        failed |= json_array_append_new(ends, json_pack("{s:i,s:o}", "id", (int)t->stop_ids[i], "text",
                                                        token_text(t, t->stop_ids[i])));
    json_t *j = json_pack("{s:s?,s:s?,s:s?,s:o,s:s?,s:o,s:o,s:o}", "tool_calls",
                          t->calls ? t->calls->name : NULL, "chat_template", m->text, "chat_template_name",
                          m->from ? shown(from, sizeof from, m->from) : NULL, "chat_templates", names,
                          "chat_template_error", m->chat ? NULL : m->why.text, "bos_token",
                          token_text(t, bt_tokenizer_bos(t->tok)), "eos_token",
                          token_text(t, bt_tokenizer_eos(t->tok)), "end_of_turn", ends);
    if (!failed) return j;
    json_decref(j);
    return NULL;
}

void gw_pages_props(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    (void)r;
    const gw_text *t = d->env.text;
    const json_int_t ctx_tokens = (json_int_t)gw_door_context_tokens(d);
    const uint32_t max_answer = (uint32_t)d->env.options->answers.max_answer;
    char path[4096];
    json_t *j =
        json_pack("{s:{s:I,s:o},s:I,s:s,s:s,s:I,s:{s:b,s:b},s:s,s:o,s:I,s:I}", "default_generation_settings",
                  "n_ctx", ctx_tokens, "params", params(d->env.defaults, max_answer), "total_slots",
                  (json_int_t)count_slots(d), "model_alias", d->env.model->names[0], "model_path",
                  shown(path, sizeof path, d->env.options->model), "n_ctx", ctx_tokens, "modalities",
                  "vision", 0, "audio", 0, "build_info", "baton " BT_VERSION, "defaults",
                  defaults(d->env.defaults), "max_answer", (json_int_t)max_answer, "completion_tokens",
                  (json_int_t)GW_ASK_DEFAULT_COMPLETION_TOKENS);
    json_t *chat = chat_facts(t);
    if (!chat || !j || json_object_update(j, chat) < 0) {
        json_decref(j);
        j = NULL;
    }
    json_decref(chat);
    show(d, x, j, JSON_REAL_PRECISION(DIGITS));
}

/* ---- pages in pieces ---- */

/* Adds the next piece to out, from *at on, which it moves. False: it was the last one. */
typedef bool piece_fn(const gw_door *d, bt_buf *out, size_t *at);

struct gw_page {
    struct gw_page *next;
    gw_http_exchange *x;
    bt_buf out;
    size_t at;
    piece_fn *write;
};

/* Answers x with JSON: `out`, which is taken, and what write adds. The first piece is written in the call. */
static void begin_pieces(gw_door *d, gw_http_exchange *x, bt_buf *out, piece_fn *write)
{
    size_t at = 0;
    gw_page **end = &d->pages;
    if (!write(d, out, &at)) {
        gw_reply_json(d, x, out);
        return;
    }
    gw_page *p = malloc(sizeof *p);
    if (!p) {
        out->err = BT_ENOMEM;
        gw_reply_json(d, x, out);
        return;
    }
    *p = (gw_page){.x = x, .out = *out, .at = at, .write = write};
    while (*end) end = &(*end)->next;
    *end = p;
}

static void free_page(gw_page **at)
{
    gw_page *p = *at;
    *at = p->next;
    bt_buf_done(&p->out);
    free(p);
}

void gw_pages_go_on(gw_door *d)
{
    gw_page *p = d->pages;
    if (!p || p->write(d, &p->out, &p->at)) return;
    gw_reply_json(d, p->x, &p->out);
    free_page(&d->pages);
}

void gw_pages_forget(gw_door *d, const gw_http_exchange *x)
{
    gw_page **at = &d->pages;
    while (*at && (*at)->x != x) at = &(*at)->next;
    if (*at) free_page(at);
}

void gw_pages_free(gw_door *d)
{
    while (d->pages) free_page(&d->pages);
}

/* ---- /v1/status: what the gateway knows about its nodes ---- */

static json_t *count(uint64_t n) { return json_integer((json_int_t)n); }

static json_t *engine(const bt_msg_engine *g)
{
    char name[sizeof g->name], quant[sizeof g->quant], policy[sizeof g->shape_policy],
        profile[sizeof g->profile];
    if (!g) return json_null();
    return json_pack("{s:s,s:s,s:s,s:s,s:o}", "name", shown(name, sizeof name, g->name), "quant",
                     shown(quant, sizeof quant, g->quant), "shape_policy",
                     shown(policy, sizeof policy, g->shape_policy), "profile",
                     shown(profile, sizeof profile, g->profile), "fallbacks", count(g->fallbacks_len));
}

/* The device time of its work, and how late it was with --pace. */
static json_t *device(const gw_node *n)
{
    char profile[sizeof((bt_msg_device *)0)->profile];
    const bt_msg_device *d = n->hello.device;
    const bt_load *l = &n->load;
    if (!d) return json_null();
    return json_pack("{s:s,s:f,s:f,s:o,s:f,s:o,s:o}", "profile", shown(profile, sizeof profile, d->profile),
                     "seconds", (double)l->device_ns / 1e9, "joules", (double)l->device_nj / 1e9,
                     "utilisation",
                     l->device_ns ? json_real((double)l->device_ideal_ns / (double)l->device_ns)
                                  : json_null(),
                     "pace", (double)d->pace_milli / 1e3, "paced_ms", count(l->paced_us / 1000), "late_ms",
                     count(l->late_us / 1000));
}

static json_t *node(const gw_node *n, int64_t now_us)
{
    char hex[BT_HASH_HEX_CHARS], endpoint[BT_MSG_MAX_ENDPOINT_BYTES + 1],
        exactness[BT_MSG_MAX_TEXT_BYTES + 1];
    char own[BT_MSG_MAX_TEXT_BYTES + 1];
    const bool is_decode = n->hello.role == BT_ROLE_DECODE;
    return json_pack(
        "{s:s,s:s,s:o,s:s,s:s?,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:"
        "o,s:o}",
        "id", n->hello.node_id, "role", is_decode ? "decode" : "prefill", "pid",
        n->state == GW_NODE_GONE ? json_null() : count(n->hello.pid), "state", gw_node_state_name(n->state),
        "endpoint", is_decode ? shown(endpoint, sizeof endpoint, n->hello.kv_endpoint) : NULL, "incarnation",
        bt_hash_hex(hex, n->incarnation.bytes), "exactness",
        shown(exactness, sizeof exactness, n->hello.exactness), "prefill_exactness",
        n->hello.prefill_exactness[0] ? json_string(shown(own, sizeof own, n->hello.prefill_exactness))
                                      : json_null(),
        "engine", engine(n->hello.engine), "device", device(n), "ctx_tokens", count(n->hello.ctx_tokens),
        "kv_capacity_tokens", count(n->hello.kv_capacity_tokens), "slots_total", count(n->load.slots_total),
        "slots_used", count(n->load.slots_used), "queued", count(n->load.queued), "pages_total",
        count(n->load.pages_total), "pages_used", count(n->load.pages_used), "pages_cached",
        count(n->load.pages_cached), "window_pages_total", count(n->load.window_pages_total),
        "window_pages_used", count(n->load.window_pages_used), "window_pages_cached",
        count(n->load.window_pages_cached), "reservations", count(n->load.reservations), "leases",
        count(n->load.leases), "attempts", count(n->attempts), "rss_bytes", count(n->load.rss_bytes),
        "silent_ms", count((uint64_t)((now_us - n->heard_us) / 1000)));
}

/* The next places of the table. A node may come or go between two pieces. */
static bool add_nodes(const gw_door *d, bt_buf *out, size_t *at)
{
    const gw_registry *r = gw_brain_registry(d->env.brain);
    const int64_t now_us = bt_clock_us();
    const size_t end = *at + GW_PAGES_NODES_A_PIECE < r->used ? *at + GW_PAGES_NODES_A_PIECE : r->used;
    for (; *at < end; ++*at) {
        if (!r->nodes[*at].in_use) continue;
        if (out->data[out->len - 1] != '[') (void)bt_buf_byte(out, ',');
        if (gw_json_add(out, node(&r->nodes[*at], now_us), JSON_COMPACT) < 0) out->err = BT_ENOMEM;
    }
    if (*at < r->used && out->err == BT_OK) return true;
    (void)bt_buf_str(out, "]}");
    return false;
}

static const char *state_of(const gw_door *d)
{
    return d->is_draining ? "draining" : gw_brain_is_ready(d->env.brain) ? "ready" : "starting";
}

/* The part of the status that every client may see. */
static json_t *outer_status(const gw_door *d)
{
    char model[BT_HASH_HEX_CHARS];
    const gw_brain *brain = d->env.brain;
    const gw_registry *r = gw_brain_registry(brain);
    return json_pack("{s:s,s:b,s:{s:s,s:s,s:i},s:{s:i,s:i,s:i,s:i}}", "state", state_of(d), "ready",
                     !d->is_draining && gw_brain_is_ready(brain), "model", "name", d->env.model->names[0],
                     "id", bt_hash_hex(model, d->env.model->id), "ctx_tokens", (int)d->env.model->ctx_tokens,
                     "counts", "prefill_nodes", (int)r->ready[0], "decode_nodes", (int)r->ready[1], "running",
                     (int)gw_brain_active(brain), "waiting", (int)gw_brain_queued(brain));
}

/* The part of the status for those who run the nodes. */
static json_t *inner_status(const gw_door *d)
{
    const gw_brain *brain = d->env.brain;
    const gw_options *options = d->env.options;
    char self[BT_HASH_HEX_CHARS];
    return json_pack("{s:{s:s,s:i,s:s,s:s,s:s,s:s,s:s,s:o},s:{s:i,s:i,s:i,s:i,s:i}}", "gateway", "id",
                     d->env.node_id, "pid", (int)getpid(), "state", state_of(d), "policy",
                     gw_options_policies[options->policy], "endpoint", d->url, "control",
                     gw_node_link_endpoint(d->env.link), "incarnation", bt_hash_hex(self, d->env.self.bytes),
                     "rss_bytes", count(gw_metrics_rss_bytes()), "queue", "waiting",
                     (int)gw_brain_queued(brain), "running", (int)gw_brain_active(brain), "max_running",
                     (int)gw_brain_active_limit(brain), "owed", (int)gw_brain_debts(brain), "max",
                     (int)options->max_queue);
}

void gw_pages_status(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    static const char nodes[] = ",\"nodes\":[";
    const gw_key *k = r->caller;
    const bool is_admin = gw_rights_is_admin(d, r);
    bt_buf b;
    json_t *all = outer_status(d);
    json_t *more = is_admin ? inner_status(d)
                            : json_pack("{s:{s:s,s:s}}", "key", "name", k->facts.name, "role",
                                        gw_key_roles[k->facts.role]);
    if (all && (!more || json_object_update(all, more) < 0)) {
        json_decref(all);
        all = NULL;
    }
    json_decref(more);
    bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
    if (gw_json_add(&b, all, JSON_COMPACT) < 0) b.err = BT_ENOMEM;
    if (is_admin && b.err == BT_OK) {
        b.len--; /* the object's end comes behind the nodes */
        (void)bt_buf_str(&b, nodes);
    }
    if (is_admin && b.err == BT_OK) begin_pieces(d, x, &b, add_nodes);
    else gw_reply_json(d, x, &b);
}
