/* Decides who holds which KV pages: room for a reservation, growth, shared prefixes of prompts, the swap
 * store. The rules are in brain.h, the numbers in kv/kv_book.h. */
#include "decode-node/brain/brain_inner.h"
#include "base/breakage.h"

#include <assert.h>

static uint32_t pages_for(const dc_brain *b, uint64_t tokens)
{
    return (uint32_t)((tokens + b->cfg.page_tokens - 1) / b->cfg.page_tokens);
}

uint32_t dc_memory_pages(const dc_brain *b, const dc_record *r)
{
    uint32_t len = 0;
    if (r->a->slot != BT_NO_SLOT) (void)bt_kv_book_table(b->book, r->a->slot, &len);
    return len;
}

static void set_pages(dc_brain *b, const dc_record *r, bool is_growth)
{
    dc_action *a = dc_act(b, DC_DO_SET_PAGES);
    a->u.set.slot = r->a->slot;
    a->u.set.pages = bt_kv_book_table(b->book, r->a->slot, &a->u.set.pages_len);
    a->u.set.windows = bt_kv_book_windows(b->book, r->a->slot);
    a->u.set.is_growth = is_growth;
}

/* Let r hold `tokens` rows; the caller knows that there is room. */
static void hold(dc_brain *b, const dc_record *r, uint32_t tokens)
{
    const bool has = bt_kv_book_hold(b->book, r->a->slot, tokens);
    assert(has);
    (void)has;
}

static void let_go(dc_brain *b, const dc_record *r)
{
    if (dc_memory_pages(b, r) == 0) return;
    bt_kv_book_release(b->book, r->a->slot);
    set_pages(b, r, false);
}

/* Rows that r needs in order not to ask again at once; at most the rows that it will ever have. */
static uint64_t with_growth(const dc_brain *b, const bt_msg_reserve *w, uint32_t known, bool is_cautious)
{
    const uint64_t growth = (uint64_t)known + (is_cautious ? DC_CAUTION : 1) * (uint64_t)b->cfg.growth_tokens;
    return w->prompt_tokens + (growth < w->max_tokens ? growth : w->max_tokens);
}

/* The first row of window layers that a row at `row` sees. */
static uint32_t window_begin(const dc_brain *b, uint32_t row)
{
    const uint32_t window = BT_BREAK(window_gone_early) ? 1 : b->cfg.hello.kv.window;
    return row + 1 > window ? row + 1 - window : 0;
}

static void swap(dc_brain *b, dc_action_type type, const dc_record *r)
{
    dc_action *a = dc_act(b, type);
    a->u.swap.slot = r->a->slot;
    a->u.swap.tokens = r->rows;
    a->u.swap.window_begin = b->cfg.hello.kv.window ? window_begin(b, r->rows) : 0;
}

/* The pages before those that window layers hold of a prompt when it begins. */
static uint32_t skipped(const dc_brain *b, const bt_msg_reserve *w, bool is_here)
{
    const bt_kv_shape *kv = &b->cfg.hello.kv;
    /* whatever the layer: all window layers begin alike */
    const bt_kv_shape windows = {.window = kv->window};
    return is_here ? 0 : bt_xfer_first_token(&windows, 0, w->prompt_tokens) / b->cfg.page_tokens;
}

/* ---- reservations ------------------------------------------------------------------------------- */

bool dc_memory_waits(const dc_record *r)
{
    return r->a->state == DC_PREEMPTED || (r->a->state == DC_RUNNING && r->need_tokens > 0);
}

/* Tokens of a prompt that may be shared: a prompt computed here computes at least its last token, which makes
 * token 0. */
static uint32_t most_shared(const bt_msg_reserve *w, bool is_here) { return w->prompt_tokens - is_here; }

static bt_prompt_view prompt_of(const bt_msg_reserve *w)
{
    const bt_prompt_salt salt = BT_BREAK(decode_salt_ignored) ? (bt_prompt_salt){{0}} : w->salt;
    return (bt_prompt_view){w->prompt_tokens, w->ids, w->hashes, salt};
}

uint32_t dc_memory_counted(const dc_brain *b, const dc_record *r)
{
    if (r->a->state != DC_RESERVED && r->a->state != DC_RUNNING) return 0;
    const uint32_t all = pages_for(b, with_growth(b, &r->wish, r->wish.generated_len, r->is_cautious)),
                   held = dc_memory_pages(b, r);
    return all > held ? all - held : 0;
}

bool dc_memory_is_cautious(const dc_brain *b) { return b->now_us < b->cautious_until_us; }

int64_t dc_memory_free(const dc_brain *b)
{
    return (int64_t)bt_kv_book_room(b->book) - (int64_t)b->counted_pages;
}

int64_t dc_memory_free_windows(const dc_brain *b)
{
    if (!b->cfg.hello.kv.window) return INT64_MAX;
    return (int64_t)bt_kv_book_windows_room(b->book) - (int64_t)b->counted_pages;
}

