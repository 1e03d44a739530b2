/* See kv_book.h. Every kept page is a node of a tree, found by (key, page before it, its tokens) in a table
 * of short chains; the key stands for the class and the salt, the page before it for all tokens before it, so
 * comparing the tokens of one page compares the whole prefix. Where a book goes by hashes, one hash stands
 * for everything but the page before.
 *
 * A sequence that holds a kept page also holds the kept pages before it: _share takes a path from the root,
 * and _keep goes on only while the path is the sequence's own. A sequence gives its pages back from the end.
 * So in the list of cached pages, oldest use first, a page comes after every longer prefix that goes through
 * it, and the list's head may always be taken. A window page hangs on one of these pages as its mate: it may
 * go at any time, and goes with it. */
#include "kv/kv_book.h"

#include "base/hash.h"
#include "base/num.h"
#include "base/rng.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PAGE_TOKENS = 256,
    MAX_SEQS = 1024,
    MAX_CHAIN = 32, /* a page that would make a chain longer is not kept, so that no choice of prompts makes
                       searches slow */
};
static const uint32_t NONE = UINT32_MAX;

/* Links are numbers of pages; `chain` and the buckets have them + 1, 0: none. */
typedef struct page {
    uint32_t before, chain; /* of kept pages. before: NONE at the beginning of a prompt; of a window page the
                               page that it is the mate of; chain: the next of its bucket */
    uint32_t older, newer;  /* in the list of cached pages; newer of a free page: the one given back before it
                             */
    uint16_t holders;
    bool is_kept;
} page;

/* windows: NULL without window layers; pages from `front` on, NONE before */
typedef struct table {
    uint32_t *pages, *windows, len, front;
} table;

/* The pages of a class. */
typedef struct pool {
    page *pages;
    uint32_t len;
    uint32_t given, given_len; /* free pages that were held before, a stack: the last one is taken first; */
    uint32_t fresh;            /* then those from here on, which never were */
    uint32_t oldest, newest, cached; /* the list of cached pages */
} pool;

struct bt_kv_book {
    bt_prompt_by by;
    uint32_t page_tokens, seqs_len, seq_pages;
    pool all;
    uint64_t *keys; /* [pages] of kept pages: class and salt; by hashes, the prefix up to its end too */
    int32_t *ids;   /* [pages][page_tokens] of kept pages; NULL by hashes */
    uint32_t *buckets, buckets_mask;
    pool windows;    /* only with mates */
    uint32_t *mates; /* [pages] of kept pages: the window page of the same tokens, + 1; 0: none. NULL: no
                        windows */
    uint32_t window_tokens;
    table *seqs;
    uint32_t *numbers, *window_numbers; /* of all tables */
};

static bt_err pool_new(pool *ret, uint32_t pages)
{
    *ret = (pool){.len = pages, .given = NONE, .oldest = NONE, .newest = NONE};
    ret->pages = calloc(pages, sizeof *ret->pages);
    return ret->pages ? BT_OK : BT_ENOMEM;
}

