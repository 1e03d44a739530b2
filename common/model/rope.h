#ifndef BT_MODEL_ROPE_H
#define BT_MODEL_ROPE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rotary embedding beyond the context that a model was trained for. A GGUF file says how in
 * ARCH.rope.scaling.type:
 *
 *   none      f_i = base^(-2i/d)
 *   linear    f_i = base^(-2i/d) / s                       s: rope.scaling.factor
 *   yarn      f_i = base^(-2i/d) (r_i + (1 - r_i) / s)     slow pairs are scaled, fast ones kept
 *               r_i  = 1 - clamp((i - low) / max(0.001, high - low), 0, 1)
 *               low  = max(0, floor(pair(beta_fast))),  high = min(d - 1, ceil(pair(beta_slow))); both without floor
 *               and ceil where is_exact
 *               pair(n) = d ln(original / (2 pi n)) / (2 ln base): the pair that turns n times in the original context
 *             cos and sin times 1 + 0.1 ln s (1 where s <= 1)
 *   longrope  f_i = base^(-2i/d) / long_i or / short_i: tensors rope_factors_long.weight, rope_factors_short.weight
 *
 * d: rope_dims. Whatever the type, f_i is divided by rope_freqs.weight[i] where the file has it (the form
 * that llama3's scaling takes in GGUF), and cos and sin are multiplied by rope.scaling.attn_factor where the
 * file has that.
 *
 * longrope takes the long factors where the file's own context_length is above rope.scaling.original_context_length,
 * else the short ones: for prompts of any length, and whatever --ctx-size is. So rows of KV never depend on the
 * request, and every process that opens a file makes the same choice, which is part of the model's id.
 *
 * Sources: YaRN, arXiv 2309.00071, 3.1 to 3.4; LongRoPE, arXiv 2402.13753; roles of the keys and rounding of
 * low and high as in llama.cpp (ggml_rope_yarn_corr_dims, rope_yarn in ggml-cpu/ops.cpp; llama-context.cpp;
 * convert_hf_to_gguf). transformers' modeling_rope_utils computes the same. */
typedef enum bt_rope_kind { BT_ROPE_NONE, BT_ROPE_LINEAR, BT_ROPE_YARN, BT_ROPE_LONG } bt_rope_kind;
enum { BT_ROPE_KINDS = BT_ROPE_LONG + 1 };
extern const char *const bt_rope_names[BT_ROPE_KINDS]; /* as in files */

typedef struct bt_rope {
    bt_rope_kind kind;
    float magnitude;            /* what cos and sin are multiplied by */
    uint32_t original_ctx;      /* yarn, longrope; else 0 */
    float beta_fast, beta_slow; /* yarn: beta_fast > beta_slow > 0; else 0 */
    bool is_exact;              /* yarn: as the architecture has it; no key says so */
} bt_rope;

/* 1 + 0.1 ln s, or 1 where s <= 1. */
double bt_rope_yarn_magnitude(double s);
/* In words, as "yarn, factor 4, original context 32768, beta 32 to 1, magnitude 1.13863"; "" where nothing is scaled.
 * scale: 1 / s; has_factors: the file has a tensor of factors. */
enum { BT_ROPE_MAX_TEXT = 160 };
void bt_rope_text(char ret[BT_ROPE_MAX_TEXT], const bt_rope *r, double scale, bool has_factors);
/* ret[dims / 2]: f_i. base > 0, > 1 for yarn; scale: 1 / s; factor [dims / 2]: the divisor of each f_i, or NULL. */
void bt_rope_frequencies(double *ret, const bt_rope *r, size_t dims, double base, double scale, const float *factor);
#endif
