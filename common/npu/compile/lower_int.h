#ifndef BT_NPU_LOWER_INT_H
#define BT_NPU_LOWER_INT_H
#include "npu/compile/lower_build.h"

/* Lowers the whole graph for npu_ops all; for lower.c only. BT_EARG naming an operator that is not on the NPU. */
bt_err bt_lower_int(bt_lower_build *b, bt_fault *fault);
#endif
