/* See sim_pages.h. Bytes change in sim_pages_write alone, and a slot's pages in sim_pages_set: so a slot's
 * digests stand up to the first row that was written since, and a step mixes in the rows that are new. */
#include "tests/world/sim_pages.h"
#include "kv/kv_book.h"
#include "tests/world/sim_toy.h"

#include <stdlib.h>
#include <string.h>

enum { POISON = 0xee };
enum { ALL, WINDOWS, CLASSES }; /* of layers, and so of pages */

typedef struct table {
    uint32_t *page[CLASSES], len, salt;
    uint8_t *swap;
    uint32_t swap_tokens, swap_gone; /* rows; those of window layers that are not there */
    uint64_t *digests; /* [longest pages] of rows of layers that see all, up to each token's; the first
                          `digested` are right */
    uint32_t digested;
} table;

typedef struct pool {
    uint32_t pages;
    uint8_t *bytes;
    uint32_t *salts; /* of who wrote a page last */
} pool;

struct sim_pages {
    bt_kv_shape shape;
    uint32_t slots, page_tokens, longest; /* longest: pages of one slot */
    pool pool[CLASSES];
    uint32_t *holders, used; /* slots that have a page of ALL */
    table *slot;
};

static uint32_t pages_for(const sim_pages *p, uint32_t tokens)
{
    return (tokens + p->page_tokens - 1) / p->page_tokens;
}
static size_t page_bytes(const sim_pages *p)
{
    return (size_t)SIM_TOY_LAYERS * p->page_tokens * SIM_TOY_ROW_BYTES;
}

static bool make_pools(sim_pages *p, const sim_pages_want *want)
{
    bool ok = true;
    for (int c = 0; c < CLASSES; c++) {
        pool *of = &p->pool[c];
        of->pages = c == WINDOWS ? want->window_pages : want->pages;
        if (of->pages == 0) continue;
        of->bytes = malloc(of->pages * page_bytes(p));
        of->salts = calloc(of->pages, sizeof *of->salts);
        ok = ok && of->bytes && of->salts;
        if (of->bytes) memset(of->bytes, POISON, of->pages * page_bytes(p));
    }
    return ok;
}

bt_err sim_pages_new(sim_pages **ret, const sim_pages_want *want)
{
    sim_pages *p = calloc(1, sizeof *p);
    if (!p) return BT_ENOMEM;
    *p = (sim_pages){.shape = want->shape, .slots = want->slots, .page_tokens = want->page_tokens};
    p->longest = pages_for(p, want->ctx_tokens);
    p->holders = calloc(want->pages, sizeof *p->holders);
    p->slot = calloc(p->slots, sizeof *p->slot);
    bool ok = make_pools(p, want) && p->holders && p->slot;
    for (uint32_t i = 0; ok && i < p->slots; i++) {
        table *t = &p->slot[i];
        for (int c = 0; c < CLASSES; c++) t->page[c] = calloc(p->longest, sizeof *t->page[c]);
        t->swap = malloc(p->longest * page_bytes(p));
        t->digests = malloc((size_t)p->longest * p->page_tokens * sizeof *t->digests);
        ok = t->page[ALL] && t->page[WINDOWS] && t->swap && t->digests;
    }
    if (!ok) {
        sim_pages_free(p);
        return BT_ENOMEM;
    }
    *ret = p;
    return BT_OK;
}

void sim_pages_free(sim_pages *p)
{
    if (!p) return;
    for (uint32_t i = 0; p->slot && i < p->slots; i++) {
        for (int c = 0; c < CLASSES; c++) free(p->slot[i].page[c]);
        free(p->slot[i].swap);
        free(p->slot[i].digests);
    }
    for (int c = 0; c < CLASSES; c++) {
        free(p->pool[c].bytes);
        free(p->pool[c].salts);
    }
    free(p->slot);
    free(p->holders);
    free(p);
}

