/* Words for numbers that left their range. */
#include "engine/overflow.h"

#include <stdio.h>

static const char advice[] =
    "this model overflows on this prompt; other weights of it, or another recipe, may not";

bt_err bt_overflow_fail(const bt_overflow *o, uint32_t kv_elem_bytes, bt_fault *fault)
{
    bt_overflow_place at;
    char where[64];
    if (!bt_overflow_get(&at, o)) return BT_OK;
    if (at.layer == BT_OVERFLOW_NO_LAYER) snprintf(where, sizeof where, "token %zu", at.pos);
    else snprintf(where, sizeof where, "layer %u, token %zu", at.layer, at.pos);
    if (at.what == BT_OVERFLOW_INPUT)
        return bt_fail(fault, BT_ERANGE, "%s: the input of an integer operator is not finite: %s", where,
                       advice);
    if (at.what == BT_OVERFLOW_LOGITS)
        return bt_fail(fault, BT_ERANGE, "%s: logits are not finite: %s", where, advice);
    const char *name = at.what == BT_OVERFLOW_K ? "K" : "V";
    if (kv_elem_bytes == 2)
        return bt_fail(
            fault, BT_ERANGE,
            "%s: %s is beyond what f16 KV holds (65,504), or no number; --kv-dtype int8 holds 8,319,008",
            where, name);
    if (kv_elem_bytes == 1)
        return bt_fail(fault, BT_ERANGE, "%s: %s is beyond what int8 KV holds (8,319,008), or no number: %s",
                       where, name, advice);
    return bt_fail(fault, BT_ERANGE, "%s: %s is not finite: %s", where, name, advice);
}

void bt_overflow_look_at_logits(bt_overflow *o, size_t pos0, const float *logits, size_t rows, size_t vocab)
{
    const bt_overflow_place at = {.layer = BT_OVERFLOW_NO_LAYER, .what = BT_OVERFLOW_LOGITS};
    bt_overflow_look(o, at, pos0, logits, vocab, rows, vocab, __builtin_inff());
}
