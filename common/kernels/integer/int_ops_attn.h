#ifndef BT_KERNELS_INT_OPS_ATTN_H
#define BT_KERNELS_INT_OPS_ATTN_H
#include <stddef.h>
#include <stdint.h>
#include "kernels/int_ops.h"

/* The scratch of integer attention, and its blocks: INT_ATTN_ROWS (row, query head) pairs go at once, so that each KV
 * tile of INT_ATTN_KEYS positions is converted once for all of them. Offsets are bytes, multiples of 64. */
enum { INT_ATTN_ROWS = 16, INT_ATTN_KEYS = 64 };

typedef struct int_attn_scratch {
    size_t ldz;  /* elements of a row of z and of e: tokens rounded up to whole tiles */
    size_t z;    /* s32 [ROWS, ldz] */
    size_t e;    /* s16 [ROWS, ldz] */
    size_t tile; /* s16, KEYS * D16 elements, D16 = head_dim rounded up to a multiple of 16; load_k and load_v say in
                    which order */
    size_t acc;  /* s64 [ROWS, D16] */
    size_t q;    /* s16 [2, ROWS, D16]: the high halves of the queries, then the low ones */
    size_t row;  /* s16 [8, D16]: rows of K or V on their way to the tile */
    size_t bytes;
} int_attn_scratch;

static inline int_attn_scratch int_attn_scratch_plan(size_t head_dim, size_t tokens)
{
    const size_t d16 = (head_dim + 15) / 16 * 16;
    int_attn_scratch s = {.ldz = (tokens + INT_ATTN_KEYS - 1) / INT_ATTN_KEYS * INT_ATTN_KEYS};
    s.e = INT_ATTN_ROWS * s.ldz * 4;
    s.tile = s.e + INT_ATTN_ROWS * s.ldz * 2;
    s.acc = s.tile + INT_ATTN_KEYS * d16 * 2;
    s.q = s.acc + INT_ATTN_ROWS * d16 * 8;
    s.row = s.q + 2 * INT_ATTN_ROWS * d16 * 2;
    s.bytes = s.row + 8 * d16 * 2;
    return s;
}

/* The first position that the row at `pos` sees. */
static inline size_t int_attn_begin(const bt_int_attention_params *p, size_t pos)
{
    return p->window && pos >= p->window ? pos + 1 - p->window : 0;
}

/* ceil(log2 d): L of bt_int_attention16_fn. */
static inline unsigned int_attn_log2(size_t d)
{
    unsigned l = 0;
    while ((size_t)1 << l < d) l++;
    return l;
}
#endif
