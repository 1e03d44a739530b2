#ifndef BT_DEVICE_DIMS_H
#define BT_DEVICE_DIMS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The sizes of a language model that decide its costs: known shapes by name, from a config.json,
 * or from any GGUF file's header.
 *
 * Experts: ffn is what the experts of one row have together, with the ones that all rows share; where some layers have
 * no experts, the mean of all layers, rounded up. A latent (MLA): kv_heads is 1 and head_dim half of the latent, so
 * that K and V of a position are its elements; query_rank to value_dim are the widths that its matrices have. */
typedef struct bt_dims {
    char name[64];
    uint32_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    uint32_t ffn_matrices; /* 3: gated; 2: plain */
    bool has_qkv_bias, has_qk_norm;
    uint32_t rope_milli;       /* cos and sin are taken times so much by 1000; 0: as they are */
    bool has_own_embedding;    /* the embedding table is not the output matrix */
    uint32_t window, windowed; /* so many layers see so many positions at most; 0: none does */
    uint32_t experts, experts_used, expert_ffn, expert_layers; /* experts 0: there are none */
    uint32_t experts_key;                                      /* which of bt_dims_expert_keys a config.json has */
    uint32_t query_rank, latent_rank, latent_rope, plain_dim, value_dim; /* latent_rank 0: no latent */
    uint32_t others; /* 1 << i: the i-th of bt_dims_others is in the model's config.json */
} bt_dims;

/* Windows in the pattern that nodes have (kernels/kv_view.h): the last of every so many layers sees all; 0: none does.
 * False: no layer has a window, or no such pattern has as many. */
bool bt_dims_global_every(uint32_t *ret, const bt_dims *s);

/* The i-th known shape; NULL: no more. Names ascend within a family. */
const bt_dims *bt_dims_at(size_t i);
/* NULL: none has that name. */
const bt_dims *bt_dims_find(const char *name);
/* Where a known shape's sizes are from: "config.json of OWNER/NAME", or a paper. NULL: the name is no known shape. */
const char *bt_dims_source(const char *name);

/* The matrices of a layer: those of attention, the last of which is row-split, then gate (where gated), up and down.
 * Attention has q, k, v and o; with a latent the queries down and up, or at once, the latent, its keys and values, and
 * the output. Each [inputs, outputs]. */
enum { BT_DIMS_MATRICES = 8 };
typedef struct bt_dims_matrix {
    uint32_t inputs, outputs;
    bool is_row_split; /* a group of devices divides it by inputs, so its outputs are summed */
} bt_dims_matrix;
size_t bt_dims_matrices(bt_dims_matrix ret[BT_DIMS_MATRICES], const bt_dims *s);

/* Weights of all layers' matrices, of experts those that a row uses; and of the output matrix. */
uint64_t bt_dims_body(const bt_dims *s);
uint64_t bt_dims_head(const bt_dims *s);
/* Weights of the experts that a row does not use: memory holds them, a row alone does not read them. */
uint64_t bt_dims_idle(const bt_dims *s);
/* Weights of those that it uses, out of many; 0 where there are no experts. */
uint64_t bt_dims_used(const bt_dims *s);
/* All weights of matrices, an embedding table of its own among them. */
uint64_t bt_dims_weights(const bt_dims *s);
/* Bytes of K and V of one position in all layers, at elem_bits bits an element. */
uint64_t bt_dims_kv_bytes(const bt_dims *s, uint32_t elem_bits);
enum { BT_DIMS_PAGE_TOKENS = 64 }; /* of a node's pages, as BT_KV_PAGES_USUAL_TOKENS of kv/kv_pages.h */
/* Bytes of K and V that a sequence of `tokens` positions holds for the rows to come. A layer with a window holds the
 * window, and with pages of page_tokens two more at its ends; 0: no pages. position_bytes: of one position in all
 * layers. */
uint64_t bt_dims_kv_held(const bt_dims *s, uint64_t position_bytes, uint64_t tokens, uint32_t page_tokens);

/* ---- from a config.json ---- */

/* Sizes from a config.json, as published beside a model's weights (Hugging Face's keys). Fields of a nested text_config
 * come before those of the same name beside it.
 *
 * Read are hidden_size, num_hidden_layers, num_attention_heads, intermediate_size (or ffn_dim), vocab_size, which a
 * file must have, and model_type or architectures. Where they are there: num_key_value_heads (else a head each),
 * head_dim (else hidden_size / num_attention_heads), tie_word_embeddings, attention_bias, max_position_embeddings; of
 * windows sliding_window, use_sliding_window, layer_types, sliding_window_pattern, max_window_layers; of experts
 * num_experts, num_local_experts or n_routed_experts, with num_experts_per_tok, moe_intermediate_size,
 * n_shared_experts, shared_expert_intermediate_size, first_k_dense_replace, decoder_sparse_step, moe_layer_freq,
 * mlp_only_layers; of a latent kv_lora_rank, with q_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim; and
 * those of bt_dims_others. A field that is null is a field that is not there. Traits of a model_type that no field says
 * are known: the windows of Gemma 2 in every second layer, the numbers that files of Gemma 3 leave out. */
enum { BT_DIMS_CONFIG_MAX_BYTES = 1 << 20, BT_DIMS_MAX_LAYERS = 256 };

/* *ret_ctx: max_position_embeddings; 0: the file has none. BT_EFORMAT names the field that is missing, beyond its range
 * or against another one; BT_ELIMIT past BT_DIMS_CONFIG_MAX_BYTES. ret->name is left empty. */
bt_err bt_dims_config_parse(bt_dims *ret, uint32_t *ret_ctx, const char *json, size_t len, bt_fault *fault);
/* Whether a name is that of a file: it ends in .json. */
bool bt_dims_config_is(const char *name);
/* The file; its name is the end of the path. BT_EIO too. */
bt_err bt_dims_config_load(bt_dims *ret, uint32_t *ret_ctx, const char *path, bt_fault *fault);

/* ---- fields that prices leave out ---- */

/* A field of config.json that a price by these sizes ignores, so that it is a bound: of time and of memory. */
typedef struct bt_dims_ignored {
    const char *field;
    const char *bound; /* "upper": real figures are at most so large; "lower": at least; "none": either way */
    char effect[160];
} bt_dims_ignored;
enum { BT_DIMS_IGNORED = 16 };
/* Returns how many there are. */
size_t bt_dims_ignored_of(bt_dims_ignored ret[BT_DIMS_IGNORED], const bt_dims *s);

/* Names of the number of experts, as config.json files have them. Ends with NULL. */
extern const char *const bt_dims_expert_keys[];
/* Fields that change a model's costs and that no size stands for. Ends with a field of NULL. */
typedef struct bt_dims_other {
    const char *field, *bound, *effect;
} bt_dims_other;
extern const bt_dims_other bt_dims_others[];
/* Indices of those that known shapes and the reader of config.json set by hand. */
enum {
    BT_DIMS_MODEL_TYPE,
    BT_DIMS_LAYER_TYPES,
    BT_DIMS_EMBED_WIDTH,
    BT_DIMS_CROSS,
    BT_DIMS_OTHERS_BY_NAME = BT_DIMS_CROSS
};
#endif
