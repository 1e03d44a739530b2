/* Decides who holds which KV pages: room for a reservation, growth, shared beginnings of prompts, who is preempted, what becomes of its
 * rows, and when it returns. The rules are in brain.h. Pages have the brain's own numbers here, so that its count of them is exact where
 * several sequences hold one; the shell's pool has the same count by doing the same things in the same order. */
#include "decode-node/brain_inner.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static uint32_t pages_for(const dc_brain *b, uint64_t tokens)
{
    return (uint32_t)((tokens + b->cfg.page_tokens - 1) / b->cfg.page_tokens);
}

static uint32_t *table_of(const dc_brain *b, uint32_t slot) { return b->table + (size_t)slot * b->seq_pages; }

static dc_action *act_pages(dc_brain *b, dc_action_type type, uint32_t slot, uint32_t tokens)
{
    dc_action *a = dc_act(b, type);
    a->u.pages.slot = slot;
    a->u.pages.tokens = tokens;
    return a;
}

/* Let r hold so many pages, new ones at its end. */
static void take(dc_brain *b, dc_record *r, uint32_t pages)
{
    assert(pages <= b->seq_pages && pages <= r->pages + b->free_len);
    while (r->pages < pages) {
        const uint32_t page = b->free_pages[--b->free_len];
        b->holders[page] = 1;
        table_of(b, r->slot)[r->pages++] = page;
    }
}

static void let_go(dc_brain *b, dc_record *r)
{
    while (r->pages > 0) {
        const uint32_t page = table_of(b, r->slot)[--r->pages];
        if (--b->holders[page] == 0) b->free_pages[b->free_len++] = page;
    }
}

/* Rows that r needs to go on without asking at once; at most what it will ever have. */
static uint64_t with_growth(const dc_brain *b, const bt_msg_reserve *w, uint32_t known)
{
    const uint64_t growth = (uint64_t)known + b->cfg.growth_tokens;
    return w->prompt_tokens + (growth < w->max_tokens ? growth : w->max_tokens);
}

/* ---- shared beginnings -------------------------------------------------------------------------- */

/* Fewer tokens, where a beginning ends inside a page, are computed as fast as they are copied. */
enum { SHARE_TOKENS = 16 };

/* The sequence that has the longest beginning of this prompt in place; at least one token is left to compute, for token 0 comes of it. The
 * oldest of equal ones. */
static const dc_record *find_donor(const dc_brain *b, const int32_t *ids, uint32_t len, uint32_t *ret_tokens)
{
    const uint32_t unit = b->cfg.page_tokens % SHARE_TOKENS ? b->cfg.page_tokens : SHARE_TOKENS;
    const dc_record *best = NULL;
    *ret_tokens = 0;
    for (uint32_t i = 0; i < b->records_len && len > 1; i++) {
        const dc_record *r = &b->records[i];
        if ((r->state != DC_RUNNING && r->state != DC_PREEMPTING) || !r->has_prompt || !r->is_own_class) continue;
        const uint32_t most = len - 1 < r->wish.prompt_tokens ? len - 1 : r->wish.prompt_tokens;
        uint32_t n = 0;
        while (most - n >= unit && memcmp(ids + n, r->wish.ids + n, unit * sizeof *ids) == 0) n += unit;
        if (n == 0 || n < *ret_tokens || (n == *ret_tokens && best && r->age > best->age)) continue;
        best = r;
        *ret_tokens = n;
    }
    return best;
}

/* ---- reservations ------------------------------------------------------------------------------- */

bool dc_memory_waits(const dc_record *r) { return r->state == DC_PREEMPTED || (r->state == DC_RUNNING && r->need_tokens > 0); }

bool dc_memory_has_room(dc_brain *b, const bt_msg_reserve *w)
{
    uint64_t counted = 0;
    for (uint32_t i = 0; i < b->records_len; i++) {
        const dc_record *r = &b->records[i];
        if (dc_memory_waits(r) || r->state == DC_PREEMPTING) return false;
        if (r->state != DC_RESERVED && r->state != DC_RUNNING) continue;
        const uint32_t all = pages_for(b, with_growth(b, &r->wish, r->wish.generated_len));
        if (all > r->pages) counted += all - r->pages;
    }
    uint32_t shared = 0;
    if (w->is_local) (void)find_donor(b, w->ids, w->ids_len, &shared);
    return counted + pages_for(b, with_growth(b, w, w->generated_len)) - shared / b->cfg.page_tokens <= b->free_len;
}

/* Pages for `tokens` rows, the prompt's at least; where it is prefilled here, the first may be shared ones. The page that a shared beginning
 * ends in is written next, so r has a copy of its own. Returns the rows that are in place. */
static uint32_t place(dc_brain *b, dc_record *r, uint32_t tokens, bool may_share)
{
    uint32_t shared = 0;
    const dc_record *donor = may_share ? find_donor(b, r->wish.ids, r->wish.prompt_tokens, &shared) : NULL;
    if (donor) {
        act_pages(b, DC_DO_SHARE_PAGES, r->slot, shared)->u.pages.from = donor->slot;
        for (; r->pages < shared / b->cfg.page_tokens; r->pages++) {
            const uint32_t page = table_of(b, donor->slot)[r->pages];
            b->holders[page]++;
            table_of(b, r->slot)[r->pages] = page;
        }
        b->n.prefix_hits++;
        b->n.prefix_tokens += shared;
    }
    take(b, r, pages_for(b, tokens));
    (void)act_pages(b, DC_DO_RESERVE_PAGES, r->slot, tokens);
    return shared;
}

