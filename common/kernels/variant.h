#ifndef BT_KERNELS_VARIANT_H
#define BT_KERNELS_VARIANT_H
#include "kernels/kernels.h"

/* Declares every variant of every kernel, from the list of kernels.h, for the files that define them and for the
 * dispatch table. Every variant must equal the plain loops, _ref, bit for bit. The plain loops read like the formulas
 * of the headers and are never made faster. Their fma is the C library's fmaf: exact by IEEE 754, on any CPU. */
#define BT_OF_WIDTH(f)   f##_ref, f##_avx2, f##_avx512, f##_neon
#define BT_OF_BYTES(f)   f##_ref, f##_avx2, f##_avxvnni, f##_avx512vnni, f##_neon, f##_dotprod, f##_i8mm
#define BT_OF_INTEGER(f) f##_ref, f##_avx2, f##_neon
#define BT_OF_LANES(f)   f##_ref, f##_avx2, f##_avx512
#define BT_OF_PLAIN(f)   f##_ref

#define BT_DECLARE(name, function, kind, with) function##_fn BT_OF_##kind(function);
BT_KERNELS(BT_DECLARE, )
#undef BT_DECLARE

/* The dot product of a and b in the order "dot" of kernels.h. */
float bt_dot_ref(const float *a, const float *b, size_t count);
#endif
