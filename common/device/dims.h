#ifndef BT_DEVICE_DIMS_H
#define BT_DEVICE_DIMS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sizes of a language model that decide its costs: known shapes by name, or from any GGUF file's header. */
typedef struct bt_dims {
    char name[64];
    uint32_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    uint32_t ffn_matrices; /* 3: gated; 2: plain */
    bool has_qkv_bias, has_qk_norm;
    uint32_t rope_milli; /* cos and sin are taken times so much by 1000; 0: as they are */
} bt_dims;

/* The i-th known shape; NULL: no more. */
const bt_dims *bt_dims_at(size_t i);
/* NULL: none has that name. */
const bt_dims *bt_dims_find(const char *name);

/* The matrices of a layer: q, k, v, o, then gate (where gated), up and down. Each [inputs, outputs]. */
enum { BT_DIMS_MATRICES = 7 };
typedef struct bt_dims_matrix {
    uint32_t inputs, outputs;
    bool is_row_split; /* a group of devices divides it by inputs, so its outputs are summed */
} bt_dims_matrix;
size_t bt_dims_matrices(bt_dims_matrix ret[BT_DIMS_MATRICES], const bt_dims *s);

/* Weights of all layers' matrices, and of the output matrix. */
uint64_t bt_dims_body(const bt_dims *s);
uint64_t bt_dims_head(const bt_dims *s);
/* Bytes of K and V of one position in all layers, at elem_bits bits an element. */
uint64_t bt_dims_kv_bytes(const bt_dims *s, uint32_t elem_bits);
#endif
