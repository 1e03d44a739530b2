/* See sim_pages.h. Bytes change in sim_pages_write alone, and a slot's pages in sim_pages_set: so a slot's
 * digests stand up to the first row that was written since, and a step mixes in the rows that are new. */
#include "tests/world/sim_pages.h"
#include "tests/world/sim_toy.h"

#include <stdlib.h>
#include <string.h>

enum { POISON = 0xee };

typedef struct table {
    uint32_t *page;
    uint32_t len, salt;
    uint8_t *swap;
    uint32_t swap_tokens;
    uint64_t *digests; /* [longest pages] of rows up to each token's; the first `digested` are right */
    uint32_t digested;
} table;

struct sim_pages {
    uint32_t slots, pages, page_tokens, longest; /* longest: pages of one slot */
    uint8_t *bytes;
    uint32_t *holders, used; /* slots that have a page */
    uint32_t *salts;         /* of who wrote a page last */
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

bt_err sim_pages_new(sim_pages **ret, uint32_t slots, uint32_t pages, uint32_t page_tokens,
                     uint32_t ctx_tokens)
{
    sim_pages *p = calloc(1, sizeof *p);
    if (!p) return BT_ENOMEM;
    *p = (sim_pages){.slots = slots, .pages = pages, .page_tokens = page_tokens};
    p->longest = pages_for(p, ctx_tokens);
    p->bytes = malloc(pages * page_bytes(p));
    p->holders = calloc(pages, sizeof *p->holders);
    p->salts = calloc(pages, sizeof *p->salts);
    p->slot = calloc(slots, sizeof *p->slot);
    bool ok = p->bytes && p->holders && p->salts && p->slot;
    for (uint32_t i = 0; ok && i < slots; i++) {
        p->slot[i].page = calloc(p->longest, sizeof *p->slot[i].page);
        p->slot[i].swap = malloc(p->longest * page_bytes(p));
        p->slot[i].digests = malloc((size_t)p->longest * page_tokens * sizeof *p->slot[i].digests);
        ok = p->slot[i].page && p->slot[i].swap && p->slot[i].digests;
    }
    if (!ok) {
        sim_pages_free(p);
        return BT_ENOMEM;
    }
    memset(p->bytes, POISON, pages * page_bytes(p));
    *ret = p;
    return BT_OK;
}

void sim_pages_free(sim_pages *p)
{
    if (!p) return;
    for (uint32_t i = 0; p->slot && i < p->slots; i++) {
        free(p->slot[i].page);
        free(p->slot[i].swap);
        free(p->slot[i].digests);
    }
    free(p->slot);
    free(p->bytes);
    free(p->holders);
    free(p->salts);
    free(p);
}

bool sim_pages_set(sim_pages *p, uint32_t slot, const uint32_t *pages, uint32_t len)
{
    table *t = &p->slot[slot];
    bool ok = len <= p->longest && (len == 0 || len >= t->len);
    for (uint32_t i = 0; ok && i < len; i++) {
        ok = pages[i] < p->pages && (i >= t->len || t->page[i] == pages[i]);
        for (uint32_t k = 0; ok && k < i; k++) ok = pages[k] != pages[i];
    }
    if (!ok) return false;
    if (len == 0) t->digested = 0;
    while (len == 0 && t->len > 0) p->used -= --p->holders[t->page[--t->len]] == 0;
    for (; t->len < len; t->len++) p->used += p->holders[t->page[t->len] = pages[t->len]]++ == 0;
    return true;
}

bool sim_pages_swap_out(sim_pages *p, uint32_t slot, uint32_t tokens)
{
    table *t = &p->slot[slot];
    if (t->swap_tokens > 0 || tokens == 0 || tokens > sim_pages_capacity(p, slot)) return false;
    uint8_t *at = t->swap;
    for (uint32_t i = 0; i < tokens; i++)
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++, at += SIM_TOY_ROW_BYTES)
            memcpy(at, sim_pages_row(p, slot, l, i), SIM_TOY_ROW_BYTES);
    t->swap_tokens = tokens;
    return true;
}

bool sim_pages_swap_in(sim_pages *p, uint32_t slot, uint32_t tokens)
{
    table *t = &p->slot[slot];
    bool ok = tokens > 0 && tokens == t->swap_tokens && tokens <= sim_pages_capacity(p, slot);
    const uint8_t *at = t->swap;
    for (uint32_t i = 0; ok && i < tokens; i++)
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++, at += SIM_TOY_ROW_BYTES)
            ok = sim_pages_write(p, slot, l, i, at) && ok;
    return ok && sim_pages_drop_swap(p, slot);
}

bool sim_pages_drop_swap(sim_pages *p, uint32_t slot)
{
    table *t = &p->slot[slot];
    const bool was = t->swap_tokens > 0;
    memset(t->swap, POISON, (size_t)t->swap_tokens * SIM_TOY_LAYERS * SIM_TOY_ROW_BYTES);
    t->swap_tokens = 0;
    return was;
}

static uint8_t *row_at(const sim_pages *p, uint32_t slot, uint32_t layer, uint32_t token)
{
    const uint32_t page = p->slot[slot].page[token / p->page_tokens];
    return p->bytes + page * page_bytes(p) +
           ((size_t)layer * p->page_tokens + token % p->page_tokens) * SIM_TOY_ROW_BYTES;
}

const uint8_t *sim_pages_row(const sim_pages *p, uint32_t slot, uint32_t layer, uint32_t token)
{
    return row_at(p, slot, layer, token);
}

bool sim_pages_write(sim_pages *p, uint32_t slot, uint32_t layer, uint32_t token, const uint8_t *row)
{
    table *t = &p->slot[slot];
    const bool is_alone = p->holders[t->page[token / p->page_tokens]] == 1;
    memcpy(row_at(p, slot, layer, token), row, SIM_TOY_ROW_BYTES);
    p->salts[t->page[token / p->page_tokens]] = t->salt;
    if (token < t->digested) t->digested = token;
    for (uint32_t i = 0; !is_alone && i < p->slots; i++) p->slot[i].digested = 0;
    return is_alone;
}

void sim_pages_set_salt(sim_pages *p, uint32_t slot, uint32_t salt) { p->slot[slot].salt = salt; }

bool sim_pages_are_of_salt(const sim_pages *p, uint32_t slot, uint32_t tokens)
{
    const table *t = &p->slot[slot];
    for (uint32_t i = 0; i < pages_for(p, tokens); i++)
        if (p->salts[t->page[i]] != t->salt) return false;
    return true;
}

uint64_t sim_pages_digest(sim_pages *p, uint32_t slot, uint32_t tokens)
{
    table *t = &p->slot[slot];
    uint64_t h = t->digested ? t->digests[t->digested - 1] : SIM_TOY_START;
    for (; t->digested < tokens; t->digests[t->digested++] = h)
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++)
            h = sim_toy_mix(h, sim_pages_row(p, slot, l, t->digested));
    return tokens ? t->digests[tokens - 1] : SIM_TOY_START;
}

uint32_t sim_pages_capacity(const sim_pages *p, uint32_t slot) { return p->slot[slot].len * p->page_tokens; }
uint32_t sim_pages_used(const sim_pages *p) { return p->used; }

uint32_t sim_pages_swapped(const sim_pages *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->slots; i++) n += pages_for(p, p->slot[i].swap_tokens);
    return n;
}
