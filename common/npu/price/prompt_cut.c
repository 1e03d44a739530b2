/* The rule is that of npu/pkg/shapes.h, over the package's own rows. */
#include "npu/price/prompt_cut.h"
#include "npu/pkg/pkg_shapes.h"

#include <stdlib.h>

bt_err bt_prompt_cut_all(bt_prompt_cut **ret, size_t *ret_len, const bt_pkg *p, size_t tokens,
                         bt_fault *fault)
{
    bt_shapes shapes;
    const uint32_t ctx = bt_pkg_header_of(p)->ctx_tokens;
    size_t n = 0;
    if (!tokens || tokens > ctx || tokens > BT_PROMPT_CUT_MAX_TOKENS)
        return bt_fail(fault, BT_ELIMIT, "a prompt of %zu tokens: 1 to %u, the package's context", tokens,
                       ctx < BT_PROMPT_CUT_MAX_TOKENS ? ctx : BT_PROMPT_CUT_MAX_TOKENS);
    bt_err e = bt_pkg_shapes(&shapes, p, fault);
    if (e < 0) return e;
    bt_prompt_cut *list = calloc(bt_shapes_launches(&shapes, tokens) + 1, sizeof *list);
    if (!list) return bt_fail(fault, BT_ENOMEM, "cutting a prompt of %zu tokens", tokens);
    for (size_t begin = 0; e == BT_OK && begin < tokens; n++) {
        const bt_shapes_chunk c = bt_shapes_next(&shapes, tokens, begin);
        const bt_pkg_row *row = NULL;
        e = bt_pkg_find_row(&row, p, shapes.shape[0].batch, c.rows, begin + c.valid, fault);
        if (e < 0) break;
        const bool is_last = begin + c.valid == tokens;
        list[n] = (bt_prompt_cut){(uint32_t)begin, (uint32_t)c.valid, (uint32_t)c.rows, row->ctx,
                                  row->program[is_last ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE]};
        begin += c.valid;
    }
    if (e < 0) {
        free(list);
        return e;
    }
    *ret = list;
    *ret_len = n;
    return BT_OK;
}
