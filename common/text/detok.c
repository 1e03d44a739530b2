/* Tokens come as bytes, text goes out as characters: an unfinished character waits in `tail`. */
#include "text/detok.h"

#include "text/utf8.h"

#include <string.h>

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

void bt_detok_init(bt_detok *d, const bt_tokenizer *tok, unsigned flags)
{
    *d = (bt_detok){.tok = tok, .is_special_shown = (flags & BT_DETOK_SPECIAL) != 0,
                    .drop_space = (flags & BT_DETOK_START) != 0 && bt_tokenizer_adds_space(tok)};
}

static bt_err add_byte(bt_buf *out, bt_detok *d, char byte)
{
    bt_err e;
    d->tail[d->tail_len++] = byte; /* the tail was at most 3 long */
    while (d->tail_len > 0) {
        const int n = bt_utf8_next(d->tail, d->tail_len);
        if (n == 0) return BT_OK;
        e = n > 0 ? bt_buf_add(out, d->tail, (size_t)n) : bt_buf_str(out, replacement);
        if (e < 0) return e;
        const int used = n > 0 ? n : -n;
        memmove(d->tail, d->tail + used, (size_t)(d->tail_len - used));
        d->tail_len = (uint8_t)(d->tail_len - used);
    }
    return BT_OK;
}

bt_err bt_detok_push(bt_buf *out, bt_detok *d, int32_t id, bt_fault *fault)
{
    bt_err e = BT_OK;
    const bt_token_type type = bt_tokenizer_type(d->tok, id);
    bt_text_span piece = bt_tokenizer_piece(d->tok, id);
    if (!piece.ptr)
        return bt_fail(fault, BT_EARG, "token id %d: the vocabulary has %zu tokens", id,
                       bt_tokenizer_count(d->tok));
    const bool is_text = type == BT_TOKEN_NORMAL || type == BT_TOKEN_USER_DEFINED || type == BT_TOKEN_BYTE;
    if (!is_text && !d->is_special_shown) return BT_OK;
    if (type == BT_TOKEN_NORMAL && d->drop_space && piece.len > 0 && piece.ptr[0] == ' ') {
        piece.ptr++;
        piece.len--;
    }
    d->drop_space = false;
    for (size_t i = 0; i < piece.len && e == BT_OK; i++) e = add_byte(out, d, piece.ptr[i]);
    return e < 0 ? bt_fail(fault, e, "the text has more than %zu bytes, its limit", out->limit_bytes) : BT_OK;
}

bt_err bt_detok_finish(bt_buf *out, bt_detok *d, bt_fault *fault)
{
    const bool is_open = d->tail_len > 0;
    d->tail_len = 0;
    d->drop_space = false;
    if (is_open && bt_buf_str(out, replacement) < 0)
        return bt_fail(fault, out->err, "the text has more than %zu bytes, its limit", out->limit_bytes);
    return BT_OK;
}

bt_err bt_detok_all(bt_buf *out, const bt_tokenizer *tok, const int32_t *ids, size_t count, unsigned flags,
                    bt_fault *fault)
{
    bt_err e = BT_OK;
    bt_detok d;
    bt_detok_init(&d, tok, flags);
    for (size_t i = 0; i < count && e == BT_OK; i++) e = bt_detok_push(out, &d, ids[i], fault);
    return e < 0 ? e : bt_detok_finish(out, &d, fault);
}
