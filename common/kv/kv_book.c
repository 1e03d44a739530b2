/* See kv_book.h. Every kept page is a node of a tree, found by (key, page before it, its tokens) in a table
 * of short chains; the key stands for the class and the salt, the page before it for all tokens before it, so
 * comparing the tokens of one page compares the whole prefix. Where a book goes by hashes, one hash stands
 * for everything but the page before.
 *
 * A sequence that holds a kept page also holds the kept pages before it: _share takes a path from the root,
 * and _keep goes on only while the path is the sequence's own. A sequence gives its pages back from the end.
 * So in the list of cached pages, oldest use first, a page comes after every longer prefix that goes through
 * it, and the list's head may always be taken. */
#include "kv/kv_book.h"

#include "base/hash.h"
#include "base/num.h"
#include "base/rng.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PAGES = 1 << 24,
    MAX_PAGE_TOKENS = 256,
    MAX_SEQS = 1024,
    MAX_CHAIN = 32, /* a page that would make a chain longer is not kept, so that no choice of prompts makes
                       searches slow */
};
static const uint32_t NONE = UINT32_MAX;

/* Links are numbers of pages; `chain` and the buckets have them + 1, 0: none. */
typedef struct page {
    uint32_t before, chain; /* of kept pages. before: NONE at the beginning of a prompt; the next of its
                               bucket */
    uint32_t older, newer;  /* in the list of cached pages; newer of a free page: the one given back before it
                             */
    uint16_t holders;
    bool is_kept;
} page;

typedef struct table {
    uint32_t *pages, len;
} table;

struct bt_kv_book {
    bt_prompt_by by;
    uint32_t pages_len, page_tokens, seqs_len, seq_pages;
    page *pages;
    uint64_t *keys; /* [pages] of kept pages: class and salt; by hashes, the prefix up to its end too */
    int32_t *ids;   /* [pages][page_tokens] of kept pages; NULL by hashes */
    uint32_t *buckets, buckets_mask;
    uint32_t given, given_len; /* free pages that were held before, a stack: the last one is taken first; */
    uint32_t fresh;            /* then those from here on, which never were */
    uint32_t oldest, newest, cached; /* the list of cached pages */
    table *seqs;
    uint32_t *numbers; /* of all tables */
};

bt_err bt_kv_book_new(bt_kv_book **ret, uint32_t pages, uint32_t page_tokens, uint32_t seqs,
                      uint32_t seq_pages, bt_prompt_by by, bt_fault *fault)
{
    size_t ids_len, numbers_len;
    if (pages - 1u >= MAX_PAGES || page_tokens - 1u >= MAX_PAGE_TOKENS || seqs - 1u >= MAX_SEQS ||
        seq_pages == 0)
        return bt_fail(fault, BT_EARG,
                       "a book of %u pages of %u tokens for %u sequences of %u pages cannot be", pages,
                       page_tokens, seqs, seq_pages);
    if (!bt_mul_size(&ids_len, pages, page_tokens) || !bt_mul_size(&numbers_len, seqs, seq_pages))
        return bt_fail(fault, BT_ENOMEM, "out of memory for a book of %u pages", pages);
    bt_kv_book *b = calloc(1, sizeof *b);
    if (!b) return bt_fail(fault, BT_ENOMEM, "out of memory for a book of %u pages", pages);
    *b = (bt_kv_book){.by = by,         .pages_len = pages,     .page_tokens = page_tokens,
                      .seqs_len = seqs, .seq_pages = seq_pages, .given = NONE,
                      .oldest = NONE,   .newest = NONE};
    uint32_t buckets = 1;
    while (buckets < pages) buckets *= 2;
    b->buckets_mask = buckets - 1;
    b->pages = calloc(pages, sizeof *b->pages);
    b->keys = calloc(pages, sizeof *b->keys);
    b->ids = by == BT_PROMPT_BY_IDS ? calloc(ids_len, sizeof *b->ids) : NULL;
    b->buckets = calloc(buckets, sizeof *b->buckets);
    b->seqs = calloc(seqs, sizeof *b->seqs);
    b->numbers = calloc(numbers_len, sizeof *b->numbers);
    const bool has_ids = b->ids || by != BT_PROMPT_BY_IDS;
    if (!b->pages || !b->keys || !has_ids || !b->buckets || !b->seqs || !b->numbers) {
        bt_kv_book_free(b);
        return bt_fail(fault, BT_ENOMEM, "out of memory for a book of %u pages", pages);
    }
    for (uint32_t i = 0; i < seqs; i++) b->seqs[i].pages = b->numbers + (size_t)i * seq_pages;
    *ret = b;
    return BT_OK;
}

