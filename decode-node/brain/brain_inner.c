/* The decode brain's lowest file: making actions, finding attempts. brain_inner.h has the order of the
 * others. */
#include "decode-node/brain/brain_inner.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* The bytes of an action to zero; the maker of a message begins it. */
static size_t bytes_of(const dc_action *a, dc_action_type type)
{
    if (type == DC_DO_SEND_CONTROL) return offsetof(dc_action, u.control.msg);
    if (type == DC_DO_SEND_BULK) return offsetof(dc_action, u.bulk.msg);
    if (type == DC_DO_PLACE) return offsetof(dc_action, u) + sizeof a->u.block;
    return sizeof *a;
}

dc_action *dc_act(dc_brain *b, dc_action_type type)
{
    assert(b->acts_len < b->acts_cap);
    dc_action *a = &b->acts[b->acts_len++];
    memset(a, 0, bytes_of(a, type));
    a->type = type;
    return a;
}

static dc_record *of(const dc_brain *b, const bt_attempt *a)
{
    return a ? &b->records[a - b->attempts.all] : NULL;
}

dc_record *dc_next(const dc_brain *b, const dc_record *r)
{
    return of(b, bt_attempts_next(&b->attempts, r ? r->a : NULL));
}

dc_record *dc_touch(dc_brain *b, bt_attempt *a)
{
    if (a) bt_attempts_touch(&b->attempts, a);
    return of(b, a);
}

dc_record *dc_find(dc_brain *b, const bt_request_ref *ref)
{
    return dc_touch(b, bt_attempts_find(&b->attempts, ref));
}
dc_record *dc_by_slot(dc_brain *b, uint32_t slot)
{
    return dc_touch(b, bt_attempts_by_slot(&b->attempts, slot));
}
dc_record *dc_unused(dc_brain *b) { return dc_touch(b, bt_attempts_unused(&b->attempts)); }
dc_record *dc_abort(dc_brain *b, const bt_request_ref *ref)
{
    return dc_touch(b, bt_attempts_abort(&b->attempts, ref));
}
