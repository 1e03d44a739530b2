#ifndef BT_KERNELS_KV_VIEW_H
#define BT_KERNELS_KV_VIEW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The KV rows of one sequence, as every engine sees them: page base pointers and strides in bytes. Engines reach KV
 * only through a view, so they do not know who owns the pages or how many layers share a page.
 *
 *   K row of (token t, layer l, kv head h), head_dim elements:
 *       page[t / page_tokens] + l * layer_bytes + 0 * plane_bytes + (t % page_tokens) * token_bytes + h * head_bytes
 *   V row: the same with 1 * plane_bytes.
 *
 * Where a model has window layers and a page holds layers of one class, window_page is the page table of the window
 * layers, and page that of the layers that see all. Both have the same length. In the formula l is then the layer's
 * place among those of its class. Rows of window layers before window_begin, a multiple of page_tokens, are gone: the
 * table has some readable page in their place. NULL: pages hold all layers.
 *
 * Elements are f16 (IEEE binary16 bits in uint16_t; elem_bytes 2) or int8 (elem_bytes 1) for the host engines, f32
 * (elem_bytes 4) for a reference deployment. An int8 head is q[head_dim], followed by the f16 bits of its scale s. s is
 * 2-byte aligned, because head_dim is even then. An element's value is q * s, which f32 holds exactly. bt_kv_store_fn
 * makes a head of x[head_dim] f32, with two true divisions:
 *       s = f16 of min(max |x| / 127, 65504), nearest even
 *       q = clamp(rint(x / s), -127, 127), nearest even; 0 if s is 0
 *
 * page_tokens is a power of two and divides 256. tokens_capacity = number of pages * page_tokens. The pages are
 * borrowed and stay valid while their owner says so. A reader never looks at a row at or past the length that its
 * caller gives. */
typedef struct bt_kv_view {
    uint8_t *const *page;
    size_t page_tokens, tokens_capacity;
    size_t layer_bytes, plane_bytes, token_bytes, head_bytes;
    uint32_t elem_bytes; /* 1, 2 or 4 */
    uint32_t layers, kv_heads, head_dim;
    uint8_t *const *window_page;
    size_t window_begin;
    uint32_t global_every; /* with window_page: see bt_kv_sees_all */
} bt_kv_view;

/* Whether a layer of a model with windows sees all positions: the last of every global_every does; 0: none. */
static inline bool bt_kv_sees_all(uint32_t global_every, size_t layer)
{
    return global_every && (layer + 1) % global_every == 0;
}
/* How many of the layers see all. */
static inline uint32_t bt_kv_all_layers(uint32_t global_every, uint32_t layers)
{
    return global_every ? layers / global_every : 0;
}

/* The first row of a prompt that is sent of a window layer, and held by who decodes: the last multiple of
 * BT_KV_WINDOW_TOKENS from which on rows see no less than the window before the prompt's end. So pages that begin there
 * are whole. window 0: row 0. */
enum { BT_KV_WINDOW_TOKENS = 64 };
static inline uint64_t bt_kv_first_sent(uint64_t window, uint64_t tokens)
{
    return window && tokens > window ? (tokens - window) / BT_KV_WINDOW_TOKENS * BT_KV_WINDOW_TOKENS : 0;
}

/* Bytes of one head of one row. */
static inline size_t bt_kv_head_bytes(uint32_t elem_bytes, size_t head_dim)
{
    return head_dim * elem_bytes + (elem_bytes == 1 ? 2 : 0);
}

/* Bytes of one token: its K and V rows in all layers. */
static inline uint64_t bt_kv_token_bytes(uint32_t elem_bytes, size_t layers, size_t kv_heads, size_t head_dim)
{
    return (uint64_t)2 * layers * kv_heads * bt_kv_head_bytes(elem_bytes, head_dim);
}

/* The address of a row; is_v: 0 K, 1 V. */
static inline uint8_t *bt_kv_view_row(const bt_kv_view *v, size_t layer, int is_v, size_t token, size_t head)
{
    uint8_t *const *page = v->page;
    if (v->window_page) {
        const size_t before = v->global_every ? layer / v->global_every : 0; /* layers that see all */
        if (bt_kv_sees_all(v->global_every, layer)) layer = before;
        else page = v->window_page, layer -= before;
    }
    return page[token / v->page_tokens] + layer * v->layer_bytes + (is_v ? v->plane_bytes : 0) +
           (token % v->page_tokens) * v->token_bytes + head * v->head_bytes;
}
#endif
