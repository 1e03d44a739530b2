/* The actions of a step. Room for all of them was taken at gw_brain_new, which says how many there can be. */
#include "gateway/brain/act.h"
#include "gateway/brain/state.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

gw_action *gw_act(gw_brain *b, gw_action_type type)
{
    assert(b->acts_len < b->acts_cap);
    gw_action *a = &b->acts[b->acts_len++];
    memset(a, 0, type == GW_DO_SEND ? offsetof(gw_action, u.send.msg) : sizeof *a);
    a->type = type;
    return a;
}

bt_msg *gw_act_send(gw_brain *b, const bt_incarnation *peer, bt_msg_type type)
{
    gw_action *a = gw_act(b, GW_DO_SEND);
    a->u.send.peer = *peer;
    bt_msg *m = &a->u.send.msg;
    bt_msg_begin(m, type);
    m->from = b->cfg.self;
    m->to = *peer;
    return m;
}

void gw_act_log(gw_brain *b, bt_log_level level, const char *fmt, ...)
{
    gw_action *a = gw_act(b, GW_DO_LOG);
    a->u.log.level = level;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(a->u.log.text, sizeof a->u.log.text, fmt, ap);
    va_end(ap);
}
