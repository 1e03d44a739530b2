/* Decides who is preempted, what becomes of its rows, and when it returns. The rules are in brain.h. */
#include "decode-node/brain/brain_inner.h"

#include <assert.h>
#include <stdio.h>

static void preempt(dc_brain *b, dc_record *r)
{
    dc_act(b, DC_DO_STOP)->u.slot = r->a->slot;
    r->a->state = DC_PREEMPTING;
    r->need_tokens = 0;
    b->n.preempted++;
}

void dc_preempt_give_up(dc_brain *b, dc_record *r, bt_err code, const char *text)
{
    b->n.given_up++;
    if (r->a->state == DC_PREEMPTED) {
        dc_attempt_fail(b, r, code, text);
        return;
    }
    if (r->a->state == DC_RUNNING) preempt(b, r);
    r->gives_up = true;
    r->failed.code = code;
    snprintf(r->failed.text, sizeof r->failed.text, "%s", text);
}

void dc_preempt_stopped(dc_brain *b, dc_record *r, uint32_t rows)
{
    if (r->gives_up) {
        dc_attempt_fail(b, r, (bt_err)r->failed.code, r->failed.text);
        return;
    }
    dc_memory_keep(b, r, rows);
    /* Else it was in its prefill, which is begun again. */
    const bool has_rows = r->ids_len > 0 && rows >= r->wish.prompt_tokens;
    assert(!has_rows || rows < r->wish.prompt_tokens + r->ids_len);
    if (!has_rows || !dc_memory_swap_out(b, r, rows)) {
        b->cautious_until_us = b->now_us + DC_CAUTION_US;
        if (!b->cfg.can_prefill || r->class != b->own_class) {
            b->n.given_up++;
            dc_attempt_fail(b, r, BT_EAGAIN, "preempted: the KV memory of this node is full");
            return;
        }
        dc_memory_drop(b, r);
        r->has_prompt = false;
        b->n.dropped++;
    }
    r->a->state = DC_PREEMPTED;
    r->want_us = b->now_us;
}

/* ---- who gets pages ----------------------------------------------------------------------------- */

/* Gives r the pages that it waits for, if so many are free. */
static bool serve(dc_brain *b, dc_record *r)
{
    uint32_t rows;
    if (r->a->state != DC_PREEMPTED) return dc_memory_grow(b, r);
    if (!dc_memory_bring_back(b, r, &rows)) return false;
    dc_attempt_launch(b, r, rows);
    return true;
}

/* Waiting sequences are served by age, no younger one before an older. One sequence is preempted at a time,
 * so that its pages are counted before another must go. Where only reservations hold the wanted pages, the
 * brain waits until they start, and can be preempted, or end. */
void dc_preempt_settle(dc_brain *b)
{
    for (;;) {
        dc_orders_settle(b);
        dc_record *oldest = dc_orders_oldest(b);
        if (!oldest) return;
        if (serve(b, oldest)) continue;
        dc_record *youngest = b->leaving ? NULL : dc_orders_youngest(b);
        if (youngest && youngest->age > oldest->age) preempt(b, youngest);
        dc_orders_settle(b);
        return;
    }
}
