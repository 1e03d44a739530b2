/* One mapping holds all pages. A bitmap says which are free; each page knows its sequence: giving back a page
 * that one does not hold is a bug of ours and stops the process. */
#include "kv/kv_pages.h"

#include "base/memory.h"
#include "base/num.h"
#include "kv/kv_header.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct bt_kv_pages {
    bt_kv_view shape; /* strides and sizes; page and tokens_capacity unused */
    size_t page_bytes, total, used;
    uint8_t *memory; /* [total] pages */
    size_t memory_bytes;
    uint64_t *free_bits; /* bit set: page is free */
    size_t first_word;   /* no free page in any word before it */
    uint64_t *owner;     /* [total] id of the sequence that has it; 0 when free */
    uint64_t seqs;       /* that have had an id */
};

bt_err bt_kv_pages_longest(size_t *ret, size_t wanted, size_t model_tokens, uint64_t memory_bytes,
                           uint64_t token_bytes, bt_fault *fault)
{
    size_t n = wanted ? wanted : model_tokens;
    if (n > model_tokens)
        return bt_fail(fault, BT_ELIMIT,
                       "a context of %zu tokens, but the model has %zu: ask for less (--ctx-size)", n,
                       model_tokens);
    if (!wanted && memory_bytes) {
        const uint64_t held =
            memory_bytes / token_bytes / BT_KV_PAGES_USUAL_TOKENS * BT_KV_PAGES_USUAL_TOKENS;
        if (held == 0)
            return bt_fail(fault, BT_ELIMIT,
                           "%llu bytes of KV memory hold not even %d tokens: give more (--kv-memory)",
                           (unsigned long long)memory_bytes, BT_KV_PAGES_USUAL_TOKENS);
        if (held < n) n = (size_t)held;
    }
    *ret = n;
    return BT_OK;
}

bt_err bt_kv_pages_new(bt_kv_pages **ret, uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
                       uint32_t elem_bytes, size_t page_tokens, size_t capacity_tokens, bt_fault *fault)
{
    if (layers - 1u >= BT_KV_MAX_LAYERS || kv_heads - 1u >= BT_KV_MAX_HEADS ||
        head_dim - 1u >= BT_KV_MAX_HEAD_DIM || (elem_bytes != 1 && elem_bytes != 2 && elem_bytes != 4))
        return bt_fail(fault, BT_EARG, "kv pages: no shape %u layers x %u heads x %u elements of %u bytes",
                       layers, kv_heads, head_dim, elem_bytes);
    if (elem_bytes == 1 && head_dim % 2)
        return bt_fail(fault, BT_EARG, "kv pages: int8 KV needs heads of an even number of elements, not %u",
                       head_dim);
    if (page_tokens == 0 || page_tokens > 256 || (page_tokens & (page_tokens - 1)))
        return bt_fail(fault, BT_EARG, "kv pages: page_tokens %zu is not a power of two up to 256",
                       page_tokens);
    if (capacity_tokens == 0) return bt_fail(fault, BT_EARG, "kv pages: capacity of 0 tokens");

    bt_kv_view v = {.page_tokens = page_tokens, .elem_bytes = elem_bytes, .layers = layers,
                    .kv_heads = kv_heads, .head_dim = head_dim};
    v.head_bytes = bt_kv_head_bytes(elem_bytes, head_dim);
    v.token_bytes = kv_heads * v.head_bytes;
    v.plane_bytes = page_tokens * v.token_bytes;
    v.layer_bytes = 2 * v.plane_bytes;
    /* the limits above keep a layer under 2^28 bytes, a page under 2^36: more than 32 bits address */
    const uint64_t page = (uint64_t)layers * v.layer_bytes;
    const size_t page_bytes = ((size_t)page + 63) & ~(size_t)63;
    const size_t total = (capacity_tokens - 1) / page_tokens + 1;
    size_t memory_bytes;
    if (page > SIZE_MAX - 63 || total > UINT32_MAX || !bt_mul_size(&memory_bytes, total, page_bytes))
        return bt_fail(fault, BT_ELIMIT, "kv pages: %zu tokens do not fit the address space",
                       capacity_tokens);

    bt_kv_pages *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory for KV pages");
    *p = (bt_kv_pages){.shape = v, .page_bytes = page_bytes, .total = total, .memory_bytes = memory_bytes};
    p->free_bits = calloc((total + 63) / 64, sizeof *p->free_bits);
    p->owner = calloc(total, sizeof *p->owner);
    if (!p->free_bits || !p->owner) {
        bt_kv_pages_free(p);
        return bt_fail(fault, BT_ENOMEM, "out of memory for tables of %zu KV pages", total);
    }
    void *m =
        mmap(NULL, memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) {
        const int err = errno;
        bt_kv_pages_free(p);
        return bt_fail(fault, BT_ENOMEM,
                       "cannot map %zu MiB for KV pages: %s; a smaller --kv-memory needs less",
                       memory_bytes >> 20, strerror(err));
    }
    (void)madvise(m, memory_bytes, MADV_HUGEPAGE); /* pages are taken from the lowest on: few more bytes, far
                                                      fewer faults and TLB misses */
    p->memory = m;
    for (size_t i = 0; i < total; i++) p->free_bits[i / 64] |= 1ull << (i % 64);
    *ret = p;
    return BT_OK;
}