bt_err bt_kv_book_new(bt_kv_book **ret, uint32_t pages, uint32_t page_tokens, uint32_t seqs,
                      uint32_t seq_pages, bt_prompt_by by, bt_fault *fault)
{
    size_t ids_len, numbers_len;
    if (pages - 1u >= BT_KV_BOOK_MAX_PAGES || page_tokens - 1u >= MAX_PAGE_TOKENS || seqs - 1u >= MAX_SEQS ||
        seq_pages == 0)
        return bt_fail(fault, BT_EARG,
                       "a book of %u pages of %u tokens for %u sequences of %u pages cannot be", pages,
                       page_tokens, seqs, seq_pages);
    if (!bt_mul_size(&ids_len, pages, page_tokens) || !bt_mul_size(&numbers_len, seqs, seq_pages))
        return bt_fail(fault, BT_ENOMEM, "out of memory for a book of %u pages", pages);
    bt_kv_book *b = calloc(1, sizeof *b);
    if (!b) return bt_fail(fault, BT_ENOMEM, "out of memory for a book of %u pages", pages);
    *b = (bt_kv_book){.by = by, .page_tokens = page_tokens, .seqs_len = seqs, .seq_pages = seq_pages};
    uint32_t buckets = 1;
    while (buckets < pages) buckets *= 2;
    b->buckets_mask = buckets - 1;
    const bt_err e = pool_new(&b->all, pages);
    b->keys = calloc(pages, sizeof *b->keys);
    b->ids = by == BT_PROMPT_BY_IDS ? calloc(ids_len, sizeof *b->ids) : NULL;
    b->buckets = calloc(buckets, sizeof *b->buckets);
    b->seqs = calloc(seqs, sizeof *b->seqs);
    b->numbers = calloc(numbers_len, sizeof *b->numbers);
    const bool has_ids = b->ids || by != BT_PROMPT_BY_IDS;
    if (e < 0 || !b->keys || !has_ids || !b->buckets || !b->seqs || !b->numbers) {
        bt_kv_book_free(b);
        return bt_fail(fault, BT_ENOMEM, "out of memory for a book of %u pages", pages);
    }
    for (uint32_t i = 0; i < seqs; i++) b->seqs[i].pages = b->numbers + (size_t)i * seq_pages;
    *ret = b;
    return BT_OK;
}

bt_err bt_kv_book_add_windows(bt_kv_book *b, uint32_t pages, uint32_t window_tokens, bt_fault *fault)
{
    size_t len;
    if (pages - 1u >= BT_KV_BOOK_MAX_PAGES || window_tokens == 0 || b->mates || b->all.fresh > 0)
        return bt_fail(fault, BT_EARG, "a book of %u pages for windows of %u tokens cannot be", pages,
                       window_tokens);
    const bool fits = bt_mul_size(&len, b->seqs_len, b->seq_pages) && pool_new(&b->windows, pages) == BT_OK;
    b->window_tokens = window_tokens;
    if (fits) b->mates = calloc(b->all.len, sizeof *b->mates);
    if (fits) b->window_numbers = calloc(len, sizeof *b->window_numbers);
    if (!b->mates || !b->window_numbers)
        return bt_fail(fault, BT_ENOMEM, "out of memory for a book of %u pages", pages);
    for (uint32_t i = 0; i < b->seqs_len; i++)
        b->seqs[i].windows = b->window_numbers + (size_t)i * b->seq_pages;
    return BT_OK;
}

void bt_kv_book_free(bt_kv_book *b)
{
    if (!b) return;
    free(b->all.pages);
    free(b->windows.pages);
    free(b->mates);
    free(b->window_numbers);
    free(b->keys);
    free(b->ids);
    free(b->buckets);
    free(b->seqs);
    free(b->numbers);
    free(b);
}

/* ---- pages of a class ---- */

static void append(pool *c, uint32_t n)
{
    page *p = &c->pages[n];
    p->older = c->newest;
    p->newer = NONE;
    *(c->newest == NONE ? &c->oldest : &c->pages[c->newest].newer) = n;
    c->newest = n;
    c->cached++;
}

static void unlink_cached(pool *c, uint32_t n)
{
    const page *p = &c->pages[n];
    *(p->older == NONE ? &c->oldest : &c->pages[p->older].newer) = p->newer;
    *(p->newer == NONE ? &c->newest : &c->pages[p->newer].older) = p->older;
    c->cached--;
}

static uint32_t free_len(const pool *c) { return c->given_len + c->len - c->fresh; }
static uint32_t used_len(const pool *c) { return c->fresh - c->given_len - c->cached; }
static uint32_t room_of(const pool *c) { return free_len(c) + c->cached; }

static void give_back(pool *c, uint32_t n)
{
    c->pages[n].newer = c->given;
    c->given = n;
    c->given_len++;
}

/* Takes one holder from the page. */
static void let_go(pool *c, uint32_t n)
{
    if (--c->pages[n].holders > 0) return;
    if (c->pages[n].is_kept) append(c, n);
    else give_back(c, n);
}

static void share_page(pool *c, uint32_t n)
{
    if (c->pages[n].holders++ == 0) unlink_cached(c, n);
}

