/* The prefill brain's KV pages: how many each prompt may hold, which it shares with earlier prompts, which
 * are kept. */
#include "prefill-node/brain/brain_inner.h"

#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bt_err pf_pages_new(pf_brain *b, bt_fault *fault)
{
    const pf_config *c = &b->cfg;
    const uint32_t longest =
        (uint32_t)(((uint64_t)c->hello.ctx_tokens + c->page_tokens - 1) / c->page_tokens);
    b->class = bt_hash64(c->hello.exactness, strlen(c->hello.exactness));
    b->counted = calloc(c->pages_total, sizeof *b->counted);
    if (!b->counted) return bt_fail(fault, BT_ENOMEM, "prefill node: out of memory");
    bt_err e = bt_kv_book_new(&b->book, c->pages_total, c->page_tokens, c->slots, longest, c->prompts, fault);
    if (e == BT_OK && c->hello.kv.window)
        e = bt_kv_book_add_windows(b->book, c->pages_total, c->hello.kv.window, fault);
    return e;
}

void pf_pages_free(pf_brain *b)
{
    bt_kv_book_free(b->book);
    free(b->counted);
}

/* How many pages the prompts for this decode node hold, shared ones counted once. */
static uint32_t held_for(pf_brain *b, const bt_incarnation *decode)
{
    uint32_t held = 0;
    b->counts++;
    for (const pf_record *r = NULL; (r = pf_next(b, r));) {
        if (r->a->slot == BT_NO_SLOT || !bt_incarnation_equal(&r->decode, decode)) continue;
        uint32_t len;
        const uint32_t *pages = bt_kv_book_table(b->book, r->a->slot, &len);
        for (uint32_t k = 0; k < len; k++) {
            held += b->counted[pages[k]] != b->counts;
            b->counted[pages[k]] = b->counts;
        }
    }
    return held;
}

uint32_t pf_pages_lacks(const pf_brain *b, const bt_prompt_view *prompt)
{
    return prompt->tokens - bt_kv_book_match(b->book, b->class, prompt, prompt->tokens - 1);
}

/* The last token's row is always computed: token 0 comes from it. */
static void share(pf_brain *b, pf_record *r)
{
    r->from_row = bt_kv_book_share(b->book, r->a->slot, b->class, &r->prompt, r->prompt.tokens - 1);
}

bool pf_pages_take(pf_brain *b, pf_record *r, const char **ret_why)
{
    const uint32_t pages =
        (uint32_t)(((uint64_t)r->prompt.tokens + b->cfg.page_tokens - 1) / b->cfg.page_tokens);
    const bool is_alone = bt_kv_book_used(b->book) == 0;
    share(b, r);
    const uint64_t held = (uint64_t)held_for(b, &r->decode) + pages - r->from_row / b->cfg.page_tokens;
    if (!is_alone && held > b->cfg.pages_total / 2)
        *ret_why = "prompts for this decode node would hold more than half of the KV pages";
    else if (!bt_kv_book_hold(b->book, r->a->slot, r->prompt.tokens)) *ret_why = "too few KV pages are free";
    else return true;
    return false;
}

void pf_pages_look_again(pf_brain *b, pf_record *r)
{
    if (bt_kv_book_match(b->book, b->class, &r->prompt, r->prompt.tokens - 1) <= r->from_row) return;
    bt_kv_book_release(b->book, r->a->slot);
    share(b, r);
    /* at most what it has just given back */
    const bool has_room = bt_kv_book_hold(b->book, r->a->slot, r->prompt.tokens);
    assert(has_room);
    (void)has_room;
}

void pf_pages_keep(pf_brain *b, const pf_record *r)
{
    bt_kv_book_keep(b->book, r->a->slot, b->class, &r->prompt, bt_xfer_send_whole(&b->sends[r->a->slot]));
}
