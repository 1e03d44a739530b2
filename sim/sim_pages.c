/* See sim_pages.h. */
#include "sim/sim_pages.h"
#include "sim/sim_toy.h"

#include <stdlib.h>
#include <string.h>

enum { POISON = 0xee };

typedef struct table { uint32_t *page; uint32_t len; uint8_t *swap; uint32_t swap_tokens; } table;

struct sim_pages {
    uint32_t slots, pages, page_tokens, longest;        /* longest: pages of one slot */
    uint8_t *bytes;
    uint32_t *holders, *free_pages, free_len;
    table *slot;
};

static uint32_t pages_for(const sim_pages *p, uint32_t tokens) { return (tokens + p->page_tokens - 1) / p->page_tokens; }
static size_t page_bytes(const sim_pages *p) { return (size_t)SIM_TOY_LAYERS * p->page_tokens * SIM_TOY_ROW_BYTES; }

bt_err sim_pages_new(sim_pages **ret, uint32_t slots, uint32_t pages, uint32_t page_tokens, uint32_t ctx_tokens)
{
    sim_pages *p = calloc(1, sizeof *p);
    if (!p) return BT_ENOMEM;
    *p = (sim_pages){.slots = slots, .pages = pages, .page_tokens = page_tokens};
    p->longest = pages_for(p, ctx_tokens);
    p->bytes = malloc(pages * page_bytes(p));
    p->holders = calloc(pages, sizeof *p->holders);
    p->free_pages = calloc(pages, sizeof *p->free_pages);
    p->slot = calloc(slots, sizeof *p->slot);
    bool ok = p->bytes && p->holders && p->free_pages && p->slot;
    for (uint32_t i = 0; ok && i < slots; i++) {
        p->slot[i].page = calloc(p->longest, sizeof *p->slot[i].page);
        p->slot[i].swap = malloc(p->longest * page_bytes(p));
        ok = p->slot[i].page && p->slot[i].swap;
    }
    if (!ok) {
        sim_pages_free(p);
        return BT_ENOMEM;
    }
    memset(p->bytes, POISON, pages * page_bytes(p));
    for (; p->free_len < pages; p->free_len++) p->free_pages[p->free_len] = p->free_len;
    *ret = p;
    return BT_OK;
}

void sim_pages_free(sim_pages *p)
{
    if (!p) return;
    for (uint32_t i = 0; p->slot && i < p->slots; i++) {
        free(p->slot[i].page);
        free(p->slot[i].swap);
    }
    free(p->slot);
    free(p->bytes);
    free(p->holders);
    free(p->free_pages);
    free(p);
}

bool sim_pages_hold(sim_pages *p, uint32_t slot, uint32_t tokens)
{
    table *t = &p->slot[slot];
    const uint32_t want = pages_for(p, tokens);
    if (want > p->longest || (want > t->len && want - t->len > p->free_len)) return false;
    while (t->len < want) {
        const uint32_t page = p->free_pages[--p->free_len];
        p->holders[page] = 1;
        t->page[t->len++] = page;
    }
    return true;
}

bool sim_pages_share(sim_pages *p, uint32_t slot, uint32_t from, uint32_t tokens)
{
    table *t = &p->slot[slot];
    const table *donor = &p->slot[from];
    const uint32_t whole = tokens / p->page_tokens;
    if (t->len > 0 || tokens > sim_pages_capacity(p, from)) return false;
    for (; t->len < whole; t->len++) p->holders[t->page[t->len] = donor->page[t->len]]++;
    if (!sim_pages_hold(p, slot, tokens)) return false;
    for (uint32_t i = whole * p->page_tokens; i < tokens; i++)
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++) memcpy(sim_pages_row(p, slot, l, i), sim_pages_row(p, from, l, i), SIM_TOY_ROW_BYTES);
    return true;
}

void sim_pages_release(sim_pages *p, uint32_t slot)
{
    table *t = &p->slot[slot];
    while (t->len > 0) {
        const uint32_t page = t->page[--t->len];
        if (--p->holders[page] > 0) continue;
        memset(p->bytes + page * page_bytes(p), POISON, page_bytes(p));
        p->free_pages[p->free_len++] = page;
    }
}

static void copy(sim_pages *p, uint32_t slot, uint32_t tokens, bool is_out)
{
    uint8_t *at = p->slot[slot].swap;
    for (uint32_t t = 0; t < tokens; t++) {
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++, at += SIM_TOY_ROW_BYTES) {
            uint8_t *row = sim_pages_row(p, slot, l, t);
            memcpy(is_out ? at : row, is_out ? row : at, SIM_TOY_ROW_BYTES);
        }
    }
}

bool sim_pages_swap_out(sim_pages *p, uint32_t slot, uint32_t tokens)
{
    table *t = &p->slot[slot];
    if (t->swap_tokens > 0 || tokens == 0 || tokens > sim_pages_capacity(p, slot)) return false;
    copy(p, slot, tokens, true);
    t->swap_tokens = tokens;
    sim_pages_release(p, slot);
    return true;
}

bool sim_pages_swap_in(sim_pages *p, uint32_t slot, uint32_t tokens, uint32_t capacity_tokens)
{
    table *t = &p->slot[slot];
    if (t->len > 0 || tokens == 0 || tokens != t->swap_tokens || capacity_tokens < tokens || !sim_pages_hold(p, slot, capacity_tokens)) return false;
    copy(p, slot, tokens, false);
    return sim_pages_drop_swap(p, slot);
}

bool sim_pages_drop_swap(sim_pages *p, uint32_t slot)
{
    table *t = &p->slot[slot];
    const bool was = t->swap_tokens > 0;
    memset(t->swap, POISON, p->longest * page_bytes(p));
    t->swap_tokens = 0;
    return was;
}

uint8_t *sim_pages_row(sim_pages *p, uint32_t slot, uint32_t layer, uint32_t token)
{
    const uint32_t page = p->slot[slot].page[token / p->page_tokens];
    return p->bytes + page * page_bytes(p) + ((size_t)layer * p->page_tokens + token % p->page_tokens) * SIM_TOY_ROW_BYTES;
}

uint64_t sim_pages_digest(sim_pages *p, uint32_t slot, uint32_t tokens)
{
    uint64_t h = SIM_TOY_START;
    for (uint32_t t = 0; t < tokens; t++)
        for (uint32_t l = 0; l < SIM_TOY_LAYERS; l++) h = sim_toy_mix(h, sim_pages_row(p, slot, l, t));
    return h;
}

uint32_t sim_pages_capacity(const sim_pages *p, uint32_t slot) { return p->slot[slot].len * p->page_tokens; }
uint32_t sim_pages_used(const sim_pages *p) { return p->pages - p->free_len; }

uint32_t sim_pages_swapped(const sim_pages *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->slots; i++) n += pages_for(p, p->slot[i].swap_tokens);
    return n;
}

bool sim_pages_is_sound(const sim_pages *p)
{
    uint32_t held = 0, holders = 0;
    for (uint32_t page = 0; page < p->pages; page++) {
        uint32_t named = 0;
        for (uint32_t i = 0; i < p->slots; i++)
            for (uint32_t k = 0; k < p->slot[i].len; k++) named += p->slot[i].page[k] == page;
        if (named != p->holders[page]) return false;
        held += named > 0;
        holders += named;
    }
    return held == sim_pages_used(p) && holders >= held;
}
