#ifndef BT_MODEL_MODEL_H
#define BT_MODEL_MODEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "model/arch.h"
#include "model/rope.h"

typedef struct bt_gguf bt_gguf; /* model/gguf.h */
typedef struct bt_gguf_tensor bt_gguf_tensor;

/* A model as its file describes it: hyper-parameters checked and bounded, and tensors found, with the shapes
 * they must have, for the architectures of model/arch.h. An unknown architecture, tensor type, missing key or tensor,
 * or wrong shape is an error that names it.
 *
 * Letters   L layers, D dim, F ffn (of one expert), H heads, G kv heads, E head_dim, V vocabulary. H % G == 0; K and V
 * rows are G*E wide. */

enum {
    BT_MODEL_MAX_LAYERS = 256,
    BT_MODEL_MAX_DIM = 32768,
    BT_MODEL_MAX_FFN = 131072,
    BT_MODEL_MAX_HEADS = 256,
    BT_MODEL_MAX_HEAD_DIM = 256,
    BT_MODEL_MAX_VOCAB = 1 << 20,
    BT_MODEL_MAX_CTX = 1 << 20,
    BT_MODEL_MAX_EXPERTS = 512, /* of a layer */
    BT_MODEL_MAX_EXPERTS_USED = 64,
};

/* Multipliers of architectures that have them; 0: the file has none. That of the logits (1 / logit_scale) is in
 * out_norm. */
typedef struct bt_multipliers {
    float scores; /* of q . k, in place of 1 / sqrt(head_dim) */
    float embed;  /* of the embedding's rows */
    float add;    /* of what a layer's two blocks add to the residual stream */
    float logits; /* of the logits */
} bt_multipliers;

/* How attention and logits are computed, beside sizes and multipliers: RULE(type, name), each 0 where the model has no
 * such thing. Hyper-parameters and the header of a package have them alike; the model's id, a package's check and its
 * comparison with a model follow the list.
 *   window            positions that window layers see, their own included; 0: all layers see all
 *   global_every      every so many layers, the last of them sees all; 0: none does
 *   window_rope_base  rope_base of window layers, with rope_scale 1; 0: that of the others
 *   score_cap, logit_cap   soft caps, tanh(x / cap) * cap, of attention's scores and of the logits */
#define BT_RULE_LIST(RULE) \
    RULE(uint32_t, window) \
    RULE(uint32_t, global_every) \
    RULE(float, window_rope_base) \
    RULE(float, score_cap) \
    RULE(float, logit_cap)
#define BT_RULE_MEMBER(type, name) type name;
typedef struct bt_rules {
    BT_RULE_LIST(BT_RULE_MEMBER)
} bt_rules;
/* The window of a layer; 0: it sees all. */
uint32_t bt_rules_window(const bt_rules *r, uint32_t layer);
/* How many rotary tables the layers have, 1 or 2, and the number of a layer's. */
uint32_t bt_rules_rope_tables(const bt_rules *r);
uint32_t bt_rules_rope_table(const bt_rules *r, uint32_t layer);

typedef struct bt_hparams {
    bt_arch arch;
    uint32_t layers, dim, ffn, heads, kv_heads, head_dim, vocab, ctx;
    uint32_t rope_dims; /* even, <= head_dim */
    bool rope_neox;     /* pairs (i, i + rope_dims/2) rather than (2i, 2i+1) */
    float rope_base;    /* freq_i = rope_base^(-2i/rope_dims) / factor_i * rope_scale; for yarn see rope.h */
    float rope_scale;   /* 1 / scaling factor; 1 where the file has none */
    bt_rope rope;
    float rms_eps; /* of every norm, by mean and variance too */
    bt_multipliers times;
    bool tied_output; /* no output.weight: the embedding is the output matrix */
    bool qkv_bias, qk_norm;
    uint32_t experts, experts_used; /* of each layer, and those that a row chooses; 0: one feed-forward block */
    union {
        struct {
            BT_RULE_LIST(BT_RULE_MEMBER)
        };
        bt_rules rules; /* the same members */
    };
} bt_hparams;
/* Windows and rotary tables, from the rules of the model: the window of a layer (0: the layer sees all), how many
 * tables there are, and the number of the layer's table. */
