#ifndef BT_KERNELS_KV_VIEW_H
#define BT_KERNELS_KV_VIEW_H
#include <stddef.h>
#include <stdint.h>

/* How every engine sees the KV rows of one sequence: page base pointers and strides. Engines reach KV only
 * through this, so they do not know who owns the pages or how many layers share one.
 *
 *   K row of (token t, layer l, kv head h), head_dim elements:
 *       page[t / page_tokens] + l * layer_bytes + 0 * plane_bytes + (t % page_tokens) * token_bytes + h * head_bytes
 *   V row: the same with 1 * plane_bytes.
 *
 * Elements are f16 (IEEE binary16 bits in uint16_t; elem_bytes 2) or int8 (elem_bytes 1) for the host engines,
 * f32 (elem_bytes 4) for a reference deployment. A head of int8 is q[head_dim] and behind it the f16 bits of its
 * scale s, 2-aligned because head_dim is even then; an element is worth q * s, which f32 holds exactly. It is made
 * (bt_kv_store_fn) as s = f16 of min(max |x| / 127, 65504), nearest even; q = clamp(rint(x / s), -127, 127), nearest
 * even, or 0 where s is 0: x is a row in f32, both divisions true ones.
 * page_tokens divides 256 and is a power of two. The pages are borrowed: they stay valid
 * while their owner says so. tokens_capacity = number of pages * page_tokens; a reader never looks at a row
 * at or past the length it is given. */
typedef struct bt_kv_view {
    uint8_t *const *page;
    size_t page_tokens, tokens_capacity;
    size_t layer_bytes, plane_bytes, token_bytes, head_bytes;
    uint32_t elem_bytes; /* 1, 2 or 4 */
    uint32_t layers, kv_heads, head_dim;
} bt_kv_view;

/* Bytes of one head of one row. */
static inline size_t bt_kv_head_bytes(uint32_t elem_bytes, size_t head_dim)
{
    return head_dim * elem_bytes + (elem_bytes == 1 ? 2 : 0);
}

/* Bytes of one token: its rows of K and V in every layer. */
static inline uint64_t bt_kv_token_bytes(uint32_t elem_bytes, size_t layers, size_t kv_heads, size_t head_dim)
{
    return (uint64_t)2 * layers * kv_heads * bt_kv_head_bytes(elem_bytes, head_dim);
}

static inline uint8_t *bt_kv_view_row(const bt_kv_view *v, size_t layer, int is_v, size_t token, size_t head)
{
    return v->page[token / v->page_tokens] + layer * v->layer_bytes + (is_v ? v->plane_bytes : 0) +
           (token % v->page_tokens) * v->token_bytes + head * v->head_bytes;
}
#endif
