/* The prefill brain's lowest file: making actions, finding attempts. brain_inner.h has the order of the
 * others. */
#include "prefill-node/brain/brain_inner.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The bytes of an action to zero; the maker of a message begins it. */
static size_t bytes_of(const pf_action *a, pf_action_type type)
{
    if (type == PF_DO_SEND_CONTROL) return offsetof(pf_action, u.control.msg);
    if (type == PF_DO_SEND_BULK) return offsetof(pf_action, u.bulk.msg);
    if (type == PF_DO_SEND_BLOCK) return offsetof(pf_action, u) + sizeof a->u.block;
    return sizeof *a;
}

pf_action *pf_act(pf_brain *b, pf_action_type type)
{
    assert(b->acts_len < b->acts_cap);
    pf_action *a = &b->acts[b->acts_len++];
    memset(a, 0, bytes_of(a, type));
    a->type = type;
    return a;
}

void pf_log(pf_brain *b, bt_log_level level, const char *text, const char *more)
{
    pf_action *a = pf_act(b, PF_DO_LOG);
    a->u.log.level = level;
    snprintf(a->u.log.text, sizeof a->u.log.text, "%s%s", text, more);
}

static pf_record *of(const pf_brain *b, const bt_attempt *a)
{
    return a ? &b->records[a - b->attempts.all] : NULL;
}

pf_record *pf_next(const pf_brain *b, const pf_record *r)
{
    return of(b, bt_attempts_next(&b->attempts, r ? r->a : NULL));
}

pf_record *pf_touch(pf_brain *b, bt_attempt *a)
{
    if (a) bt_attempts_touch(&b->attempts, a);
    return of(b, a);
}

pf_record *pf_find(pf_brain *b, const bt_request_ref *ref)
{
    return pf_touch(b, bt_attempts_find(&b->attempts, ref));
}
pf_record *pf_by_slot(pf_brain *b, uint32_t slot)
{
    return pf_touch(b, bt_attempts_by_slot(&b->attempts, slot));
}
pf_record *pf_unused(pf_brain *b) { return pf_touch(b, bt_attempts_unused(&b->attempts)); }
pf_record *pf_abort(pf_brain *b, const bt_request_ref *ref)
{
    return pf_touch(b, bt_attempts_abort(&b->attempts, ref));
}

pf_link *pf_link_of(const pf_brain *b, const bt_incarnation *decode)
{
    const int64_t at = bt_order_from(&b->peers, 0, bt_incarnation_key(decode));
    return at >= 0 && bt_incarnation_equal(&b->links[at].decode, decode) ? &b->links[at] : NULL;
}

bool pf_has_transfer(const pf_record *r)
{
    return r->a->state == PF_WAITING || r->a->state == PF_COMPUTING || r->a->state == PF_SENDING;
}

bool pf_is_commit_due(const pf_brain *b, const pf_record *r)
{
    return r->a->state == PF_SENDING && bt_xfer_send_all_sent(&b->sends[r->a->slot]);
}
