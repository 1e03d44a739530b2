#ifndef BT_KV_BOOK_H
#define BT_KV_BOOK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/prompt.h"

/* Who holds which KV page, and which pages hold prefixes of which prompts: numbers only, no memory. Pure; a part of the
 * prefill and of the decode brain, whose shells find page `number` in bt_kv_pages.
 *
 * Page       page_tokens tokens of all layers; with windows, of the layers that see all positions, be there such layers
 *            or not. It is free, held by one or more sequences, or cached: kept by the prefix
 *            index only. Holding takes free pages first, then cached ones, the one unused longest first, but never a
 *            page in the middle of a longer kept prefix. So a cached page is as good as a free one.
 * Sequence   0 .. seqs-1: a table of pages in token order.
 * Index      a tree of whole pages. A page is known by its class, its prompt's salt, all tokens before it and its own.
 *            BY_IDS: tokens are compared, not only hashed, so no hit is ever wrong. BY_HASHES: 64 bits stand for the
 *            tokens, for simulations. A search looks at 32 pages at most. `class` says by which rule rows were made
 *            (XXH3-64 of an exactness text); rows of different classes never meet, nor do prompts of different salts:
 *            64 bits stand for both. Only pages whose rows all come from a prompt are ever kept (rule of provenance:
 *            rows that decoding made belong to no prefix), so a shared page is never written again.
 * Windows    of models that have them (_add_windows): pages of window layers, with numbers of their own and the same
 *            rules. A sequence has one for each of its pages from a front on, which _forward moves; before it the rows
 *            are gone. A kept page may have a window page of the same tokens as its mate. Mates are forgotten, the one
 *            unused longest first, before the pages that they belong to, or with them. A kept prefix may end at a
 *            boundary b only if the pages of [b - window_tokens, b), or of [0, b), have their mates.
 * Deterministic: the same calls give the same numbers. Nothing is allocated after _new but by _is_sound. */
typedef struct bt_kv_book bt_kv_book;
enum {
    BT_KV_BOOK_MAX_PAGES = 1 << 24,
    BT_KV_NO_PAGE = UINT32_MAX /* in a table of window pages: its rows are gone */
};

/* pages 1..2^24, page_tokens 1..256, seqs 1..1024, seq_pages: the longest table. BT_EARG, BT_ENOMEM. The index has a
 * place for every page: 28 bytes, 4 to 8 of a hash table, and BY_IDS 4 page_tokens more. Most of that memory is touched
 * only when a page is used for the first time. */
bt_err bt_kv_book_new(bt_kv_book **ret, uint32_t pages, uint32_t page_tokens, uint32_t seqs, uint32_t seq_pages,
                      bt_prompt_by by, bt_fault *fault);
void bt_kv_book_free(bt_kv_book *b); /* NULL is fine */
/* Once, before any other call: the model has window layers. pages 1..2^24; window_tokens 1... 28 bytes a page, 4 a page
 * of the book and 4 a place of the tables. BT_EARG, BT_ENOMEM. */
bt_err bt_kv_book_add_windows(bt_kv_book *b, uint32_t pages, uint32_t window_tokens, bt_fault *fault);

/* Lets seq hold at least `tokens` tokens, new pages at its end; false, and nothing changes, when too few are free or
 * cached or the table is too short. A page taken from the cache is forgotten by the index. */
bool bt_kv_book_hold(bt_kv_book *b, uint32_t seq, uint32_t tokens);
/* Lets seq hold nothing; its pages that the index keeps become cached. An empty seq is fine. */
void bt_kv_book_release(bt_kv_book *b, uint32_t seq);
/* Rows of window layers before `row` are needed no more: seq lets go of the window pages that end at or before it, and
 * takes none for them later. Never back. Without windows nothing happens. */
void bt_kv_book_forward(bt_kv_book *b, uint32_t seq, uint32_t row);
/* The table: page numbers in token order; valid until the next call for seq. _windows: as many numbers of window pages,
 * BT_KV_NO_PAGE before the front; NULL without windows. */
const uint32_t *bt_kv_book_table(const bt_kv_book *b, uint32_t seq, uint32_t *ret_len);
const uint32_t *bt_kv_book_windows(const bt_kv_book *b, uint32_t seq);

/* The longest kept prefix of the prompt's first `len` tokens (at most all) in whole pages, in tokens. The view has the
 * ids or hashes that the book goes by, and the salt. _match only looks. _share lets the empty seq hold the prefix, so
 * that its pages stay, and counts a use: with windows the mates too, back to the first page without one, where its
 * front is then. */
uint32_t bt_kv_book_match(const bt_kv_book *b, uint64_t class, const bt_prompt_view *prompt, uint32_t len);
uint32_t bt_kv_book_share(bt_kv_book *b, uint32_t seq, uint64_t class, const bt_prompt_view *prompt, uint32_t len);
/* Keeps the whole pages of the first `tokens` of the prompt, whose rows are final in seq's pages, in every layer. Where
 * the same prefix is already kept in other pages, seq's pages stay its own, and neither they nor the pages behind them
 * are kept; but those pages get seq's window pages where they have no mates. So whoever holds a kept page also holds
 * the pages before it, and every cached page can be taken. */
void bt_kv_book_keep(bt_kv_book *b, uint32_t seq, uint64_t class, const bt_prompt_view *prompt, uint32_t tokens);

/* In pages. used: held by a sequence, shared pages counted once; cached: kept and not held; room: free and cached
 * pages, which a _hold could still take. A sequence that matches m whole pages and then holds n takes n - m pages of
 * the room, and its shared pages leave the room too if they were cached: _room_after is the room left once they are
 * held, of window pages in *ret_windows. */
uint32_t bt_kv_book_used(const bt_kv_book *b);
uint32_t bt_kv_book_cached(const bt_kv_book *b);
uint32_t bt_kv_book_room(const bt_kv_book *b);
uint32_t bt_kv_book_windows_used(const bt_kv_book *b); /* of window pages; 0 without windows */
uint32_t bt_kv_book_windows_cached(const bt_kv_book *b);
uint32_t bt_kv_book_windows_room(const bt_kv_book *b);
uint32_t bt_kv_book_room_after(const bt_kv_book *b, uint64_t class, const bt_prompt_view *prompt, uint32_t len,
                               uint32_t *ret_windows);
/* Every count and list agrees with the tables: for tests and the simulator, O(pages). Also true where there is no
 * memory for the check. */
bool bt_kv_book_is_sound(const bt_kv_book *b);
#endif
