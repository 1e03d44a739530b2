#ifndef BT_MODEL_ARCH_H
#define BT_MODEL_ARCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The one list of architectures. The reading of files, the graph, packages, names and messages are made of it; the
 * reference engine reads the same columns and computes by loops of its own. A row is a decoder-only transformer; its
 * columns say where it is unlike llama:
 *   NAME, name   of bt_arch and of general.architecture. A row's place is its number in packages and model ids: rows
 *                are added at the end, never moved
 *   pairs        what the rotary embedding turns: ADJACENT (2i, 2i+1), HALVES (i, i + rope_dims / 2)
 *   yarn         the ends of its ramp: ROUNDED, EXACT (model/rope.h)
 *   unrotated    every so many layers, the last of them has no rotary embedding; 0: all have it
 *   biases       of q, k and v: MAYBE all three, ALWAYS, or NEVER; ALL: every matrix of a layer has one, of
 *                experts each, and the router
 *   qk_norm      q and k behind their matrices: NONE, an RMS norm of each head (HEADS) or of the whole row (ROWS);
 *                TURNED: of each head, behind the rotary embedding
 *   norm         RMS; MEAN: by mean and variance, with a bias behind each weight
 *   norms        of the two blocks of a layer, x + block: BEFORE, block(norm(x)); AFTER, norm(block(x)); BOTH
 *   second       the name of the second block's norm; where it has two, of that before it
 *   matrices     APART; FUSED: attn_qkv has the rows of q, k and v, ffn_up those of gate and up
 *   ffn          down(f): SWIGLU, f = silu(gate) * up; GEGLU, f = gelu(gate) * up; GELU, f = gelu(up), without a gate;
 *                gelu in the tanh form; CLAMP, f = the clamped product of gate and up (bt_clamp_mul_fn)
 *   multipliers  KEYS: the file may have attention.scale, embedding_scale, residual_scale and logit_scale; ROOT: the
 *                embedding times the root of dim, and the file may have attention.scale; ONES
 *   windows      of attention, as long as the file says: 0, none; 1, of all layers, where the file has one; n, of all
 *                layers but every n-th
 *   base         what rope.freq_base_swa, of window layers, is in a file without it; 0: they have that of the others
 *   scores       what attention has beside q . k: PLAIN, nothing; CAPPED, the soft caps attn_logit_softcapping and
 *                final_logit_softcapping; SINKS, attn_sinks.weight, a score of each head that has no value
 *   experts      the feed-forward block is one of expert_count that each row chooses by itself: NEVER; ALWAYS; MAYBE,
 *                where the file has that key
 * docs/architectures.md has the sources. */
// clang-format off
#define BT_ARCH_LIST(ARCH)                                                                             \
  /* NAME, name, pairs, yarn, unrotated, biases, qk_norm, norm, norms, second,                         \
   *   matrices, ffn, multipliers, windows, base, scores, experts */                                   \
  ARCH(LLAMA,      llama,      ADJACENT, ROUNDED, 0, MAYBE,  NONE,  RMS,  BEFORE, ffn_norm,            \
       APART, SWIGLU, ONES, 1, 0,     PLAIN,  MAYBE)                                                   \
  ARCH(QWEN2,      qwen2,      HALVES,   ROUNDED, 0, ALWAYS, NONE,  RMS,  BEFORE, ffn_norm,            \
       APART, SWIGLU, ONES, 0, 0,     PLAIN,  NEVER)                                                   \
  ARCH(QWEN3,      qwen3,      HALVES,   ROUNDED, 0, MAYBE,  HEADS, RMS,  BEFORE, ffn_norm,            \
       APART, SWIGLU, ONES, 0, 0,     PLAIN,  NEVER)                                                   \
  ARCH(GRANITE,    granite,    ADJACENT, ROUNDED, 0, MAYBE,  NONE,  RMS,  BEFORE, ffn_norm,            \
       APART, SWIGLU, KEYS, 0, 0,     PLAIN,  NEVER)                                                   \
  ARCH(SMOLLM3,    smollm3,    ADJACENT, ROUNDED, 4, MAYBE,  NONE,  RMS,  BEFORE, ffn_norm,            \
       APART, SWIGLU, ONES, 0, 0,     PLAIN,  NEVER)                                                   \
  ARCH(OLMO2,      olmo2,      HALVES,   ROUNDED, 0, NEVER,  ROWS,  RMS,  AFTER,  post_ffw_norm,       \
       APART, SWIGLU, ONES, 0, 0,     PLAIN,  NEVER)                                                   \
  ARCH(PHI3,       phi3,       HALVES,   ROUNDED, 0, NEVER,  NONE,  RMS,  BEFORE, ffn_norm,            \
       FUSED, SWIGLU, ONES, 1, 0,     PLAIN,  NEVER)                                                   \
  ARCH(QWEN3MOE,   qwen3moe,   HALVES,   ROUNDED, 0, MAYBE,  HEADS, RMS,  BEFORE, ffn_norm,            \
       APART, SWIGLU, ONES, 0, 0,     PLAIN,  ALWAYS)                                                  \
  ARCH(STARCODER2, starcoder2, HALVES,   ROUNDED, 0, ALL,    NONE,  MEAN, BEFORE, ffn_norm,            \
       APART, GELU,   ONES, 0, 0,     PLAIN,  NEVER)                                                   \
  ARCH(GEMMA3,     gemma3,     HALVES,   ROUNDED, 0, NEVER,  HEADS, RMS,  BOTH,   ffn_norm,            \
       APART, GEGLU,  ROOT, 6, 10000, PLAIN,  NEVER)                                                   \
  ARCH(GEMMA2,     gemma2,     HALVES,   ROUNDED, 0, NEVER,  NONE,  RMS,  BOTH,   ffn_norm,            \
       APART, GEGLU,  ROOT, 2, 0,     CAPPED, NEVER)                                                   \
  ARCH(GEMMA,      gemma,      HALVES,   ROUNDED, 0, NEVER,  NONE,  RMS,  BEFORE, ffn_norm,            \
       APART, GEGLU,  ROOT, 0, 0,     PLAIN,  NEVER)                                                   \
  ARCH(GPT_OSS,    gpt-oss,    HALVES,   EXACT,   0, ALL,    NONE,  RMS,  BEFORE, post_attention_norm, \
       APART, CLAMP,  ONES, 2, 0,     SINKS,  ALWAYS)                                                  \
  ARCH(HUNYUAN_DENSE, hunyuan-dense, HALVES, ROUNDED, 0, NEVER, TURNED, RMS, BEFORE, ffn_norm,         \
       APART, SWIGLU, ONES, 0, 0,     PLAIN,  NEVER)
