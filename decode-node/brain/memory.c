/* Decides who holds which KV pages: room for a reservation, growth, shared beginnings of prompts, who is preempted, what becomes of its
 * rows, and when it returns. The rules are in brain.h, the numbers in kv/kv_book.h. */
#include "decode-node/brain/brain_inner.h"
#include "base/breakage.h"

#include <assert.h>
#include <stdio.h>

static uint32_t pages_for(const dc_brain *b, uint64_t tokens)
{
    return (uint32_t)((tokens + b->cfg.page_tokens - 1) / b->cfg.page_tokens);
}

static uint32_t pages_of(const dc_brain *b, const dc_record *r)
{
    uint32_t len = 0;
    if (r->slot != DC_NO_SLOT) (void)bt_kv_book_table(b->book, r->slot, &len);
    return len;
}

static void set_pages(dc_brain *b, const dc_record *r, bool is_growth)
{
    dc_action *a = dc_act(b, DC_DO_SET_PAGES);
    a->u.set.slot = r->slot;
    a->u.set.pages = bt_kv_book_table(b->book, r->slot, &a->u.set.pages_len);
    a->u.set.is_growth = is_growth;
}

/* Let r hold `tokens` rows; the caller knows that there is room. */
static void hold(dc_brain *b, const dc_record *r, uint32_t tokens)
{
    const bool has = bt_kv_book_hold(b->book, r->slot, tokens);
    assert(has);
    (void)has;
}

static void let_go(dc_brain *b, const dc_record *r)
{
    if (pages_of(b, r) == 0) return;
    bt_kv_book_release(b->book, r->slot);
    set_pages(b, r, false);
}

static void swap(dc_brain *b, dc_action_type type, const dc_record *r)
{
    dc_action *a = dc_act(b, type);
    a->u.swap.slot = r->slot;
    a->u.swap.tokens = r->rows;
}

/* Rows that r needs to go on without asking at once; at most what it will ever have. */
static uint64_t with_growth(const dc_brain *b, const bt_msg_reserve *w, uint32_t known)
{
    const uint64_t growth = (uint64_t)known + b->cfg.growth_tokens;
    return w->prompt_tokens + (growth < w->max_tokens ? growth : w->max_tokens);
}

/* ---- reservations ------------------------------------------------------------------------------- */

bool dc_memory_waits(const dc_record *r) { return r->state == DC_PREEMPTED || (r->state == DC_RUNNING && r->need_tokens > 0); }

/* What of a prompt may be shared: where it is computed here at least one token is, for token 0 comes of it. */
static uint32_t most_shared(const bt_msg_reserve *w, bool is_here) { return w->prompt_tokens - is_here; }

bool dc_memory_has_room(dc_brain *b, const bt_msg_reserve *w)
{
    uint64_t counted = 0;
    for (uint32_t i = 0; i < b->records_len; i++) {
        const dc_record *r = &b->records[i];
        if (dc_memory_waits(r) || r->state == DC_PREEMPTING) return false;
        if (r->state != DC_RESERVED && r->state != DC_RUNNING) continue;
        const uint32_t all = pages_for(b, with_growth(b, &r->wish, r->wish.generated_len)), held = pages_of(b, r);
        if (all > held) counted += all - held;
    }
    const uint64_t class = BT_BREAK(wrong_class_shared) ? 0 : w->is_local ? b->own_class : w->prefill_class;
    const uint32_t most = most_shared(w, w->is_local), shared = bt_kv_book_match(b->book, class, w->ids, most);
    return counted + pages_for(b, with_growth(b, w, w->generated_len)) - shared / b->cfg.page_tokens <=
           bt_kv_book_room_after(b->book, class, w->ids, most);
}

/* Pages for `tokens` rows, the prompt's at least, the first of them shared ones where its beginning is kept. Returns the rows that are in
 * place. */
static uint32_t place(dc_brain *b, dc_record *r, uint32_t tokens, bool is_here)
{
    const uint32_t shared = bt_kv_book_share(b->book, r->slot, BT_BREAK(wrong_class_shared) ? 0 : r->class, r->wish.ids, most_shared(&r->wish, is_here));
    hold(b, r, tokens);
    set_pages(b, r, false);
    return r->covered_tokens = shared;
}

uint32_t dc_memory_place_prompt(dc_brain *b, dc_record *r)
{
    const uint32_t shared = place(b, r, r->wish.prompt_tokens, r->wish.is_local);
    b->n.prompt_tokens += r->wish.prompt_tokens;
    b->n.prefix_hits += shared > 0;
    b->n.prefix_tokens += shared;
    return shared;
}

void dc_memory_keep(dc_brain *b, const dc_record *r, uint32_t rows)
{
    if (r->slot == DC_NO_SLOT) return;
    const uint32_t most = r->wish.prompt_tokens + (BT_BREAK(replay_without_prefix) && r->ids_len > 0 ? r->ids_len - 1 : 0);
    bt_kv_book_keep(b->book, r->slot, BT_BREAK(wrong_class_shared) ? 0 : r->class, r->wish.ids, rows < most ? rows : most);
}

void dc_memory_drop(dc_brain *b, dc_record *r)
{
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
    dc_memory_keep(b, r, rows);
    const bool has_rows = r->ids_len > 0 && rows >= r->wish.prompt_tokens;      /* else it was in its prefill, which is begun again */
    const uint32_t pages = pages_for(b, rows);
    assert(!has_rows || rows < r->wish.prompt_tokens + r->ids_len);
    if (has_rows && pages <= b->cfg.swap_pages - b->swap_used) {
        r->rows = rows;
        swap(b, DC_DO_SWAP_OUT, r);
        let_go(b, r);
        b->swap_used += pages;
        r->swap_pages = pages;
        b->n.swapped_out++;
    } else if (b->cfg.can_prefill && r->class == b->own_class) {
        let_go(b, r);
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
    if (r->swap_pages == 0) {
        dc_launch(b, r, place(b, r, tokens, true));
        return;
    }
    hold(b, r, tokens);                 /* all its own: rows are written from the first on */
    set_pages(b, r, false);
    swap(b, DC_DO_SWAP_IN, r);
    b->swap_used -= r->swap_pages;
    r->swap_pages = 0;
    b->n.swapped_in++;
    dc_memory_keep(b, r, r->rows);      /* its pages may have been forgotten meanwhile */
    dc_launch(b, r, r->rows);
}

/* Gives r what it waits for, if so many pages are free. Who returns wants room to grow as well, lest it leaves at once again. */
static bool serve(dc_brain *b, dc_record *r)
{
    if (r->state == DC_PREEMPTED) {
        if (pages_for(b, with_growth(b, &r->wish, r->ids_len)) > bt_kv_book_room(b->book)) return false;
        come_back(b, r);
        return true;
    }
    if (!bt_kv_book_hold(b->book, r->slot, r->need_tokens)) return false;
    set_pages(b, r, true);
    r->need_tokens = 0;
    return true;
}

static bool is_leaving(const dc_brain *b, const dc_record *r)
{
    return (r->state == DC_PREEMPTING || r->state == DC_STOPPING) && pages_of(b, r) > 0;
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
            leaving = leaving || is_leaving(b, r);
            if (dc_memory_waits(r) && (!oldest || r->age < oldest->age)) oldest = r;
            if (r->state == DC_RUNNING && (!youngest || r->age > youngest->age)) youngest = r;
        }
        if (!oldest) return;
        if (serve(b, oldest)) continue;
        if (!leaving && youngest && youngest->age > oldest->age) preempt(b, youngest);
        return;
    }
}