void bt_kv_pages_ready(bt_kv_pages *p, size_t bytes) { bt_memory_ready(p->memory, p->memory_bytes, bytes); }

void bt_kv_pages_free(bt_kv_pages *p)
{
    if (!p) return;
    assert(p->used == 0);
    if (p->memory) munmap(p->memory, p->memory_bytes);
    free(p->free_bits);
    free(p->owner);
    free(p);
}

/* Puts the lowest free page at the end of s; the caller knows that there is one. */
static void take_lowest(bt_kv_pages *p, bt_kv_seq *s)
{
    while (p->free_bits[p->first_word] == 0) p->first_word++;
    const uint32_t n = (uint32_t)(p->first_word * 64 + (size_t)__builtin_ctzll(p->free_bits[p->first_word]));
    p->free_bits[n / 64] &= ~(1ull << (n % 64));
    p->used++;
    p->owner[n] = s->id;
    s->number[s->len] = n;
    s->page[s->len++] = p->memory + n * p->page_bytes;
}

/* Room in the table of s for `want` pages. */
static bt_err widen(bt_kv_seq *s, size_t want, bt_fault *fault)
{
    uint8_t **page = realloc(s->page, want * sizeof *page);
    if (page) s->page = page;
    uint32_t *number = realloc(s->number, want * sizeof *number);
    if (number) s->number = number;
    return page && number ? BT_OK
                          : bt_fail(fault, BT_ENOMEM, "out of memory for a table of %zu KV pages", want);
}

bt_err bt_kv_pages_reserve(bt_kv_pages *p, bt_kv_seq *s, size_t tokens, bt_fault *fault)
{
    const size_t want = bt_kv_pages_needed(p, tokens);
    if (want <= s->len) return BT_OK;
    if (want > p->total)
        return bt_fail(fault, BT_ELIMIT, "%zu tokens need %zu KV pages, there are %zu in all", tokens, want,
                       p->total);
    if (want - s->len > p->total - p->used)
        return bt_fail(fault, BT_EAGAIN, "%zu more KV pages needed, %zu are free", want - s->len,
                       p->total - p->used);

    const bt_err e = widen(s, want, fault);
    if (e < 0) return e;
    if (s->id == 0) s->id = ++p->seqs;
    while (s->len < want) take_lowest(p, s);
    return BT_OK;
}

void bt_kv_pages_release(bt_kv_pages *p, bt_kv_seq *s)
{
    for (size_t i = 0; i < s->len; i++) {
        const uint32_t n = s->number[i];
        assert(n < p->total && p->owner[n] == s->id);
        p->owner[n] = 0;
        p->free_bits[n / 64] |= 1ull << (n % 64);
        if (n / 64 < p->first_word) p->first_word = n / 64;
    }
    p->used -= s->len;
    free(s->page);
    free(s->number);
    *s = (bt_kv_seq){0};
}

void bt_kv_pages_view(bt_kv_view *ret, const bt_kv_pages *p, const bt_kv_seq *s)
{
    *ret = p->shape;
    ret->page = s->page;
    ret->tokens_capacity = s->len * p->shape.page_tokens;
}

