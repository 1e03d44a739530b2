#ifndef BT_TOOLS_BENCH_INT_H
#define BT_TOOLS_BENCH_INT_H
#include "tools/bench/bench_pass.h"

/* The integer kernels of linear layers, part of what bench_kernels.h promises. n outputs, k inputs, t rows. */

/* One product of 8-bit weights, for each row of the table. */
bt_err tool_int_product(tool_kernel_run *r, size_t n, size_t k, size_t t);

/* The kernels that make panels of 8 bits from other forms, that join sums, and that make the shadow of a row; then the
 * product in one form of weights and inputs after the other, by the kernels that a layer calls for it: how much more a
 * group or a palette costs than 8 bits. A form whose runs do not divide k is left out. */
bt_err tool_int_kernels(tool_kernel_run *r, size_t n, size_t k);
#endif
