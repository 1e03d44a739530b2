/* When a request is next due. See request.h; request_time.c acts then. */
#include "base/breakage.h"
#include "gateway/brain/request.h"

int64_t gw_request_patience_us(const gw_brain *b, const gw_request *r)
{
    if (BT_BREAK(deadline_dropped)) return BT_STEP_NEVER;
    if (r->lost_us >= 0) return r->lost_us + b->cfg.recovery_us;
    if (r->state == GW_QUEUED && r->stuck_us >= 0) return r->stuck_us + b->cfg.recovery_us;
    return BT_STEP_NEVER;
}

bool gw_request_wants_renew(const gw_request *r)
{
    return r->state == GW_PREFILLING || r->state == GW_DECODING || r->state == GW_CLOSING ||
           gw_request_is_parked(r);
}

bool gw_request_wants_resend(const gw_request *r)
{
    return (r->state == GW_RESERVING && !gw_request_is_parked(r)) ||
           (r->state == GW_PREFILLING && !r->is_accepted);
}

int64_t gw_request_due_us(const gw_brain *b, const gw_request *r)
{
    if (r->state == GW_NONE || r->state == GW_DEAD) return BT_STEP_NEVER;
    int64_t due = gw_request_patience_us(b, r), t;
    if (r->state == GW_QUEUED) {
        if ((t = r->waiting_us + b->cfg.queue_us) < due) due = t;
        if (r->not_before_us > b->now_us && r->not_before_us < due) due = r->not_before_us;
        return due;
    }
    if (r->deadline_us < due) due = r->deadline_us;
    if (gw_request_wants_renew(r) && r->renew_us < due) due = r->renew_us;
    if (gw_request_wants_resend(r) && r->resend_us < due) due = r->resend_us;
    return due;
}
