/* The loops of rounding, compiled for AVX2. */
#if defined(__x86_64__)
#define BT_ROUNDING_CODE bt_rounding_avx2
#include "npu/quant/rounding_body.h"
#endif
typedef int bt_rounding_avx2_is_not_empty;
