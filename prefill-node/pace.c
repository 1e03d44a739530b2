/* Rows that exist and rows that may be seen are two numbers a layer; events that end a prompt wait behind its
 * rows. */
#include "prefill-node/pace.h"
#include "kv/kv_header.h"

#include <stdlib.h>
#include <string.h>

struct pf_pace {
    bt_pace pace;
    const bt_work_prefill *d;
    uint32_t slot, layers;
    uint32_t *ready, *told; /* [layers] rows that exist; that were given out */
    bt_pace_prompt rows;
    uint32_t end; /* of the prompt */
    int64_t begin_us, end_us, computed_us;
    bool is_on, is_cancelled, has_computed, has_end, was_computed;
    pf_worker_event computed, last; /* last: DIGEST, FAILED or STOPPED */
};

bt_err pf_pace_new(pf_pace **ret, bt_pace pace, const bt_work_prefill *d, bt_fault *fault)
{
    pf_pace *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory for the pace");
    p->pace = pace;
    p->d = d;
    p->layers = d->kv.layers;
    p->ready = calloc(p->layers, sizeof *p->ready);
    p->told = calloc(p->layers, sizeof *p->told);
    if (!p->ready || !p->told) {
        pf_pace_free(p);
        return bt_fail(fault, BT_ENOMEM, "out of memory for the pace of %u layers", d->kv.layers);
    }
    *ret = p;
    return BT_OK;
}

void pf_pace_free(pf_pace *p)
{
    if (!p) return;
    free(p->ready);
    free(p->told);
    free(p);
}

void pf_pace_begin(pf_pace *p, uint32_t slot, const bt_work_prompt *prompt, uint64_t ns, int64_t now_us)
{
    for (uint32_t l = 0; l < p->layers; l++) p->ready[l] = p->told[l] = (uint32_t)prompt->first;
    p->slot = slot;
    p->end = (uint32_t)prompt->end;
    p->begin_us = now_us;
    p->end_us = bt_pace_due_us(&p->pace, now_us, ns);
    p->is_on = true;
    p->is_cancelled = p->has_computed = p->has_end = p->was_computed = false;
    bt_pace_prompt_begin(&p->rows, p->pace, p->d, prompt, now_us);
}

void pf_pace_take(pf_pace *p, const pf_worker_event *ev)
{
    if (!p->is_on || ev->slot != p->slot) return;
    if (ev->type == PF_WORKER_KV_READY) {
        p->ready[ev->layer] = ev->token_begin + ev->token_count;
    } else if (ev->type == PF_WORKER_COMPUTED) {
        p->computed = *ev;
        p->has_computed = true;
    } else {
        p->last = *ev;
        p->has_end = true;
    }
}

void pf_pace_cancel(pf_pace *p, uint32_t slot) { p->is_cancelled |= p->is_on && p->slot == slot; }

/* Whether events go without waiting. */
static bool is_free(const pf_pace *p)
{
    return p->is_cancelled || (p->has_end && p->last.type != PF_WORKER_DIGEST);
}

/* Rows of a layer that may go: a block's edge is a multiple of BT_KV_UNIT_TOKENS or the prompt's end. */
static uint32_t may_go(pf_pace *p, uint32_t layer, int64_t now_us)
{
    uint64_t rows = is_free(p) || now_us >= p->end_us ? p->end : bt_pace_prompt_rows(&p->rows, layer, now_us);
    if (rows < p->end) rows -= rows % BT_KV_UNIT_TOKENS;
    return rows < p->ready[layer] ? (uint32_t)rows : p->ready[layer];
}

static bool next_rows(pf_pace *p, pf_worker_event *ret, int64_t now_us)
{
    for (uint32_t l = 0; l < p->layers; l++) {
        const uint32_t from = p->told[l];
        if (from >= p->ready[l]) continue;
        const uint32_t to = may_go(p, l, now_us);
        if (to <= from) continue;
        p->told[l] = to;
        *ret = (pf_worker_event){.type = PF_WORKER_KV_READY, .slot = p->slot, .layer = l, .token_begin = from,
                                 .token_count = to - from};
        return true;
    }
    return false;
}

bool pf_pace_next(pf_pace *p, pf_worker_event *ret, bt_pace_count *ret_count, int64_t now_us)
{
    *ret_count = (bt_pace_count){0};
    if (!p->is_on) return false;
    if (next_rows(p, ret, now_us)) return true;
    if (p->has_computed && (is_free(p) || now_us >= p->end_us)) {
        p->has_computed = false;
        p->was_computed = true;
        p->computed_us = now_us;
        if (!p->is_cancelled) bt_pace_ended(ret_count, p->begin_us, p->end_us, now_us);
        *ret = p->computed;
        return true;
    }
    if (!p->has_end || p->has_computed) return false;
    /* the next prompt begins behind the digest, of which a device knows nothing */
    if (p->was_computed && !is_free(p)) ret_count->late_us = (uint64_t)(now_us - p->computed_us);
    p->is_on = false;
    *ret = p->last;
    return true;
}

bool pf_pace_is_under_way(const pf_pace *p, int64_t now_us)
{
    return p->is_on && !is_free(p) && now_us < p->end_us;
}

int64_t pf_pace_due_us(pf_pace *p, int64_t now_us)
{
    int64_t due = INT64_MAX;
    if (!p->is_on) return due;
    if (is_free(p) && (p->has_computed || p->has_end)) return now_us;
    if (p->has_computed) due = p->end_us;
    else if (p->has_end) return now_us;
    for (uint32_t l = 0; l < p->layers; l++) {
        if (p->told[l] >= p->ready[l]) continue;
        if (may_go(p, l, now_us) > p->told[l]) return now_us;
        const int64_t at = bt_pace_prompt_next_us(&p->rows, l, now_us);
        if (at < due) due = at;
        if (p->end_us < due) due = p->end_us;
    }
    return due;
}