/* Whether a slot's window pages may become these: those at the begin may go, for good. */
static bool windows_may_become(const sim_pages *p, const table *t, const uint32_t *windows, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++) {
        const bool is_gone = windows[i] == BT_KV_NO_PAGE;
        if (is_gone ? i > 0 && windows[i - 1] != BT_KV_NO_PAGE : windows[i] >= p->pool[WINDOWS].pages)
            return false;
        if (!is_gone && i < t->len && t->page[WINDOWS][i] != windows[i]) return false;
        for (uint32_t k = 0; !is_gone && k < i; k++)
            if (windows[k] == windows[i]) return false;
    }
    return true;
}

bool sim_pages_set(sim_pages *p, uint32_t slot, const uint32_t *pages, const uint32_t *windows, uint32_t len)
{
    table *t = &p->slot[slot];
    bool ok = len <= p->longest && (len == 0 || len >= t->len) && !p->shape.window == !windows;
    for (uint32_t i = 0; ok && i < len; i++) {
        ok = pages[i] < p->pool[ALL].pages && (i >= t->len || t->page[ALL][i] == pages[i]);
        for (uint32_t k = 0; ok && k < i; k++) ok = pages[k] != pages[i];
    }
    if (!ok || (windows && !windows_may_become(p, t, windows, len))) return false;
    if (windows && len) memcpy(t->page[WINDOWS], windows, len * sizeof *windows);
    if (len == 0) t->digested = 0;
    while (len == 0 && t->len > 0) p->used -= --p->holders[t->page[ALL][--t->len]] == 0;
    for (; t->len < len; t->len++) p->used += p->holders[t->page[ALL][t->len] = pages[t->len]]++ == 0;
    return true;
}

static int class_of(const sim_pages *p, uint32_t layer)
{
    return sim_toy_sees_all(&p->shape, layer) ? ALL : WINDOWS;
}

/* NULL: the row is gone. */
static uint8_t *row_at(const sim_pages *p, uint32_t slot, uint32_t layer, uint32_t token)
{
    const int class = class_of(p, layer);
    const uint32_t page = p->slot[slot].page[class][token / p->page_tokens];
    if (page == BT_KV_NO_PAGE) return NULL;
    return p->pool[class].bytes + page * page_bytes(p) +
           ((size_t)layer * p->page_tokens + token % p->page_tokens) * SIM_TOY_ROW_BYTES;
}

const uint8_t *sim_pages_row(const sim_pages *p, uint32_t slot, uint32_t layer, uint32_t token)
{
    static const uint8_t gone[SIM_TOY_ROW_BYTES] = {POISON, POISON, POISON, POISON,
                                                    POISON, POISON, POISON, POISON};
    const uint8_t *row = row_at(p, slot, layer, token);
    return row ? row : gone;
}

/* The rows before window_begin that lie in pages before its page. */
static uint32_t gone(const sim_pages *p, uint32_t window_begin)
{
    return window_begin / p->page_tokens * p->page_tokens;
}

bool sim_pages_swap_out(sim_pages *p, uint32_t slot, uint32_t tokens, uint32_t window_begin)
{
    table *t = &p->slot[slot];
    const uint32_t from = gone(p, window_begin);
    if (t->swap_tokens > 0 || tokens == 0 || tokens > sim_pages_capacity(p, slot) || from > tokens)
        return false;
    uint8_t *at = t->swap;
    for (uint32_t i = 0; i < tokens; i++)
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++, at += SIM_TOY_ROW_BYTES)
            if (class_of(p, l) == ALL || i >= from)
                memcpy(at, sim_pages_row(p, slot, l, i), SIM_TOY_ROW_BYTES);
    t->swap_tokens = tokens;
    t->swap_gone = from;
    return true;
}