bool dc_memory_has_room(dc_brain *b, const bt_msg_reserve *w)
{
    if (b->waiting_len > 0 || b->preempting > 0) return false;
    /* Prompts are matched only where it depends on what they share. */
    const int64_t all = pages_for(b, with_growth(b, w, w->generated_len, dc_memory_is_cautious(b))),
                  free = dc_memory_free(b), windows = dc_memory_free_windows(b),
                  skip = skipped(b, w, w->is_local);
    if (all <= free && all - skip <= windows) return true;
    if (all - w->prompt_tokens / b->cfg.page_tokens > free) return false;
    const uint64_t class = BT_BREAK(wrong_class_shared) ? 0 : w->is_local ? b->own_class : w->prefill_class;
    const bt_prompt_view prompt = prompt_of(w);
    const uint32_t most = most_shared(w, w->is_local),
                   shared = bt_kv_book_match(b->book, class, &prompt, most);
    uint32_t windows_after;
    const int64_t has = shared / b->cfg.page_tokens,
                  after = bt_kv_book_room_after(b->book, class, &prompt, most, &windows_after);
    if ((int64_t)b->counted_pages + all - has > after) return false;
    return !b->cfg.hello.kv.window ||
           (int64_t)b->counted_pages + all - (has > skip ? has : skip) <= windows_after;
}

/* Gives r pages for `tokens` rows, at least the prompt's, with shared pages for its kept prefix. Returns the
 * rows in place. */
static uint32_t place(dc_brain *b, dc_record *r, uint32_t tokens, bool is_here)
{
    const bt_prompt_view prompt = prompt_of(&r->wish);
    const uint32_t shared = bt_kv_book_share(b->book, r->a->slot, BT_BREAK(wrong_class_shared) ? 0 : r->class,
                                             &prompt, most_shared(&r->wish, is_here));
    bt_kv_book_forward(b->book, r->a->slot, skipped(b, &r->wish, is_here) * b->cfg.page_tokens);
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
    if (r->a->slot == BT_NO_SLOT) return;
    bt_prompt_view prompt = prompt_of(&r->wish);
    prompt.tokens += BT_BREAK(replay_without_prefix) && r->ids_len > 0 ? r->ids_len - 1 : 0;
    bt_kv_book_keep(b->book, r->a->slot, BT_BREAK(wrong_class_shared) ? 0 : r->class, &prompt,
                    rows < prompt.tokens ? rows : prompt.tokens);
}

static void leave_swap(dc_brain *b, dc_record *r)
{
    b->swap_used -= r->swap_pages;
    b->swap_windows_used -= r->swap_windows;
    r->swap_pages = r->swap_windows = 0;
}

void dc_memory_drop(dc_brain *b, dc_record *r)
{
    let_go(b, r);
    if (r->swap_pages > 0) dc_act(b, DC_DO_DROP_SWAP)->u.slot = r->a->slot;
    leave_swap(b, r);
}

/* ---- growth, preemption, return ------------------------------------------------------------------ */

/* A sequence that replays runs rows behind its last token. */
void dc_memory_forward(dc_brain *b, const dc_record *r)
{
    if (b->cfg.hello.kv.window && !r->is_behind && r->ids_len > 0)
        bt_kv_book_forward(b->book, r->a->slot, window_begin(b, r->wish.prompt_tokens + r->ids_len - 1));
}

bool dc_memory_grow(dc_brain *b, dc_record *r)
{
    dc_memory_forward(b, r);
    if (!bt_kv_book_hold(b->book, r->a->slot, r->need_tokens)) return false;
    set_pages(b, r, true);
    r->need_tokens = 0;
    return true;
}

bool dc_memory_swap_out(dc_brain *b, dc_record *r, uint32_t rows)
{
    const uint32_t pages = pages_for(b, rows),
                   windows = b->cfg.hello.kv.window ? pages - window_begin(b, rows) / b->cfg.page_tokens : 0;
    if (pages > b->cfg.swap_pages - b->swap_used) return false;
    if (windows > b->cfg.swap_window_pages - b->swap_windows_used) return false;
    r->rows = rows;
    swap(b, DC_DO_SWAP_OUT, r);
    let_go(b, r);
    r->swap_pages = pages;
    r->swap_windows = windows;
    b->swap_used += pages;
    b->swap_windows_used += windows;
    b->n.swapped_out++;
    return true;
}

/* It also waits for room to grow, so that it does not leave again at once. */
bool dc_memory_bring_back(dc_brain *b, dc_record *r, uint32_t *ret_rows)
{
    const uint32_t tokens = r->wish.prompt_tokens + r->ids_len; /* the row of the next token too */
    const uint32_t pages = pages_for(b, with_growth(b, &r->wish, r->ids_len, r->is_cautious)),
                   begin = r->swap_pages ? window_begin(b, r->rows) : 0;
    if (pages > bt_kv_book_room(b->book)) return false;
    if (b->cfg.hello.kv.window && pages - begin / b->cfg.page_tokens > bt_kv_book_windows_room(b->book))
        return false;
    if (r->swap_pages == 0) {
        *ret_rows = place(b, r, tokens, true);
        return true;
    }
    bt_kv_book_forward(b->book, r->a->slot, begin);
    hold(b, r, tokens); /* all its own: rows are written from the first on */
    set_pages(b, r, false);
    swap(b, DC_DO_SWAP_IN, r);
    leave_swap(b, r);
    b->n.swapped_in++;
    dc_memory_keep(b, r, r->rows); /* the index may have forgotten its pages meanwhile */
    *ret_rows = r->rows;
    return true;
}
