/* Decides which arriving block is placed. See xfer_recv.h. */
#include "xfer/xfer_recv.h"
#include "base/num.h"
#include "kernels/kv_view.h"

#include <string.h>

uint32_t bt_xfer_first_token(const bt_kv_shape *shape, uint32_t layer, uint32_t prompt_tokens)
{
    const bool sees_all = bt_kv_sees_all(shape->global_every, layer);
    return sees_all ? 0 : (uint32_t)bt_kv_first_sent(shape->window, prompt_tokens);
}

bt_err bt_xfer_recv_init(bt_xfer_recv *r, const bt_kv_shape *shape, uint32_t prompt_tokens, bt_fault *fault)
{
    bt_kv_cover *cover = NULL;
    bt_err e = bt_kv_cover_new(&cover, shape->layers, prompt_tokens, fault);
    if (e < 0) return e;
    *r = (bt_xfer_recv){.cover = cover, .shape = *shape, .prompt_tokens = prompt_tokens};
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        const uint32_t first = bt_xfer_first_token(shape, layer, prompt_tokens);
        if (first) (void)bt_kv_cover_mark(cover, &(bt_kv_range){layer, 0, first}, NULL);
    }
    return BT_OK;
}

void bt_xfer_recv_done(bt_xfer_recv *r)
{
    bt_kv_cover_free(r->cover);
    memset(r, 0, sizeof *r);
}

void bt_xfer_recv_has(bt_xfer_recv *r, uint32_t tokens)
{
    for (uint32_t layer = 0; tokens > 0 && layer < r->shape.layers; layer++)
        (void)bt_kv_cover_mark(r->cover, &(bt_kv_range){layer, 0, tokens}, NULL);
}

bt_xfer_verdict bt_xfer_recv_block(bt_xfer_recv *r, const bt_kv_range *range, uint64_t bytes)
{
    uint32_t fresh = 0;
    if (bt_kv_cover_new_tokens(&fresh, r->cover, range, NULL) < 0) return BT_XFER_RANGE;
    if (bytes == 0 || bytes != bt_xfer_block_bytes(&r->shape, range->token_count)) return BT_XFER_RANGE;
    if (r->placing) return BT_XFER_BUSY;
    if (fresh != range->token_count) return BT_XFER_REPEAT;
    r->placing = true;
    return BT_XFER_PLACE;
}

void bt_xfer_recv_placed(bt_xfer_recv *r, const bt_kv_range *range, bool is_good)
{
    if (!r->placing) return;
    r->placing = false;
    if (is_good) (void)bt_kv_cover_mark(r->cover, range, NULL); /* legal: _block looked at it */
}

bool bt_xfer_recv_is_complete(const bt_xfer_recv *r)
{
    return !r->placing && bt_kv_cover_is_complete(r->cover);
}

uint64_t bt_xfer_block_bytes(const bt_kv_shape *shape, uint32_t tokens)
{
    size_t n = 0;
    const size_t head = bt_kv_head_bytes(bt_kv_dtype_elem_bytes(shape->dtype), shape->head_dim);
    return bt_mul_size(&n, tokens, shape->kv_heads) && bt_mul_size(&n, n, 2 * head) ? n : 0;
}
