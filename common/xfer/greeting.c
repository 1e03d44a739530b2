/* A node's HELLO, heartbeat and re-greeting towards one gateway. See greeting.h. */
#include "xfer/greeting.h"
#include "xfer/step.h"

#include <string.h>

void bt_greeting_init(bt_greeting *l, int64_t now_us)
{
    memset(l, 0, sizeof *l);
    l->state = BT_GREETING_GREETING;
    l->due_us = now_us;
    l->heard_us = now_us;
}

static bool rests(const bt_greeting *l) { return l->rests && l->state == BT_GREETING_KNOWN; }

bt_greeting_says bt_greeting_tick(bt_greeting *l, const bt_greeting_times *t, int64_t now_us)
{
    if (rests(l)) return BT_GREETING_NOTHING;
    if (l->state == BT_GREETING_KNOWN && now_us - l->heard_us >= t->silence_us) {
        l->state = BT_GREETING_GREETING;
        l->due_us = now_us;
    }
    if (now_us < l->due_us) return BT_GREETING_NOTHING;
    if (l->state == BT_GREETING_KNOWN) {
        l->due_us = now_us + t->heartbeat_us;
        return BT_GREETING_HEARTBEAT;
    }
    l->due_us = now_us + (l->state == BT_GREETING_REFUSED ? t->rejected_us : t->resend_us);
    return BT_GREETING_HELLO;
}

int64_t bt_greeting_due_us(const bt_greeting *l, const bt_greeting_times *t)
{
    int64_t silent_us = l->heard_us + t->silence_us;
    if (rests(l)) return BT_STEP_NEVER;
    return l->state == BT_GREETING_KNOWN && silent_us < l->due_us ? silent_us : l->due_us;
}

/* At most one HELLO each resend_us, whatever comes in: two confused peers must not answer each other in a
 * loop. */
static bt_greeting_says greet(bt_greeting *l, const bt_greeting_times *t, int64_t now_us)
{
    if (l->state == BT_GREETING_KNOWN) {
        l->state = BT_GREETING_GREETING;
        l->due_us = now_us + t->resend_us;
        return BT_GREETING_HELLO;
    }
    return BT_GREETING_NOTHING;
}

bt_greeting_says bt_greeting_msg(bt_greeting *l, const bt_greeting_times *t, const bt_msg *m, int64_t now_us,
                                 bool *ret_pass, bool *ret_refused)
{
    *ret_pass = *ret_refused = false;
    if (m->type == BT_MSG_WELCOME) {
        bool is_news = l->state != BT_GREETING_KNOWN || !bt_incarnation_equal(&l->peer, &m->from);
        l->state = BT_GREETING_KNOWN;
        l->peer = m->from;
        l->heard_us = now_us;
        if (!is_news) return BT_GREETING_NOTHING;
        l->rests = false;
        l->due_us = now_us + t->heartbeat_us;
        return BT_GREETING_HEARTBEAT; /* at once: it ends STARTING at the gateway */
    }
    if (m->type == BT_MSG_REJECT) {
        if (m->u.reject.code == BT_EAGAIN) return greet(l, t, now_us); /* it does not know us (any more) */
        *ret_refused = l->state != BT_GREETING_KNOWN;
        if (*ret_refused) {
            l->state = BT_GREETING_REFUSED;
            l->due_us = now_us + t->rejected_us;
        }
        return BT_GREETING_NOTHING;
    }
    if (!bt_incarnation_equal(&l->peer, &m->from)) return greet(l, t, now_us); /* another gateway process */
    l->heard_us = now_us;
    *ret_pass = m->type != BT_MSG_HEARTBEAT && m->type != BT_MSG_BYE && m->type != BT_MSG_HELLO;
    return BT_GREETING_NOTHING;
}

bt_greeting_says bt_greeting_up(bt_greeting *l, const bt_greeting_times *t, int64_t now_us)
{
    if (l->state == BT_GREETING_REFUSED) return BT_GREETING_NOTHING; /* nothing changed: in its time */
    const bool is_known = l->state == BT_GREETING_KNOWN;
    l->due_us = now_us + (is_known ? t->heartbeat_us : t->resend_us);
    return is_known ? BT_GREETING_HEARTBEAT : BT_GREETING_HELLO; /* the one before may be lost with the link
                                                                  */
}

bt_greeting_says bt_greeting_again(bt_greeting *l, const bt_greeting_times *t, int64_t now_us)
{
    return greet(l, t, now_us);
}

bool bt_greeting_is_owner(const bt_greeting *l, const bt_incarnation *owner)
{
    static const bt_incarnation zero;
    return bt_incarnation_equal(&l->peer, owner) && !bt_incarnation_equal(&zero, owner);
}

void bt_greeting_rest(bt_greeting *l) { l->rests = l->state == BT_GREETING_KNOWN; }

int64_t bt_greeting_next_beat_us(int64_t due_us, int64_t every_us, int64_t now_us)
{
    return due_us < now_us ? due_us + (now_us - due_us + every_us - 1) / every_us * every_us : due_us;
}

int64_t bt_greeting_wake(bt_greeting *l, const bt_greeting_times *t, int64_t now_us)
{
    if (!rests(l)) return 0;
    l->rests = false;
    l->due_us = bt_greeting_next_beat_us(l->due_us, t->heartbeat_us, now_us);
    return l->due_us - t->heartbeat_us;
}
