#ifndef BT_KERNELS_INT_VARIANT_H
#define BT_KERNELS_INT_VARIANT_H
#include "kernels/int_kernels.h"

/* The variants of the integer kernels that there are: a kernel has one of its own where the instruction set makes a
 * difference, and rows of the dispatch table (kernels.c) share the others. _ref is the specification, in plain
 * loops. */
bt_int_prepare_fn bt_int_prepare_ref, bt_int_prepare_avx2, bt_int_prepare_avxvnni, bt_int_prepare_avx512vnni;
bt_int_prepare_fn bt_int_prepare_neon, bt_int_prepare_dotprod, bt_int_prepare_i8mm;
bt_int_matmul_fn bt_int_matmul_ref, bt_int_matmul_avx2, bt_int_matmul_avxvnni, bt_int_matmul_avx512vnni;
bt_int_matmul_fn bt_int_matmul_neon, bt_int_matmul_dotprod, bt_int_matmul_i8mm;
bt_int_unpack4_fn bt_int_unpack4_ref, bt_int_unpack4_avx2, bt_int_unpack4_neon;
bt_int_palette_fn bt_int_palette_ref, bt_int_palette_avx2, bt_int_palette_neon;
bt_int_planes_fn bt_int_planes_ref, bt_int_planes_avx2, bt_int_planes_neon;
bt_int_join_fn bt_int_join_ref, bt_int_join_avx2, bt_int_join_neon;
bt_int_requant32_fn bt_int_requant32_ref, bt_int_requant32_avx2, bt_int_requant32_neon;
bt_int_requant64_fn bt_int_requant64_ref, bt_int_requant64_avx2, bt_int_requant64_neon;
bt_int_shadow_fn bt_int_shadow_ref, bt_int_shadow_avx2, bt_int_shadow_neon;

/* Can a row's shadow of `count` be part of a product of 32 bits, and each entry a number of 16? */
static inline bool bt_int_shadow_is_short(const bt_int_shadow *s, size_t count, size_t k)
{
    int64_t room = bt_int_shadow_room(k);
    for (size_t i = 0; i < count; i++) {
        const int64_t size = s[i].r < 0 ? -(int64_t)s[i].r : s[i].r;
        if (size > INT16_MAX) return false;
        room -= size;
    }
    return room >= 0;
}
#endif