/* Parts the window page from its mate. */
static void part(bt_kv_book *b, uint32_t n)
{
    page *p = &b->windows.pages[n];
    b->mates[p->before] = 0;
    p->is_kept = false;
    if (p->holders > 0) return;
    unlink_cached(&b->windows, n);
    give_back(&b->windows, n);
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
    for (*ret_chain = 0; link; link = b->all.pages[link - 1].chain, ++*ret_chain) {
        const uint32_t n = link - 1;
        if (b->all.pages[n].before == before && b->keys[n] == m.key &&
            (!m.ids || !memcmp(ids_of(b, n), m.ids, b->page_tokens * sizeof *m.ids)))
            return n;
    }
    return NONE;
}

static void enter(bt_kv_book *b, uint32_t n, uint32_t before, mark m)
{
    page *p = &b->all.pages[n];
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
    page *p = &b->all.pages[n];
    uint32_t *at = bucket_of(b, p->before, mark_in(b, n));
    while (*at != n + 1) at = &b->all.pages[*at - 1].chain;
    *at = p->chain;
    p->is_kept = false;
    if (b->mates && b->mates[n]) part(b, b->mates[n] - 1);
}

/* A page that is free, else the cached one unused longest; the caller holds it. */
static uint32_t take(bt_kv_book *b, pool *c)
{
    uint32_t n = c->given;
    if (c->given_len == 0 && c->fresh < c->len) {
        n = c->fresh++;
    } else {
        if (c->given_len == 0) {
            n = c->oldest;
            if (c == &b->windows) {
                part(b, n);
            } else {
                unlink_cached(c, n);
                strike_out(b, n);
                give_back(c, n);
            }
        }
        c->given = c->pages[n].newer;
        c->given_len--;
    }
    c->pages[n].holders = 1;
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
    if (want > b->seq_pages || want - t->len > room_of(&b->all)) return false;
    const uint32_t from = t->front > t->len ? t->front : t->len;
    if (b->mates && want > from && want - from > room_of(&b->windows)) return false;
    for (uint32_t i = t->len; i < want; i++) t->pages[i] = take(b, &b->all);
    for (uint32_t i = t->len; b->mates && i < want; i++)
        t->windows[i] = i < t->front ? NONE : take(b, &b->windows);
    t->len = want;
    return true;
}

void bt_kv_book_forward(bt_kv_book *b, uint32_t seq, uint32_t row)
{
    table *t = table_of(b, seq);
    for (const uint32_t front = row / b->page_tokens; b->mates && t->front < front; t->front++) {
        if (t->front >= t->len) continue;
        let_go(&b->windows, t->windows[t->front]);
        t->windows[t->front] = NONE;
    }
}

void bt_kv_book_release(bt_kv_book *b, uint32_t seq)
{
    table *t = table_of(b, seq);
    while (t->len > 0) {
        let_go(&b->all, t->pages[--t->len]);
        if (b->mates && t->len >= t->front) let_go(&b->windows, t->windows[t->len]);
    }
    t->front = 0;
}

const uint32_t *bt_kv_book_table(const bt_kv_book *b, uint32_t seq, uint32_t *ret_len)
{
    const table *t = table_of(b, seq);
    *ret_len = t->len;
    return t->pages;
}

const uint32_t *bt_kv_book_windows(const bt_kv_book *b, uint32_t seq) { return table_of(b, seq)->windows; }

/* The kept page after `before`, for the tokens from `done` on; NONE where there is no whole page of them
 * or it is not kept. */
static uint32_t next_page(const bt_kv_book *b, uint64_t key, uint32_t before, const bt_prompt_view *prompt,
                          uint32_t done, uint32_t len)
{
    uint32_t chain;
    if (len - done < b->page_tokens || done / b->page_tokens >= b->seq_pages) return NONE;
    return find(b, before, mark_of(b, key, prompt, done), &chain);
}

/* A kept prefix in pages, and the pages from which on it has all mates. */
typedef struct prefix {
    uint32_t len, from;
} prefix;

/* The longest prefix. With windows it ends where the window before its end has mates: later rows see no more.
 */
