/* Asking a node to serve as another role: ROLE goes again until the node answers or the time is over. See
 * brain.h. */
#include "gateway/brain/role.h"
#include "gateway/brain/act.h"
#include "gateway/brain/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void answer(gw_brain *b, uint64_t token, int32_t code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void answer(gw_brain *b, uint64_t token, int32_t code, const char *fmt, ...)
{
    gw_action *a = gw_act(b, GW_DO_ROLE_ANSWER);
    a->u.role_answer.token = token;
    a->u.role_answer.code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(a->u.role_answer.text, sizeof a->u.role_answer.text, fmt, ap);
    va_end(ap);
}

static void ask(gw_brain *b, gw_role *k)
{
    gw_act_send(b, &k->node, BT_MSG_ROLE)->u.role.role = k->role;
    k->resend_us = b->now_us + b->cfg.resend_us;
}

void gw_role_ask(gw_brain *b, const gw_event *ev)
{
    const gw_node *n = gw_registry_named(&b->registry, ev->u.role.node_id);
    gw_role *k = NULL;
    for (uint32_t i = 0; !k && i < GW_ROLES_MAX; i++)
        if (!b->roles[i].in_use) k = &b->roles[i];
    if (ev->u.role.role != BT_ROLE_PREFILL && ev->u.role.role != BT_ROLE_DECODE)
        answer(b, ev->u.role.token, BT_EARG, "a node's role is prefill or decode");
    else if (!n) answer(b, ev->u.role.token, BT_EARG, "no node is called '%s'", ev->u.role.node_id);
    else if (!k) answer(b, ev->u.role.token, BT_EAGAIN, "%d nodes are being asked already", GW_ROLES_MAX);
    else {
        *k = (gw_role){.in_use = true, .node = n->incarnation, .role = ev->u.role.role,
                       .token = ev->u.role.token, .deadline_us = b->now_us + b->cfg.role_us};
        ask(b, k);
    }
}

void gw_role_answered(gw_brain *b, const bt_msg *m)
{
    bool is_awaited = false;
    for (uint32_t i = 0; i < GW_ROLES_MAX; i++) {
        gw_role *k = &b->roles[i];
        if (!k->in_use || k->role != m->u.role_answer.role || !bt_incarnation_equal(&k->node, &m->from))
            continue;
        answer(b, k->token, m->u.role_answer.code, "%s", m->u.role_answer.text);
        k->in_use = false;
        is_awaited = true;
    }
    b->n.repeats += !is_awaited;
}

void gw_role_expire(gw_brain *b)
{
    for (uint32_t i = 0; i < GW_ROLES_MAX; i++) {
        gw_role *k = &b->roles[i];
        if (!k->in_use) continue;
        const bool is_here = gw_registry_find(&b->registry, &k->node) != NULL;
        if (!is_here || b->now_us >= k->deadline_us) {
            answer(b, k->token, is_here ? BT_EIO : BT_EAGAIN,
                   is_here ? "the node did not answer" : "the node was restarted meanwhile");
            k->in_use = false;
        } else if (b->now_us >= k->resend_us) {
            b->n.resent++;
            ask(b, k);
        }
    }
}

int64_t gw_role_due_us(const gw_brain *b)
{
    int64_t due = BT_STEP_NEVER;
    for (uint32_t i = 0; i < GW_ROLES_MAX; i++) {
        if (!b->roles[i].in_use) continue;
        if (b->roles[i].deadline_us < due) due = b->roles[i].deadline_us;
        if (b->roles[i].resend_us < due) due = b->roles[i].resend_us;
    }
    return due;
}