void bt_kv_book_free(bt_kv_book *b)
{
    if (!b) return;
    free(b->pages);
    free(b->keys);
    free(b->ids);
    free(b->buckets);
    free(b->seqs);
    free(b->numbers);
    free(b);
}

/* ---- the index ---- */

static int32_t *ids_of(const bt_kv_book *b, uint32_t n) { return b->ids + (size_t)n * b->page_tokens; }

/* The key of a page, beside the page before it. */
typedef struct mark {
    uint64_t key;
    const int32_t *ids; /* its own; NULL by hashes */
} mark;

/* The mark of the page of tokens from `done` on; key: of the class and the prompt's salt. */
static mark mark_of(const bt_kv_book *b, uint64_t key, const bt_prompt_view *prompt, uint32_t done)
{
    if (b->by == BT_PROMPT_BY_IDS) return (mark){key, prompt->ids + done};
    return (mark){bt_rng_u64(key, bt_prompt_prefix(prompt, done + b->page_tokens)), NULL};
}

static mark mark_in(const bt_kv_book *b, uint32_t n)
{
    return (mark){b->keys[n], b->ids ? ids_of(b, n) : NULL};
}

static uint32_t *bucket_of(const bt_kv_book *b, uint32_t before, mark m)
{
    uint64_t h = m.ids ? bt_hash64(m.ids, b->page_tokens * sizeof *m.ids) : 0;
    h += (m.key ^ before) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    return &b->buckets[(h ^ h >> 32) & b->buckets_mask];
}

static uint32_t find(const bt_kv_book *b, uint32_t before, mark m, uint32_t *ret_chain)
{
    uint32_t link = *bucket_of(b, before, m);
    for (*ret_chain = 0; link; link = b->pages[link - 1].chain, ++*ret_chain) {
        const uint32_t n = link - 1;
        if (b->pages[n].before == before && b->keys[n] == m.key &&
            (!m.ids || !memcmp(ids_of(b, n), m.ids, b->page_tokens * sizeof *m.ids)))
            return n;
    }
    return NONE;
}

static void enter(bt_kv_book *b, uint32_t n, uint32_t before, mark m)
{
    page *p = &b->pages[n];
    uint32_t *bucket = bucket_of(b, before, m);
    if (m.ids) memcpy(ids_of(b, n), m.ids, b->page_tokens * sizeof *m.ids);
    b->keys[n] = m.key;
    p->before = before;
    p->chain = *bucket;
    p->is_kept = true;
    *bucket = n + 1;
}

static void strike_out(bt_kv_book *b, uint32_t n)
{
    page *p = &b->pages[n];
    uint32_t *at = bucket_of(b, p->before, mark_in(b, n));
    while (*at != n + 1) at = &b->pages[*at - 1].chain;
    *at = p->chain;
    p->is_kept = false;
}

/* ---- cached pages ---- */

static void append(bt_kv_book *b, uint32_t n)
{
    page *p = &b->pages[n];
    p->older = b->newest;
    p->newer = NONE;
    *(b->newest == NONE ? &b->oldest : &b->pages[b->newest].newer) = n;
    b->newest = n;
    b->cached++;
}

