/* The loops of GPTQ, compiled for any machine. */
#define BT_GPTQ_CODE bt_gptq_ref
#include "npu/quant/gptq_body.h"
