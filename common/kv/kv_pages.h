#ifndef BT_KV_PAGES_H
#define BT_KV_PAGES_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "kernels/kv_view.h"
#include "kv/kv_book.h"

/* The memory for KV rows of one model shape: a fixed number of equal pages.
 *
 * A page holds page_tokens tokens of `layers` layers as [layer][K|V][token in page][kv_head][head_bytes]
 * (kernels/kv_view.h); it begins on 64 bytes. The memory is mapped but not touched, so pages never used cost
 * nothing; pages once written stay resident until _free. A page keeps the rows of its last holder: readers look
 * only at rows below the length they are given. One owner, no locks.
 *
 * Who holds which page is decided outside (kv_book.h; then _view_of finds its pages), or, where nothing is shared, here
 * (_reserve, _release). Never both ways in one pool: this pool knows nothing of pages that kv_book.h names by number.
 */
typedef struct bt_kv_pages bt_kv_pages;

/* One sequence's page table. Zero it before the first use; its fields are private. Do not copy it: a page knows
 * its sequence, so giving it back through a second copy stops the process by assert. */
typedef struct bt_kv_seq {
    uint8_t **page;   /* [len] base addresses, in token order */
    uint32_t *number; /* [len] page numbers */
    size_t len;
    uint64_t id; /* its pages know it */
} bt_kv_seq;

/* elem_bytes 1 (head_dim even), 2 or 4; page_tokens 1, 2, 4 .. 256 (64 is the usual value); capacity_tokens 1..,
 * rounded up to whole pages. Shape limits as in kv_header.h. BT_EARG, BT_ELIMIT (does not fit an address space),
 * BT_ENOMEM. */
bt_err bt_kv_pages_new(bt_kv_pages **ret, uint32_t layers, uint32_t kv_heads, uint32_t head_dim, uint32_t elem_bytes,
                       size_t page_tokens, size_t capacity_tokens, bt_fault *fault);
/* Takes the first `bytes` of the memory from the system now, so that the first sequence need not wait (base/memory.h).
 */
void bt_kv_pages_ready(bt_kv_pages *p, size_t bytes);
void bt_kv_pages_free(bt_kv_pages *p); /* NULL is fine; every sequence must have been released */

/* The longest sequence: `wanted` tokens, at most model_tokens. wanted 0: model_tokens, cut to the whole usual pages
 * that fit memory_bytes (0: no cut). BT_ELIMIT: more than the model has, or no page fits. */
enum { BT_KV_PAGES_USUAL_TOKENS = 64 };
bt_err bt_kv_pages_longest(size_t *ret, size_t wanted, size_t model_tokens, uint64_t memory_bytes, uint64_t token_bytes,
                           bt_fault *fault);

/* Let s hold at least `tokens` tokens, adding all the pages needed at its end or none, always the free ones with the
 * lowest numbers. BT_ELIMIT: more pages than the pool has; BT_EAGAIN: more than are free now; BT_ENOMEM. Success makes
 * earlier views of s void, but no row moves. */
bt_err bt_kv_pages_reserve(bt_kv_pages *p, bt_kv_seq *s, size_t tokens, bt_fault *fault);
/* Give back all pages of s, which is then as good as new. An empty s is fine. */
void bt_kv_pages_release(bt_kv_pages *p, bt_kv_seq *s);

/* How engines see s; borrowed until the next reserve or release of s. tokens_capacity: of all its pages. */
void bt_kv_pages_view(bt_kv_view *ret, const bt_kv_pages *p, const bt_kv_seq *s);
/* How engines see the pages numbers[len], in token order, each below _total. Their addresses go to page[len], which the
 * view borrows. */
void bt_kv_pages_view_of(bt_kv_view *ret, uint8_t **page, const bt_kv_pages *p, const uint32_t *numbers, size_t len);

/* The pages of a model by the class of their layers. Owns both. */
typedef struct bt_kv_memory {
    bt_kv_pages *all; /* of the layers that see all, in a model without windows of all layers; NULL: there are none */
    bt_kv_pages *windows;  /* of the window layers; NULL: there are none */
    uint32_t global_every; /* with windows: which layers see all (kernels/kv_view.h) */
} bt_kv_memory;

/* How the memory of `both` pages of all layers, of which so many have a window, is divided between the classes where
 * the rows of a window layer go back. Window layers get pages for the window and the growth of each sequence, at least
 * for least_tokens, and at most `both`; the others get the rest. ctx_tokens: of the longest sequence. least_tokens: as
 * many where a prompt's rows come before they go back; 0 where sequences keep no more than the window. Where no layer
 * sees all, pages of the others take no memory and are as many as all sequences may have. sequences 0: no row goes
 * back, and each class has `both`. windowed 0: windows is 0. */
typedef struct bt_kv_split_want {
    uint64_t both, ctx_tokens, least_tokens, growth_tokens, sequences;
    uint32_t layers, windowed, window, page_tokens;
} bt_kv_split_want;
typedef struct bt_kv_split {
    uint64_t all, windows; /* pages; all: at most those of a kv_book.h */
} bt_kv_split;
bt_kv_split bt_kv_pages_split(const bt_kv_split_want *want);

/* A sequence's page numbers: `len` of the layers that see all, and as many of window layers, where there are such.
 * BT_KV_NO_PAGE: its rows are gone; only at the begin. Numbers of a class without layers are not looked at. */
typedef struct bt_kv_numbers {
    const uint32_t *all, *windows;
    uint32_t len;
} bt_kv_numbers;

/* Pages for the shape of bt_kv_pages_new: all_tokens tokens of the layers that see all, window_tokens tokens of window
 * layers; 0: all layers are of one class. Errors as there. */
typedef struct bt_kv_memory_want {
    uint32_t layers, kv_heads, head_dim, elem_bytes, global_every;
    size_t page_tokens, all_tokens, window_tokens;
} bt_kv_memory_want;
bt_err bt_kv_memory_new(bt_kv_memory *ret, const bt_kv_memory_want *want, bt_fault *fault);
void bt_kv_memory_free(bt_kv_memory *m);                /* zeroed is fine; leaves it so */
size_t bt_kv_memory_token_bytes(const bt_kv_memory *m); /* of a token in all layers */
/* How engines see these pages. Their addresses go to page[len], with windows page[2 * len], which the view borrows. */
void bt_kv_memory_view(bt_kv_view *ret, uint8_t **page, const bt_kv_memory *m, const bt_kv_numbers *numbers);

/* Counts in pages (used: by _reserve), the pages that `tokens` tokens need, and the bytes of a page. */
size_t bt_kv_pages_total(const bt_kv_pages *p);
size_t bt_kv_pages_used(const bt_kv_pages *p);
size_t bt_kv_pages_needed(const bt_kv_pages *p, size_t tokens);
size_t bt_kv_pages_page_bytes(const bt_kv_pages *p);
#endif
