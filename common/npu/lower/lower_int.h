#ifndef BT_NPU_LOWER_INT_H
#define BT_NPU_LOWER_INT_H
#include "npu/lower/lower_build.h"

/* An operator of the graph, no linear, as instructions of the NPU; for lower_ops.c only. */
void bt_lower_int(bt_lower_build *b, size_t at);
/* What the linears from graph operator `first` on read, as s32 in units of their site: written so, or attention's s16
 * with its unit changed. */
uint64_t bt_lower_int_site(bt_lower_build *b, size_t first);
#endif
