#ifndef BT_MODEL_ARCH_H
#define BT_MODEL_ARCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The one list of architectures. The reading of files, the graph, packages, names and messages are made of it; the
 * reference engine reads the same columns and computes by loops of its own. A row is a decoder-only transformer of
 * gated feed-forward blocks; its columns say where it is unlike llama:
 *   NAME, name   of bt_arch and of general.architecture. A row's place is its number in packages and model ids: rows
 *                are added at the end, never moved
 *   pairs        what the rotary embedding turns: ADJACENT (2i, 2i+1), HALVES (i, i + rope_dims / 2)
 *   unrotated    every so many layers, the last of them has no rotary embedding; 0: all have it
 *   biases       of q, k and v: MAYBE all three, ALWAYS, or NEVER
 *   qk_norm      q and k behind their matrices: NONE, an RMS norm of each head (HEADS) or of the whole row (ROWS)
 *   norms        of the two blocks of a layer, x + block: BEFORE, block(norm(x)); AFTER, norm(block(x))
 *   matrices     APART; FUSED: attn_qkv has the rows of q, k and v, ffn_up those of gate and up
 *   multipliers  1: the file may have attention.scale, embedding_scale, residual_scale and logit_scale
 *   experts      the feed-forward block is one of expert_count that each row chooses by itself: NEVER; ALWAYS; MAYBE,
 *                where the file has that key
 * docs/architectures.md has the sources. */
// clang-format off
#define BT_ARCH_LIST(ARCH)                                                                                           \
  /*   NAME,     name,     pairs,    unrotated, biases, qk_norm, norms, matrices, multipliers, experts */            \
  ARCH(LLAMA,    llama,    ADJACENT, 0,         MAYBE,  NONE,    BEFORE, APART,   0,           MAYBE)                \
  ARCH(QWEN2,    qwen2,    HALVES,   0,         ALWAYS, NONE,    BEFORE, APART,   0,           NEVER)                \
  ARCH(QWEN3,    qwen3,    HALVES,   0,         MAYBE,  HEADS,   BEFORE, APART,   0,           NEVER)                \
  ARCH(GRANITE,  granite,  ADJACENT, 0,         MAYBE,  NONE,    BEFORE, APART,   1,           NEVER)                \
  ARCH(SMOLLM3,  smollm3,  ADJACENT, 4,         MAYBE,  NONE,    BEFORE, APART,   0,           NEVER)                \
  ARCH(OLMO2,    olmo2,    HALVES,   0,         NEVER,  ROWS,    AFTER,  APART,   0,           NEVER)                \
  ARCH(PHI3,     phi3,     HALVES,   0,         NEVER,  NONE,    BEFORE, FUSED,   0,           NEVER)                \
  ARCH(QWEN3MOE, qwen3moe, HALVES,   0,         MAYBE,  HEADS,   BEFORE, APART,   0,           ALWAYS)
// clang-format on

#define BT_ARCH_NUMBER(NAME, ...) BT_ARCH_##NAME,
typedef enum bt_arch { BT_ARCH_LIST(BT_ARCH_NUMBER) BT_ARCHS } bt_arch;
#undef BT_ARCH_NUMBER

typedef enum bt_arch_pairs { BT_ARCH_ADJACENT, BT_ARCH_HALVES } bt_arch_pairs;
typedef enum bt_arch_has { BT_ARCH_MAYBE, BT_ARCH_ALWAYS, BT_ARCH_NEVER } bt_arch_has;
typedef enum bt_arch_qk_norm { BT_ARCH_NONE, BT_ARCH_HEADS, BT_ARCH_ROWS } bt_arch_qk_norm;
typedef enum bt_arch_norms { BT_ARCH_BEFORE, BT_ARCH_AFTER } bt_arch_norms;
typedef enum bt_arch_matrices { BT_ARCH_APART, BT_ARCH_FUSED } bt_arch_matrices;

typedef struct bt_arch_info { /* a row */
    const char *name;
    bt_arch_pairs pairs;
    uint32_t unrotated;
    bt_arch_has biases;
    bt_arch_qk_norm qk_norm;
    bt_arch_norms norms;
    bt_arch_matrices matrices;
    bool has_multipliers;
    bt_arch_has experts;
} bt_arch_info;

const bt_arch_info *bt_arch_of(bt_arch a); /* a < BT_ARCHS */
/* Whether q and k of a layer are turned by their positions. */
bool bt_arch_rotates(bt_arch a, uint32_t layer);
/* The row of this name, which need not end in NUL; NULL: there is none. *ret: its number. */
const bt_arch_info *bt_arch_find(bt_arch *ret, const char *name, size_t len);
/* All names, as "llama, qwen2 and qwen3". */
enum { BT_ARCH_MAX_TEXT = 160 };
void bt_arch_names(char ret[BT_ARCH_MAX_TEXT]);
#endif
