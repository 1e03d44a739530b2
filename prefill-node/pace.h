#ifndef PF_PACE_H
#define PF_PACE_H
#include "device/pace.h"
#include "prefill-node/worker.h"

/* Keeps the worker's events of a prompt back until the device would have come so far (device/pace.h). Pure: it stands
 * between worker and brain, and the time is an argument. One prompt at a time, as in the worker:
 *
 *   pf_pace_begin when the worker gets the prompt, pf_pace_take with each of its events in order; pf_pace_next gives
 *   the events out again, in an order that the brain accepts, none before its time. FAILED and STOPPED go at once, and
 *   so do all events of a cancelled prompt. */
typedef struct pf_pace pf_pace;
/* d is borrowed. vocab and slots do not matter. BT_ENOMEM. */
bt_err pf_pace_new(pf_pace **ret, bt_pace pace, const bt_work_prefill *d, bt_fault *fault);
void pf_pace_free(pf_pace *p); /* NULL is fine */

void pf_pace_begin(pf_pace *p, uint32_t slot, const bt_work_prompt *prompt, uint64_t ns, int64_t now_us);
void pf_pace_take(pf_pace *p, const pf_worker_event *ev);
void pf_pace_cancel(pf_pace *p, uint32_t slot);
/* false: nothing is due at now_us. *ret_count: with COMPUTED how late the prompt was; with DIGEST how much the digest
 * adds. */
bool pf_pace_next(pf_pace *p, pf_worker_event *ret, bt_pace_count *ret_count, int64_t now_us);
/* Whether the device would still be at the prompt. */
bool pf_pace_is_under_way(const pf_pace *p, int64_t now_us);
/* When pf_pace_next next has an event; INT64_MAX: there is none. */
int64_t pf_pace_due_us(pf_pace *p, int64_t now_us);
#endif
