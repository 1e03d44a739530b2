#ifndef BT_DEVICE_SHAPE_H
#define BT_DEVICE_SHAPE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sizes of a language model that decide what it costs. Known ones by name; any GGUF file's header gives one too. */
typedef struct bt_model_shape {
    char name[64];
    uint32_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    uint32_t ffn_matrices; /* 3: gated; 2: plain */
} bt_model_shape;

/* The i-th known shape; NULL: no more. */
const bt_model_shape *bt_shape_at(size_t i);
/* NULL: none has that name. */
const bt_model_shape *bt_shape_find(const char *name);

/* The matrices of a layer: q, k, v, o, then gate (where gated), up and down. Each [inputs, outputs]. */
enum { BT_SHAPE_MATRICES = 7 };
typedef struct bt_shape_matrix {
    uint32_t inputs, outputs;
    bool is_row_split; /* a group of devices shares it by its inputs, so its outputs are summed */
} bt_shape_matrix;
size_t bt_shape_matrices(bt_shape_matrix ret[BT_SHAPE_MATRICES], const bt_model_shape *s);

/* Weights of all layers' matrices, and of the output matrix. */
uint64_t bt_shape_body(const bt_model_shape *s);
uint64_t bt_shape_head(const bt_model_shape *s);
/* K and V of one position in all layers, at so many bits an element. */
uint64_t bt_shape_kv_bytes(const bt_model_shape *s, uint32_t elem_bits);
#endif
