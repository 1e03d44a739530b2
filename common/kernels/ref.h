#ifndef BT_KERNELS_REF_H
#define BT_KERNELS_REF_H
#include "kernels/kernels.h"

/* The plain loops that every other variant must equal bit for bit. They read like the formulas in kernels.h
 * and are never made faster. Their fma is the C library's fmaf: exact by IEEE 754, on any CPU. */
#define BT_VARIANT(name) name##_ref
#include "kernels/variant.h"
#undef BT_VARIANT

/* dot in the order of kernels.h. */
float bt_dot_ref(const float *a, const float *b, size_t count);
#endif
