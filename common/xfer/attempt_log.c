/* Remembers attempts that are over, in a ring. See attempt_log.h. */
#include "xfer/attempt_log.h"

void bt_attempt_log_note(bt_attempt_log *log, const bt_request_ref *ref)
{
    for (uint32_t i = 0; i < log->len; i++) {
        if (!bt_request_same(&log->refs[i], ref)) continue;
        if (ref->attempt > log->refs[i].attempt) log->refs[i].attempt = ref->attempt;
        return;
    }
    log->refs[log->next] = *ref;
    log->next = (log->next + 1) % BT_ATTEMPT_LOG_LEN;
    if (log->len < BT_ATTEMPT_LOG_LEN) log->len++;
}

uint32_t bt_attempt_log_highest(const bt_attempt_log *log, const bt_request_ref *ref)
{
    for (uint32_t i = 0; i < log->len; i++)
        if (bt_request_same(&log->refs[i], ref)) return log->refs[i].attempt;
    return 0;
}
