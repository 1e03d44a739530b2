/* The loops of GPTQ for any machine. */
#define BT_GPTQ_CODE bt_gptq_ref
#include "npu/gptq_body.h"
