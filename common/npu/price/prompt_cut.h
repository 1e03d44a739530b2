#ifndef BT_NPU_PROMPT_CUT_H
#define BT_NPU_PROMPT_CUT_H
#include <stddef.h>
#include <stdint.h>
#include "npu/pkg/pkg.h"

/* A prompt as the runs of a package's programs, as the prefill engine makes them. */
typedef struct bt_prompt_cut {
    uint32_t pos, valid, rows, ctx; /* rows: computed, padding too; ctx: of the program's row */
    uint32_t program;               /* the last one gives logits */
} bt_prompt_cut;

enum { BT_PROMPT_CUT_MAX_TOKENS = 1 << 20 };
/* *ret[*ret_len], which the caller frees. tokens: 1 .. the package's context; BT_ELIMIT with both numbers. BT_EARG,
 * BT_ENOMEM. */
bt_err bt_prompt_cut_all(bt_prompt_cut **ret, size_t *ret_len, const bt_pkg *p, size_t tokens, bt_fault *fault);
#endif