uint32_t dc_memory_place_prompt(dc_brain *b, dc_record *r) { return place(b, r, r->wish.prompt_tokens, r->wish.is_local); }

void dc_memory_drop(dc_brain *b, dc_record *r)
{
    if (r->pages > 0) dc_act(b, DC_DO_FREE_PAGES)->u.slot = r->slot;
    let_go(b, r);
    if (r->swap_pages > 0) dc_act(b, DC_DO_DROP_SWAP)->u.slot = r->slot;
    b->swap_used -= r->swap_pages;
    r->swap_pages = 0;
}

/* ---- preemption --------------------------------------------------------------------------------- */

static void preempt(dc_brain *b, dc_record *r)
{
    dc_act(b, DC_DO_STOP)->u.slot = r->slot;
    r->state = DC_PREEMPTING;
    r->need_tokens = 0;
    b->n.preempted++;
}

void dc_memory_give_up(dc_brain *b, dc_record *r, bt_err code, const char *text)
{
    b->n.given_up++;
    if (r->state == DC_PREEMPTED) {
        dc_fail(b, r, code, text);
        return;
    }
    if (r->state == DC_RUNNING) preempt(b, r);
    r->gives_up = true;
    r->failed.code = code;
    snprintf(r->failed.text, sizeof r->failed.text, "%s", text);
}

void dc_memory_preempted(dc_brain *b, dc_record *r, uint32_t rows)
{
    if (r->gives_up) {
        dc_fail(b, r, (bt_err)r->failed.code, r->failed.text);
        return;
    }
    const bool has_rows = r->ids_len > 0 && rows >= r->wish.prompt_tokens;      /* else it was in its prefill, which is begun again */
    const uint32_t pages = pages_for(b, rows);
    assert(!has_rows || rows < r->wish.prompt_tokens + r->ids_len);
    if (has_rows && pages <= b->cfg.swap_pages - b->swap_used) {
        (void)act_pages(b, DC_DO_SWAP_OUT, r->slot, rows);
        let_go(b, r);
        b->swap_used += pages;
        r->swap_pages = pages;
        r->rows = rows;
        b->n.swapped_out++;
    } else if (b->cfg.can_prefill && r->is_own_class) {
        dc_memory_drop(b, r);
        r->rows = 0;
        r->has_prompt = false;
        b->n.dropped++;
    } else {
        b->n.given_up++;
        dc_fail(b, r, BT_EAGAIN, "preempted: the KV memory of this node is full");
        return;
    }
    r->state = DC_PREEMPTED;
    r->want_us = b->now_us;
}

void dc_memory_need(dc_brain *b, uint32_t slot, uint32_t tokens)
{
    dc_record *r = dc_by_slot(b, slot);
    const uint64_t most = r ? (uint64_t)r->wish.prompt_tokens + r->wish.max_tokens : 0;
    if (!r || r->state != DC_RUNNING || tokens == 0 || tokens > most) {
        b->n.unexpected += !r || (r->state != DC_STOPPING && r->state != DC_PREEMPTING);
        return;
    }
    if (r->need_tokens == 0) r->want_us = b->now_us;
    r->need_tokens = tokens;
}

/* ---- who gets pages ----------------------------------------------------------------------------- */

static void come_back(dc_brain *b, dc_record *r)
{
    const uint32_t tokens = r->wish.prompt_tokens + r->ids_len;         /* the row of the next token too */
    uint32_t rows = r->rows;
    if (r->swap_pages > 0) {
        take(b, r, pages_for(b, tokens));
        act_pages(b, DC_DO_SWAP_IN, r->slot, rows)->u.pages.capacity = tokens;
        b->swap_used -= r->swap_pages;
        r->swap_pages = 0;
        b->n.swapped_in++;
    } else {
        rows = place(b, r, tokens, true);
    }
    dc_launch(b, r, rows);
}

/* Gives r what it waits for, if so many pages are free. Who returns wants room to grow as well, lest it leaves at once again. */
static bool serve(dc_brain *b, dc_record *r)
{
    if (r->state == DC_PREEMPTED) {
        if (pages_for(b, with_growth(b, &r->wish, r->ids_len)) > b->free_len) return false;
        come_back(b, r);
        return true;
    }
    const uint32_t pages = pages_for(b, r->need_tokens);
    if (pages > r->pages && pages - r->pages > b->free_len) return false;
    take(b, r, pages);
    (void)act_pages(b, DC_DO_GROW_PAGES, r->slot, r->need_tokens);
    r->need_tokens = 0;
    return true;
}

static bool is_leaving(const dc_record *r)
{
    return r->pages > 0 && (r->state == DC_PREEMPTING || r->state == DC_STOPPING);
}

/* Who waits is served by age; no younger one before an older. One sequence is preempted at a time: what it frees is seen before another
 * must go. Where only reservations hold the pages that are wanted, they are waited for: they start, and can be preempted, or end. */
void dc_memory_settle(dc_brain *b)
{
    for (;;) {
        dc_record *oldest = NULL, *youngest = NULL;
        bool leaving = false;
        for (uint32_t i = 0; i < b->records_len; i++) {
            dc_record *r = &b->records[i];
            leaving = leaving || is_leaving(r);
            if (dc_memory_waits(r) && (!oldest || r->age < oldest->age)) oldest = r;
            if (r->state == DC_RUNNING && (!youngest || r->age > youngest->age)) youngest = r;
        }
        if (!oldest) return;
        if (serve(b, oldest)) continue;
        if (!leaving && youngest && youngest->age > oldest->age) preempt(b, youngest);
        return;
    }
}
