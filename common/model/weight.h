#ifndef BT_MODEL_WEIGHT_H
#define BT_MODEL_WEIGHT_H
#include <stdbool.h>
#include <stdint.h>

typedef struct bt_gguf_tensor bt_gguf_tensor; /* model/gguf.h */
typedef struct bt_model bt_model;             /* model/model.h */

/* A weight is named by (layer, which), never by a pointer, so that graphs are data. For EMBED, OUT_NORM and OUTPUT,
 * which belong to no layer, the layer is not looked at. */
typedef enum bt_weight {
    BT_WEIGHT_NONE = 0,
    BT_WEIGHT_EMBED, /* [V, D], read from the file */
    BT_WEIGHT_ATTN_NORM,
    BT_WEIGHT_FFN_NORM,
    BT_WEIGHT_OUT_NORM, /* [D], or [2 D] with biases behind the weights */
    BT_WEIGHT_Q_NORM,
    BT_WEIGHT_K_NORM, /* [E], or the whole row */
    BT_WEIGHT_ATTN_POST_NORM,
    BT_WEIGHT_FFN_POST_NORM, /* [D], where a block has norms on both sides */
    BT_WEIGHT_Q,
    BT_WEIGHT_K,
    BT_WEIGHT_V, /* [H*E, D], [G*E, D] twice; biases of the file's choice, or always */
    BT_WEIGHT_O, /* [D, H*E] */
    BT_WEIGHT_GATE,
    BT_WEIGHT_UP,
    BT_WEIGHT_DOWN,   /* [F, D], [F, D], [D, F]; so many of each expert, one behind the other, and so their biases */
    BT_WEIGHT_OUTPUT, /* [V, D] */
    BT_WEIGHT_ROUTER, /* [experts, D], in f32 like a norm; its bias is [experts] */
    BT_WEIGHT_SINKS,  /* [H], in f32 like a norm */
} bt_weight;
enum { BT_WEIGHT_COUNT = BT_WEIGHT_SINKS + 1 }; /* how many names there are */
const char *bt_weight_name(bt_weight w);        /* "attn_norm", "q", ...; never NULL */
bool bt_weight_is_matrix(bt_weight w);
bool bt_weight_is_layers(bt_weight w); /* whether each layer has its own */
/* The file's tensor of a weight and its bias; NULL where the architecture has none. */
const bt_gguf_tensor *bt_weight_tensor(const bt_model *m, uint32_t layer, bt_weight w);
const bt_gguf_tensor *bt_weight_bias(const bt_model *m, uint32_t layer, bt_weight w);
/* Orthogonal matrices that weights are folded with, by QuaRot's names (arXiv 2404.00456): R1 for the residual stream,
 * R2 for each head of the attention's output, R4 for the input of down. Bits, so that several may be named at once. */
typedef enum bt_rotation { BT_ROTATION_R1 = 1, BT_ROTATION_R2 = 2, BT_ROTATION_R4 = 4 } bt_rotation;
/* Walks all weights of a model but the embedding, each once, in one order: the weights of layer 0 and those of no
 * layer, then those of the next layers. Begin with *layer = 0 and BT_WEIGHT_NONE; BT_WEIGHT_NONE is the end. */
bt_weight bt_weight_next(const bt_model *m, uint32_t *layer, bt_weight w);
#endif
