/* The loops of GPTQ, compiled for AVX2. */
#if defined(__x86_64__)
#define BT_GPTQ_CODE bt_gptq_avx2
#include "npu/quant/gptq_body.h"
#endif
typedef int bt_gptq_avx2_is_not_empty;