uint32_t bt_hparams_window(const bt_hparams *hp, uint32_t layer);
uint32_t bt_hparams_rope_tables(const bt_hparams *hp);
uint32_t bt_hparams_rope_table(const bt_hparams *hp, uint32_t layer);
/* The multipliers as numbers; 1, or 1 / sqrt(head_dim), where the file has none. */
float bt_hparams_scores(const bt_hparams *hp);
float bt_hparams_embed(const bt_hparams *hp);
float bt_hparams_add(const bt_hparams *hp);

typedef struct bt_layer_tensors { /* NULL where the architecture has none */
    const bt_gguf_tensor *attn_norm, *wq, *wk, *wv, *bq, *bk, *bv, *q_norm, *k_norm, *wo, *bo, *ffn_norm, *w_gate,
        *w_up, *b_up, *w_down, *b_down, *attn_post_norm, *ffn_post_norm, *sinks, *b_router, *b_gate;
    const bt_gguf_tensor *router; /* of experts, [experts, D]; their matrices are [F, D, experts], twice, and
                                     [D, F, experts], their biases [F, experts] and [D, experts] */
} bt_layer_tensors;

typedef struct bt_model {
    bt_gguf *file; /* owned */
    bt_hparams hp;
    const bt_gguf_tensor *embed, *out_norm, *output; /* output == embed where tied */
    const bt_gguf_tensor *rope_freqs; /* factor_i, or NULL; for longrope the long or the short factors, see rope.h */
    bt_layer_tensors *layer;          /* [L] */
    bt_gguf_tensor *made; /* tensors that no file has as they are, owned: parts of fused ones, norms with their
                             biases behind them, a scaled norm, or all of a model without a file */
    float *scaled_norm;   /* what out_norm reads where logits have a multiplier, owned; else NULL */
    float *joined;        /* what norms with biases read, owned; else NULL */
    char name[128];       /* general.name, or the architecture */
    uint8_t id[16]; /* compatibility hash of the weights (every tensor's name, type, shape, bytes), layers, KV heads,
                       head_dim, rope, windows, multipliers, experts of a row and the architecture, which stands for
                       all that its row says: models with equal ids may read each other's KV */
    uint64_t param_count, weights_bytes;
} bt_model;

/* path: a GGUF file, or the first part of one. Maps the file; the hash reads the whole file once. BT_MODEL_OPENING: the
 * words for this wait (base/wait.h). */
#define BT_MODEL_OPENING "opening the model (a new file is read whole, once)"
bt_err bt_model_open(bt_model **ret, const char *path, bt_fault *fault);
/* The sizes of a model whose file may end behind its header: hp, name, param_count and weights_bytes, and the tensors
 * without their data. id is 0; such a model cannot be run. */
bt_err bt_model_open_head(bt_model **ret, const char *path, bt_fault *fault);
bt_err bt_model_head_from_gguf(bt_model **ret, bt_gguf *g, bt_fault *fault); /* the same of bt_gguf_open_head_bytes;
                                                                                takes ownership of g */
/* Takes ownership of g in success and in failure. */
bt_err bt_model_from_gguf(bt_model **ret, bt_gguf *g, bt_fault *fault);
/* A model of which the hyper-parameters alone are known: tensors in f16 without data, of the shapes that they must
 * have. As a header it cannot be run. BT_EARG: a size beyond the limits above; BT_ENOMEM. */
bt_err bt_model_of_sizes(bt_model **ret, const bt_hparams *hp, const char *name, bt_fault *fault);
void bt_model_close(bt_model *m); /* NULL is fine */

/* One row of a tensor as f32, exact: y[dim[0]]. row < t->rows. */
void bt_model_row_f32(float *y, const bt_gguf_tensor *t, size_t row);
/* Sin and cos rows of positions [0, ctx) of a rotary table, times hp.rope.magnitude: cos, sin [ctx, rope_dims/2] f32,
 * computed in double and rounded once. Rows do not depend on ctx. */
void bt_model_rope_table(float *cos, float *sin, const bt_model *m, size_t table, size_t ctx);
/* A name or a path to a path (model/store.h, model/hub.h). BT_EIO, for a known model with "run 'baton pull NAME'", when
 * no file is there. ret must hold cap bytes. */
bt_err bt_model_find(char *ret, size_t cap, const char *name, bt_fault *fault);
#endif
