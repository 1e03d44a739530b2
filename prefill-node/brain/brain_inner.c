/* The prefill brain's lowest file: making actions, finding attempts. brain_inner.h has the order of the
 * others. */
#include "prefill-node/brain/brain_inner.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

pf_action *pf_act(pf_brain *b, pf_action_type type)
{
    assert(b->acts_len < b->acts_cap);
    pf_action *a = &b->acts[b->acts_len++];
    memset(a, 0, sizeof *a);
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

pf_record *pf_find(const pf_brain *b, const bt_request_ref *ref)
{
    return of(b, bt_attempts_find(&b->attempts, ref));
}
pf_record *pf_by_slot(const pf_brain *b, uint32_t slot)
{
    return of(b, bt_attempts_by_slot(&b->attempts, slot));
}
pf_record *pf_unused(const pf_brain *b) { return of(b, bt_attempts_unused(&b->attempts)); }
pf_record *pf_abort(pf_brain *b, const bt_request_ref *ref)
{
    return of(b, bt_attempts_abort(&b->attempts, ref));
}