static prefix longest(const bt_kv_book *b, uint64_t key, const bt_prompt_view *prompt, uint32_t len)
{
    prefix best = {0, 0};
    uint32_t mates = 0, n = NONE;
    for (uint32_t i = 1; (n = next_page(b, key, n, prompt, (i - 1) * b->page_tokens, len)) != NONE; i++) {
        if (b->mates) mates = b->mates[n] ? mates + 1 : 0;
        if (!b->mates || mates == i || (uint64_t)mates * b->page_tokens >= b->window_tokens)
            best = (prefix){i, b->mates ? i - mates : 0};
    }
    return best;
}

uint32_t bt_kv_book_match(const bt_kv_book *b, uint64_t class, const bt_prompt_view *prompt, uint32_t len)
{
    return longest(b, bt_prompt_salted(class, &prompt->salt), prompt, len).len * b->page_tokens;
}

uint32_t bt_kv_book_share(bt_kv_book *b, uint32_t seq, uint64_t class, const bt_prompt_view *prompt,
                          uint32_t len)
{
    const uint64_t key = bt_prompt_salted(class, &prompt->salt);
    const prefix p = b->mates ? longest(b, key, prompt, len) : (prefix){UINT32_MAX, 0};
    table *t = table_of(b, seq);
    uint32_t done = 0, n = NONE;
    assert(t->len == 0);
    t->front = p.from;
    while (t->len < p.len && (n = next_page(b, key, n, prompt, done, len)) != NONE) {
        share_page(&b->all, n);
        if (b->mates) t->windows[t->len] = t->len < p.from ? NONE : b->mates[n] - 1;
        if (b->mates && t->len >= p.from) share_page(&b->windows, b->mates[n] - 1);
        t->pages[t->len++] = n;
        done += b->page_tokens;
    }
    return done;
}

/* Page i of t becomes the mate of the kept page n, if that has none. */
static void marry(bt_kv_book *b, uint32_t n, const table *t, uint32_t i)
{
    if (!b->mates || b->mates[n] || i < t->front) return;
    page *p = &b->windows.pages[t->windows[i]];
    if (p->is_kept) return;
    p->is_kept = true;
    p->before = n;
    b->mates[n] = t->windows[i] + 1;
}

void bt_kv_book_keep(bt_kv_book *b, uint32_t seq, uint64_t class, const bt_prompt_view *prompt,
                     uint32_t tokens)
{
    const uint64_t key = bt_prompt_salted(class, &prompt->salt);
    const table *t = table_of(b, seq);
    uint32_t before = NONE, chain;
    bool is_others = false;
    for (uint32_t i = 0; i < t->len && i < tokens / b->page_tokens; i++) {
        const mark m = mark_of(b, key, prompt, i * b->page_tokens);
        const uint32_t n = t->pages[i], found = find(b, before, m, &chain);
        if (found == NONE && (is_others || b->all.pages[n].is_kept || chain >= MAX_CHAIN)) return;
        if (found == NONE) enter(b, n, before, m);
        else if (found != n) is_others = true;
        if (is_others && !b->mates) return;
        before = is_others ? found : n;
        marry(b, before, t, i);
    }
}

/* ---- counts ---- */

uint32_t bt_kv_book_used(const bt_kv_book *b) { return used_len(&b->all); }
uint32_t bt_kv_book_cached(const bt_kv_book *b) { return b->all.cached; }
uint32_t bt_kv_book_room(const bt_kv_book *b) { return room_of(&b->all); }
uint32_t bt_kv_book_windows_used(const bt_kv_book *b) { return used_len(&b->windows); }
uint32_t bt_kv_book_windows_cached(const bt_kv_book *b) { return b->windows.cached; }
uint32_t bt_kv_book_windows_room(const bt_kv_book *b) { return room_of(&b->windows); }

uint32_t bt_kv_book_room_after(const bt_kv_book *b, uint64_t class, const bt_prompt_view *prompt,
                               uint32_t len, uint32_t *ret_windows)
{
    const uint64_t key = bt_prompt_salted(class, &prompt->salt);
    const prefix p = b->mates ? longest(b, key, prompt, len) : (prefix){UINT32_MAX, 0};
    uint32_t room = room_of(&b->all), windows = room_of(&b->windows), n = NONE;
    for (uint32_t i = 0; i < p.len && (n = next_page(b, key, n, prompt, i * b->page_tokens, len)) != NONE;
         i++) {
        room -= b->all.pages[n].holders == 0;
        if (b->mates && i >= p.from) windows -= b->windows.pages[b->mates[n] - 1].holders == 0;
    }
    *ret_windows = windows;
    return room;
}