static void unlink_cached(bt_kv_book *b, uint32_t n)
{
    const page *p = &b->pages[n];
    *(p->older == NONE ? &b->oldest : &b->pages[p->older].newer) = p->newer;
    *(p->newer == NONE ? &b->newest : &b->pages[p->newer].older) = p->older;
    b->cached--;
}

static uint32_t free_len(const bt_kv_book *b) { return b->given_len + b->pages_len - b->fresh; }

static void give_back(bt_kv_book *b, uint32_t n)
{
    b->pages[n].newer = b->given;
    b->given = n;
    b->given_len++;
}

static uint32_t take(bt_kv_book *b)
{
    if (b->given_len > 0) {
        const uint32_t n = b->given;
        b->given = b->pages[n].newer;
        b->given_len--;
        return n;
    }
    if (b->fresh < b->pages_len) return b->fresh++;
    const uint32_t n = b->oldest;
    unlink_cached(b, n);
    strike_out(b, n);
    return n;
}

/* ---- sequences ---- */

static table *table_of(const bt_kv_book *b, uint32_t seq)
{
    assert(seq < b->seqs_len);
    return &b->seqs[seq];
}

bool bt_kv_book_hold(bt_kv_book *b, uint32_t seq, uint32_t tokens)
{
    table *t = table_of(b, seq);
    const uint32_t want = (uint32_t)(((uint64_t)tokens + b->page_tokens - 1) / b->page_tokens);
    if (want <= t->len) return true;
    if (want > b->seq_pages || want - t->len > bt_kv_book_room(b)) return false;
    while (t->len < want) {
        const uint32_t n = take(b);
        b->pages[n].holders = 1;
        t->pages[t->len++] = n;
    }
    return true;
}

void bt_kv_book_release(bt_kv_book *b, uint32_t seq)
{
    table *t = table_of(b, seq);
    while (t->len > 0) {
        const uint32_t n = t->pages[--t->len];
        if (--b->pages[n].holders > 0) continue;
        if (b->pages[n].is_kept) append(b, n);
        else give_back(b, n);
    }
}

const uint32_t *bt_kv_book_table(const bt_kv_book *b, uint32_t seq, uint32_t *ret_len)
{
    const table *t = table_of(b, seq);
    *ret_len = t->len;
    return t->pages;
}

/* The kept page after `before`, for the tokens from `done` on; NONE where there is no whole page of them
 * or it is not kept. */
static uint32_t next_page(const bt_kv_book *b, uint64_t key, uint32_t before, const bt_prompt_view *prompt,
                          uint32_t done, uint32_t len)
{
    uint32_t chain;
    if (len - done < b->page_tokens || done / b->page_tokens >= b->seq_pages) return NONE;
    return find(b, before, mark_of(b, key, prompt, done), &chain);
}

uint32_t bt_kv_book_match(const bt_kv_book *b, uint64_t class, const bt_prompt_view *prompt, uint32_t len)
{
    const uint64_t key = bt_prompt_salted(class, &prompt->salt);
    uint32_t done = 0, n = NONE;
    while ((n = next_page(b, key, n, prompt, done, len)) != NONE) done += b->page_tokens;
    return done;
}

uint32_t bt_kv_book_share(bt_kv_book *b, uint32_t seq, uint64_t class, const bt_prompt_view *prompt,
                          uint32_t len)
{
    const uint64_t key = bt_prompt_salted(class, &prompt->salt);
    table *t = table_of(b, seq);
    uint32_t done = 0, n = NONE;
    assert(t->len == 0);
    while ((n = next_page(b, key, n, prompt, done, len)) != NONE) {
        if (b->pages[n].holders++ == 0) unlink_cached(b, n);
        t->pages[t->len++] = n;
        done += b->page_tokens;
    }
    return done;
}

