/* The loops of rounding for any machine. */
#define BT_ROUNDING_CODE bt_rounding_ref
#include "npu/compile/rounding_body.h"