/* Each page of the class has as many holders as tables name it; scratch[n] is that number. */
static bool holders_agree(const bt_kv_book *b, const pool *c, uint32_t *scratch)
{
    uint32_t given = 0, held = 0;
    memset(scratch, 0, c->len * sizeof *scratch);
    for (uint32_t i = 0; i < b->seqs_len; i++)
        for (uint32_t k = c == &b->all ? 0 : b->seqs[i].front; k < b->seqs[i].len; k++)
            scratch[c == &b->all ? b->seqs[i].pages[k] : b->seqs[i].windows[k]]++;
    for (uint32_t n = 0; n < c->len; n++) {
        held += c->pages[n].holders > 0;
        if (scratch[n] != c->pages[n].holders || (n >= c->fresh && (scratch[n] || c->pages[n].is_kept)))
            return false;
    }
    for (uint32_t n = c->given; n != NONE && given <= c->given_len; n = c->pages[n].newer, given++)
        if (n >= c->fresh || c->pages[n].holders > 0 || c->pages[n].is_kept || scratch[n]++ > 0) return false;
    return given == c->given_len && held == used_len(c);
}

/* Every mate names its page and is in the list of cached ones if nobody holds it. */
static bool mates_agree(const bt_kv_book *b)
{
    uint32_t mates = 0, kept = 0, cached = 0, listed = 0;
    for (uint32_t n = 0; n < b->all.len; n++) {
        if (!b->mates[n]) continue;
        const page *p = &b->windows.pages[b->mates[n] - 1];
        if (!b->all.pages[n].is_kept || !p->is_kept || p->before != n) return false;
        mates++;
    }
    for (uint32_t n = 0; n < b->windows.len; n++) {
        kept += b->windows.pages[n].is_kept;
        cached += b->windows.pages[n].is_kept && b->windows.pages[n].holders == 0;
    }
    for (uint32_t n = b->windows.oldest; n != NONE && listed <= cached;
         n = b->windows.pages[n].newer, listed++)
        if (b->windows.pages[n].holders || !b->windows.pages[n].is_kept) return false;
    return mates == kept && cached == listed && cached == b->windows.cached;
}

/* Every kept page is found, the page before it is kept, and is cached after it; scratch[n] is its place in
 * the list. */
static bool index_agrees(const bt_kv_book *b, uint32_t *scratch)
{
    uint32_t listed = 0, cached = 0, chain;
    memset(scratch, 0, b->all.len * sizeof *scratch);
    for (uint32_t n = b->all.oldest; n != NONE; n = b->all.pages[n].newer) {
        if (scratch[n] || b->all.pages[n].holders || !b->all.pages[n].is_kept) return false;
        scratch[n] = ++listed;
    }
    for (uint32_t n = 0; n < b->all.len; n++) {
        const page *p = &b->all.pages[n];
        if (!p->is_kept) continue;
        cached += p->holders == 0;
        if (find(b, p->before, mark_in(b, n), &chain) != n) return false;
        if (p->before == NONE) continue;
        if (!b->all.pages[p->before].is_kept || (b->ids && b->keys[p->before] != b->keys[n])) return false;
        if (scratch[p->before] && (!scratch[n] || scratch[n] > scratch[p->before])) return false;
    }
    return listed == cached && listed == b->all.cached;
}

bool bt_kv_book_is_sound(const bt_kv_book *b)
{
    const uint32_t most = b->all.len > b->windows.len ? b->all.len : b->windows.len;
    uint32_t *scratch = calloc(most, sizeof *scratch);
    const bool agrees =
        !scratch || (holders_agree(b, &b->all, scratch) && index_agrees(b, scratch) &&
                     (!b->mates || (holders_agree(b, &b->windows, scratch) && mates_agree(b))));
    free(scratch);
    return agrees;
}