// clang-format on

#define BT_ARCH_NUMBER(NAME, ...) BT_ARCH_##NAME,
typedef enum bt_arch { BT_ARCH_LIST(BT_ARCH_NUMBER) BT_ARCHS } bt_arch;
#undef BT_ARCH_NUMBER

typedef enum bt_arch_pairs { BT_ARCH_ADJACENT, BT_ARCH_HALVES } bt_arch_pairs;
typedef enum bt_arch_yarn { BT_ARCH_ROUNDED, BT_ARCH_EXACT } bt_arch_yarn;
typedef enum bt_arch_has { BT_ARCH_MAYBE, BT_ARCH_ALWAYS, BT_ARCH_NEVER, BT_ARCH_ALL } bt_arch_has;
typedef enum bt_arch_qk_norm { BT_ARCH_NONE, BT_ARCH_HEADS, BT_ARCH_ROWS, BT_ARCH_TURNED } bt_arch_qk_norm;
typedef enum bt_arch_norm { BT_ARCH_RMS, BT_ARCH_MEAN } bt_arch_norm;
typedef enum bt_arch_norms { BT_ARCH_BEFORE, BT_ARCH_AFTER, BT_ARCH_BOTH } bt_arch_norms;
typedef enum bt_arch_matrices { BT_ARCH_APART, BT_ARCH_FUSED } bt_arch_matrices;
typedef enum bt_arch_ffn { BT_ARCH_SWIGLU, BT_ARCH_GELU, BT_ARCH_GEGLU, BT_ARCH_CLAMP } bt_arch_ffn;
typedef enum bt_arch_scores { BT_ARCH_PLAIN, BT_ARCH_CAPPED, BT_ARCH_SINKS } bt_arch_scores;

typedef enum bt_arch_multipliers { BT_ARCH_ONES, BT_ARCH_KEYS, BT_ARCH_ROOT } bt_arch_multipliers;

typedef struct bt_arch_info { /* a row */
    const char *name;
    bt_arch_pairs pairs;
    bt_arch_yarn yarn;
    uint32_t unrotated;
    bt_arch_has biases;
    bt_arch_qk_norm qk_norm;
    bt_arch_norm norm;
    bt_arch_norms norms;
    const char *attn_norm, *ffn_norm; /* the names of the blocks' norms; where they have two, of those before them */
    bt_arch_matrices matrices;
    bt_arch_ffn ffn;
    bt_arch_multipliers multipliers;
    uint32_t windows;
    float window_base;
    bt_arch_scores scores;
    bt_arch_has experts;
} bt_arch_info;

const bt_arch_info *bt_arch_of(bt_arch a); /* a < BT_ARCHS */
/* Whether q and k of a layer are turned by their positions. */
bool bt_arch_rotates(bt_arch a, uint32_t layer);
/* Whether the feed-forward blocks have a gate, and whether what down reads is a product with up. */
bool bt_arch_is_gated(bt_arch a);
bool bt_arch_is_product(bt_arch a);
/* The elements of a norm of rows `dim` wide: its weights, and behind them its biases where it has them. */
uint32_t bt_arch_norm_elems(bt_arch a, uint32_t dim);
/* The row of this name, which need not end in NUL; NULL: there is none. *ret: its number. */
const bt_arch_info *bt_arch_find(bt_arch *ret, const char *name, size_t len);
/* All names, as "llama, qwen2 and qwen3". */
enum { BT_ARCH_MAX_TEXT = 160 };
void bt_arch_names(char ret[BT_ARCH_MAX_TEXT]);
#endif
