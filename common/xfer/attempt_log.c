/* Remembers attempts that are over, in a ring with an index. See attempt_log.h. */
#include "xfer/attempt_log.h"
#include "base/hash.h"

uint64_t bt_request_hash(const bt_request_ref *ref)
{
    const struct {
        bt_incarnation owner;
        uint64_t number;
    } key = {ref->owner, ref->number};
    return bt_hash64(&key, sizeof key);
}

static uint16_t *bucket_of(bt_attempt_log *log, const bt_request_ref *ref)
{
    return &log->buckets[bt_request_hash(ref) % BT_ATTEMPT_LOG_LEN];
}

/* The request's place + 1, or 0. */
static uint32_t find(const bt_attempt_log *log, const bt_request_ref *ref)
{
    uint32_t link = log->buckets[bt_request_hash(ref) % BT_ATTEMPT_LOG_LEN];
    while (link && !bt_request_same(&log->refs[link - 1], ref)) link = log->same[link - 1];
    return link;
}

void bt_attempt_log_note(bt_attempt_log *log, const bt_request_ref *ref)
{
    const uint32_t link = find(log, ref), at = log->next;
    if (link) {
        if (ref->attempt > log->refs[link - 1].attempt) log->refs[link - 1].attempt = ref->attempt;
        return;
    }
    if (log->len == BT_ATTEMPT_LOG_LEN) { /* the oldest makes room */
        uint16_t *old = bucket_of(log, &log->refs[at]);
        while (*old != at + 1) old = &log->same[*old - 1];
        *old = log->same[at];
    }
    uint16_t *bucket = bucket_of(log, ref);
    log->refs[at] = *ref;
    log->same[at] = *bucket;
    *bucket = (uint16_t)(at + 1);
    log->next = (at + 1) % BT_ATTEMPT_LOG_LEN;
    if (log->len < BT_ATTEMPT_LOG_LEN) log->len++;
}

uint32_t bt_attempt_log_highest(const bt_attempt_log *log, const bt_request_ref *ref)
{
    const uint32_t link = find(log, ref);
    return link ? log->refs[link - 1].attempt : 0;
}
