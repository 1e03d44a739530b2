#ifndef BT_DEVICE_DIMS_CONFIG_H
#define BT_DEVICE_DIMS_CONFIG_H
#include "base/err.h"
#include "device/dims.h"

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
#endif