void bt_kv_book_keep(bt_kv_book *b, uint32_t seq, uint64_t class, const bt_prompt_view *prompt,
                     uint32_t tokens)
{
    const uint64_t key = bt_prompt_salted(class, &prompt->salt);
    const table *t = table_of(b, seq);
    uint32_t before = NONE, chain;
    for (uint32_t i = 0; i < t->len && i < tokens / b->page_tokens; i++) {
        const mark m = mark_of(b, key, prompt, i * b->page_tokens);
        const uint32_t n = t->pages[i], found = find(b, before, m, &chain);
        if (found == NONE && (b->pages[n].is_kept || chain >= MAX_CHAIN)) return;
        if (found == NONE) enter(b, n, before, m);
        else if (found != n) return;
        before = n;
    }
}

/* ---- counts ---- */

uint32_t bt_kv_book_used(const bt_kv_book *b) { return b->fresh - b->given_len - b->cached; }
uint32_t bt_kv_book_cached(const bt_kv_book *b) { return b->cached; }
uint32_t bt_kv_book_room(const bt_kv_book *b) { return free_len(b) + b->cached; }

uint32_t bt_kv_book_room_after(const bt_kv_book *b, uint64_t class, const bt_prompt_view *prompt,
                               uint32_t len)
{
    const uint64_t key = bt_prompt_salted(class, &prompt->salt);
    uint32_t room = bt_kv_book_room(b), done = 0, n = NONE;
    while ((n = next_page(b, key, n, prompt, done, len)) != NONE) {
        room -= b->pages[n].holders == 0;
        done += b->page_tokens;
    }
    return room;
}

/* Each page has as many holders as tables name it; scratch[n] is that number. */
static bool holders_agree(const bt_kv_book *b, uint32_t *scratch)
{
    uint32_t given = 0;
    for (uint32_t i = 0; i < b->seqs_len; i++)
        for (uint32_t k = 0; k < b->seqs[i].len; k++) scratch[b->seqs[i].pages[k]]++;
    for (uint32_t n = 0; n < b->pages_len; n++)
        if (scratch[n] != b->pages[n].holders || (n >= b->fresh && (scratch[n] || b->pages[n].is_kept)))
            return false;
    for (uint32_t n = b->given; n != NONE; n = b->pages[n].newer, given++)
        if (n >= b->fresh || b->pages[n].holders > 0 || b->pages[n].is_kept || scratch[n]++ > 0) return false;
    return given == b->given_len;
}

/* Every kept page is found, the page before it is kept, and is cached after it; scratch[n] is its place in
 * the list. */
static bool index_agrees(const bt_kv_book *b, uint32_t *scratch)
{
    uint32_t listed = 0, cached = 0, chain;
    memset(scratch, 0, b->pages_len * sizeof *scratch);
    for (uint32_t n = b->oldest; n != NONE; n = b->pages[n].newer) {
        if (scratch[n] || b->pages[n].holders || !b->pages[n].is_kept) return false;
        scratch[n] = ++listed;
    }
    for (uint32_t n = 0; n < b->pages_len; n++) {
        const page *p = &b->pages[n];
        if (!p->is_kept) continue;
        cached += p->holders == 0;
        if (find(b, p->before, mark_in(b, n), &chain) != n) return false;
        if (p->before == NONE) continue;
        if (!b->pages[p->before].is_kept || (b->ids && b->keys[p->before] != b->keys[n])) return false;
        if (scratch[p->before] && (!scratch[n] || scratch[n] > scratch[p->before])) return false;
    }
    return listed == cached && listed == b->cached;
}

bool bt_kv_book_is_sound(const bt_kv_book *b)
{
    uint32_t held = 0, *scratch = calloc(b->pages_len, sizeof *scratch);
    const bool agrees = !scratch || (holders_agree(b, scratch) && index_agrees(b, scratch));
    free(scratch);
    for (uint32_t n = 0; n < b->pages_len; n++) held += b->pages[n].holders > 0;
    return agrees && held == bt_kv_book_used(b);
}