void bt_kv_pages_view_of(bt_kv_view *ret, uint8_t **page, const bt_kv_pages *p, const uint32_t *numbers,
                         size_t len)
{
    *ret = p->shape;
    ret->page = page;
    ret->tokens_capacity = len * p->shape.page_tokens;
    for (size_t i = 0; i < len; i++) {
        assert(numbers[i] < p->total);
        page[i] = p->memory + numbers[i] * p->page_bytes;
    }
}

bt_kv_split bt_kv_pages_split(const bt_kv_split_want *w)
{
    const uint64_t longest = (w->ctx_tokens + w->page_tokens - 1) / w->page_tokens,
                   least = (w->least_tokens + w->page_tokens - 1) / w->page_tokens,
                   /* a window and the growth seldom begin with a page */
        each = (w->window + w->growth_tokens) / w->page_tokens + 2,
                   wanted = w->sequences * (each < longest ? each : longest),
                   globals = w->layers - w->windowed;
    bt_kv_split r = {w->both, wanted > least ? wanted : least};
    if (!w->windowed) r.windows = 0;
    else if (!w->sequences || r.windows > w->both || !globals) r.windows = w->both;
    if (!w->windowed || !w->sequences) return r;
    if (globals) r.all = (w->both * w->layers - r.windows * w->windowed) / globals;
    else if (r.all < w->sequences * longest) r.all = w->sequences * longest;
    if (r.all > BT_KV_BOOK_MAX_PAGES) r.all = BT_KV_BOOK_MAX_PAGES;
    return r;
}

bt_err bt_kv_memory_new(bt_kv_memory *ret, const bt_kv_memory_want *w, bt_fault *fault)
{
    bt_kv_memory m = {.global_every = w->global_every};
    const uint32_t all = w->window_tokens ? bt_kv_all_layers(w->global_every, w->layers) : w->layers;
    bt_err e = BT_OK;
    if (all || !w->window_tokens)
        e = bt_kv_pages_new(&m.all, all, w->kv_heads, w->head_dim, w->elem_bytes, w->page_tokens,
                            w->all_tokens, fault);
    if (e == BT_OK && w->window_tokens)
        e = bt_kv_pages_new(&m.windows, w->layers - all, w->kv_heads, w->head_dim, w->elem_bytes,
                            w->page_tokens, w->window_tokens, fault);
    if (e < 0) bt_kv_memory_free(&m);
    else *ret = m;
    return e;
}

void bt_kv_memory_free(bt_kv_memory *m)
{
    bt_kv_pages_free(m->all);
    bt_kv_pages_free(m->windows);
    *m = (bt_kv_memory){0};
}

static size_t token_bytes(const bt_kv_pages *p) { return p ? p->shape.layers * 2 * p->shape.token_bytes : 0; }

size_t bt_kv_memory_token_bytes(const bt_kv_memory *m)
{
    return token_bytes(m->all) + token_bytes(m->windows);
}

void bt_kv_memory_view(bt_kv_view *ret, uint8_t **page, const bt_kv_memory *m, const bt_kv_numbers *n)
{
    const bt_kv_pages *p = m->windows;
    if (m->all) bt_kv_pages_view_of(ret, page, m->all, n->all, n->len);
    if (!p) return;
    const uint32_t all = m->all ? ret->layers : 0;
    size_t begin = 0;
    uint8_t **window = page + n->len;
    while (begin < n->len && n->windows[begin] == BT_KV_NO_PAGE) window[begin++] = p->memory;
    bt_kv_view v;
    bt_kv_pages_view_of(&v, window + begin, p, begin < n->len ? n->windows + begin : NULL, n->len - begin);
    v.page = page;
    v.tokens_capacity = n->len * v.page_tokens;
    v.layers += all;
    v.window_page = window;
    v.window_begin = begin * v.page_tokens;
    v.global_every = m->global_every;
    *ret = v;
}

size_t bt_kv_pages_total(const bt_kv_pages *p) { return p->total; }
size_t bt_kv_pages_used(const bt_kv_pages *p) { return p->used; }
size_t bt_kv_pages_page_bytes(const bt_kv_pages *p) { return p->page_bytes; }

size_t bt_kv_pages_needed(const bt_kv_pages *p, size_t tokens)
{
    return tokens == 0 ? 0 : (tokens - 1) / p->shape.page_tokens + 1;
}
