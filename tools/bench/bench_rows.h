#ifndef BT_TOOLS_BENCH_ROWS_H
#define BT_TOOLS_BENCH_ROWS_H
#include "tools/bench/bench_pass.h"

/* The kernels that go over rows of activations, part of what bench_kernels.h promises. */
bt_err tool_row_kernels(tool_kernel_run *r);
#endif
