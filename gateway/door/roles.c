/* POST /v1/nodes/{id}/role: a client waits until the node has answered. */
#include "gateway/door/roles.h"
#include "base/log.h"
#include "gateway/door/reply.h"
#include "gateway/api/role_http.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

static bool knows(const gw_door *d, const char *id)
{
    return gw_registry_named(gw_brain_registry(d->env.brain), id) != NULL;
}

void gw_roles_post(gw_door *d, gw_http_exchange *x, const gw_http_request *r)
{
    gw_event ev = {.type = GW_EV_ROLE};
    gw_error err;
    gw_asked *k = NULL;
    char shown[BT_MSG_MAX_ID_BYTES + 1];
    bt_err e;
    const bool is_id = gw_role_http_path(ev.u.role.node_id, r->path);
    if (r->origin && !d->env.auth) /* a page that somebody looks at must not move nodes of this machine */
        e = gw_error_say(&err, 403, "forbidden", NULL,
                         "A web page may change a node's role only where the gateway asks for API keys.");
    else if ((e = gw_role_http_parse(&ev.u.role.role, &err, r->body, r->body_len)) == BT_OK &&
             !(is_id && knows(d, ev.u.role.node_id)))
        e = gw_error_say(
            &err, 404, "node_not_found", NULL, "No node is called '%s'; /v1/status lists those there are.",
            is_id ? bt_utf8_show(shown, sizeof shown, ev.u.role.node_id, strlen(ev.u.role.node_id)) : "that");
    else if (e == BT_OK && !(k = calloc(1, sizeof *k))) e = gw_error_no_memory(&err);
    if (e != BT_OK || !k) {
        gw_reply_error(d, x, &err, NULL);
        return;
    }
    ev.u.role.token = ++d->number;
    *k = (gw_asked){.next = d->roles, .token = ev.u.role.token, .x = x, .role = ev.u.role.role};
    memcpy(k->id, ev.u.role.node_id, sizeof k->id);
    d->roles = k;
    bt_log_request(BT_LOG_INFO, gw_http_id(x), "asking node %s to serve as %s", k->id,
                   k->role == BT_ROLE_PREFILL ? "prefill" : "decode");
    d->env.step(d->env.ud, &ev); /* may answer already */
}

void gw_roles_answered(gw_door *d, const gw_action *a)
{
    gw_error err;
    bt_buf b;
    gw_asked **at = &d->roles;
    while (*at && (*at)->token != a->u.role_answer.token) at = &(*at)->next;
    gw_asked *k = *at;
    if (!k) return;
    *at = k->next;
    if (a->u.role_answer.code < 0) {
        gw_role_http_refused(&err, k->id, a->u.role_answer.code, a->u.role_answer.text);
        gw_reply_error(d, k->x, &err, NULL);
    } else {
        bt_buf_init(&b, GW_DOOR_ANSWER_MAX_BYTES);
        if (gw_role_http_answer(&b, k->id, k->role, a->u.role_answer.text) < 0) b.err = BT_ENOMEM;
        gw_reply_json(d, k->x, &b);
    }
    free(k);
}

void gw_roles_forget(gw_door *d, const gw_http_exchange *x)
{
    gw_asked **at = &d->roles;
    while (*at && (*at)->x != x) at = &(*at)->next;
    gw_asked *k = *at;
    if (!k) return;
    *at = k->next;
    free(k);
}

void gw_roles_free(gw_door *d)
{
    while (d->roles) {
        gw_asked *k = d->roles;
        d->roles = k->next;
        free(k);
    }
}
