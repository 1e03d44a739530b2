#ifndef BT_NPU_LOWER_OPS_H
#define BT_NPU_LOWER_OPS_H
#include "npu/lower/lower_build.h"

/* Lowers every operator of the graph on the unit that it was given to; for lower.c only. */
void bt_lower_ops(bt_lower_build *b);
#endif
