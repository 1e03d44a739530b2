/* The loops of rounding, compiled for any machine. */
#define BT_ROUNDING_CODE bt_rounding_ref
#include "npu/quant/rounding_body.h"