bool sim_pages_swap_in(sim_pages *p, uint32_t slot, uint32_t tokens, uint32_t window_begin)
{
    table *t = &p->slot[slot];
    bool ok = tokens > 0 && tokens == t->swap_tokens && tokens <= sim_pages_capacity(p, slot) &&
              gone(p, window_begin) == t->swap_gone;
    const uint8_t *at = t->swap;
    for (uint32_t i = 0; ok && i < tokens; i++)
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++, at += SIM_TOY_ROW_BYTES)
            if (class_of(p, l) == ALL || i >= t->swap_gone) ok = sim_pages_write(p, slot, l, i, at) && ok;
    return ok && sim_pages_drop_swap(p, slot);
}

bool sim_pages_drop_swap(sim_pages *p, uint32_t slot)
{
    table *t = &p->slot[slot];
    const bool was = t->swap_tokens > 0;
    memset(t->swap, POISON, (size_t)t->swap_tokens * SIM_TOY_LAYERS * SIM_TOY_ROW_BYTES);
    t->swap_tokens = t->swap_gone = 0;
    return was;
}

bool sim_pages_write(sim_pages *p, uint32_t slot, uint32_t layer, uint32_t token, const uint8_t *row)
{
    table *t = &p->slot[slot];
    const int class = class_of(p, layer);
    const uint32_t page = t->page[class][token / p->page_tokens];
    uint8_t *at = row_at(p, slot, layer, token);
    if (!at) return false;
    memcpy(at, row, SIM_TOY_ROW_BYTES);
    p->pool[class].salts[page] = t->salt;
    const bool is_alone = class == WINDOWS || p->holders[page] == 1;
    if (class == ALL && token < t->digested) t->digested = token;
    for (uint32_t i = 0; !is_alone && i < p->slots; i++) p->slot[i].digested = 0;
    return is_alone;
}

void sim_pages_set_salt(sim_pages *p, uint32_t slot, uint32_t salt) { p->slot[slot].salt = salt; }

bool sim_pages_are_of_salt(const sim_pages *p, uint32_t slot, uint32_t tokens)
{
    const table *t = &p->slot[slot];
    for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++) {
        const int class = class_of(p, l);
        for (uint32_t i = 0; i < pages_for(p, tokens); i++) {
            const uint32_t page = t->page[class][i];
            if (page != BT_KV_NO_PAGE && p->pool[class].salts[page] != t->salt) return false;
        }
    }
    return true;
}

/* Rows of a slot, for sim_toy_seen. */
typedef struct rows {
    const sim_pages *p;
    uint32_t slot;
} rows;
static const uint8_t *row_of(const void *ud, uint32_t layer, uint32_t token)
{
    const rows *r = ud;
    return sim_pages_row(r->p, r->slot, layer, token);
}

uint64_t sim_pages_digest(sim_pages *p, uint32_t slot, uint32_t tokens)
{
    table *t = &p->slot[slot];
    uint64_t h = t->digested ? t->digests[t->digested - 1] : SIM_TOY_START;
    for (; t->digested < tokens; t->digests[t->digested++] = h)
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++)
            if (sim_toy_sees_all(&p->shape, l)) h = sim_toy_mix(h, sim_pages_row(p, slot, l, t->digested));
    return sim_toy_seen(tokens ? t->digests[tokens - 1] : SIM_TOY_START, &p->shape, tokens, row_of,
                        &(rows){p, slot});
}

uint32_t sim_pages_capacity(const sim_pages *p, uint32_t slot) { return p->slot[slot].len * p->page_tokens; }
uint32_t sim_pages_used(const sim_pages *p) { return p->used; }

uint32_t sim_pages_swapped(const sim_pages *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->slots; i++) n += pages_for(p, p->slot[i].swap_tokens);
    return n;
}

uint32_t sim_pages_swapped_windows(const sim_pages *p)
{
    uint32_t n = p->shape.window ? sim_pages_swapped(p) : 0;
    for (uint32_t i = 0; i < p->slots; i++) n -= p->slot[i].swap_gone / p->page_tokens;
    return n;
}
