#ifndef BT_KERNELS_INT_OPS_VARIANTS_H
#define BT_KERNELS_INT_OPS_VARIANTS_H
#include "kernels/int_ops.h"
#include "kernels/sparse.h"

/* The variants of the integer operators, for the dispatch table. AVX-512 machines run the AVX2 ones; of int_topk they
 * have their own. Operators without a column of their own run the plain ones. */
bt_int_rmsnorm32_fn bt_int_rmsnorm32_ref, bt_int_rmsnorm32_avx2, bt_int_rmsnorm32_neon;
bt_int_headnorm16_fn bt_int_headnorm16_ref;
bt_int_rope16_fn bt_int_rope16_ref, bt_int_rope16_avx2, bt_int_rope16_neon;
bt_int_softmax16_fn bt_int_softmax16_ref, bt_int_softmax16_avx2, bt_int_softmax16_neon;
bt_int_silu_mul16_fn bt_int_silu_mul16_ref, bt_int_silu_mul16_avx2, bt_int_silu_mul16_neon;
bt_int_gelu16_fn bt_int_gelu16_ref;
bt_int_add32_fn bt_int_add32_ref, bt_int_add32_avx2, bt_int_add32_neon;
bt_int_split8_fn bt_int_split8_ref, bt_int_split8_avx2, bt_int_split8_neon;
bt_int_split16_fn bt_int_split16_ref, bt_int_split16_avx2, bt_int_split16_neon;
bt_int_rotate16_fn bt_int_rotate16_ref;
bt_int_from_f16_fn bt_int_from_f16_ref, bt_int_from_f16_avx2, bt_int_from_f16_neon;
bt_int_from_q8_fn bt_int_from_q8_ref, bt_int_from_q8_avx2, bt_int_from_q8_neon;
bt_int_attention16_fn bt_int_attention16_ref, bt_int_attention16_avx2, bt_int_attention16_neon;
bt_int_topk_fn bt_int_topk_ref, bt_int_topk_avx2, bt_int_topk_avx512;
#endif
