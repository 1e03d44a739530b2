#ifndef BT_TOOLS_BENCH_SPARSE_H
#define BT_TOOLS_BENCH_SPARSE_H
#include "tools/bench/bench_pass.h"

/* The kernels of sparse attention, part of what bench_kernels.h promises. */
bt_err tool_sparse_kernels(tool_kernel_run *r);
#endif
