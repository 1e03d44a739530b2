/* Copies between pages and the neutral layout, run by run: the tokens of one page and plane are contiguous in
 * both. */
#include "kv/kv_pack.h"

#include "base/num.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "KV rows travel as they lie in memory, little-endian");

size_t bt_kv_pack_bytes(const bt_kv_view *v, size_t token_count)
{
    size_t n;
    return bt_mul_size(&n, 2 * v->token_bytes, token_count) ? n : 0;
}

/* The rows of [token, end) that lie together in one page and plane; *ret_bytes of them, *token moves past
 * them. */
static uint8_t *next_run(size_t *ret_bytes, size_t *token, const bt_kv_view *v, size_t layer, int is_v,
                         size_t end)
{
    uint8_t *rows = bt_kv_view_row(v, layer, is_v, *token, 0);
    size_t n = v->page_tokens - *token % v->page_tokens;
    if (n > end - *token) n = end - *token;
    *ret_bytes = n * v->token_bytes;
    *token += n;
    return rows;
}

static bt_err check_range(const bt_kv_view *v, size_t layer, size_t begin, size_t count, size_t bytes,
                          bt_fault *fault)
{
    if (layer >= v->layers) return bt_fail(fault, BT_EARG, "kv pack: layer %zu of %u", layer, v->layers);
    if (count == 0 || begin > v->tokens_capacity || count > v->tokens_capacity - begin)
        return bt_fail(fault, BT_EARG, "kv pack: %zu tokens from %zu, the pages hold %zu", count, begin,
                       v->tokens_capacity);
    if (v->window_page && begin < v->window_begin && !bt_kv_sees_all(v->global_every, layer))
        return bt_fail(fault, BT_EARG, "kv pack: tokens from %zu of layer %zu: rows before %zu are gone",
                       begin, layer, v->window_begin);
    if (bytes != bt_kv_pack_bytes(v, count))
        return bt_fail(fault, BT_EARG, "kv pack: %zu bytes for %zu tokens, must be %zu", bytes, count,
                       bt_kv_pack_bytes(v, count));
    return BT_OK;
}

bt_err bt_kv_pack_take(uint8_t *ret, size_t ret_bytes, const bt_kv_view *v, size_t layer, size_t token_begin,
                       size_t token_count, bt_fault *fault)
{
    const bt_err e = check_range(v, layer, token_begin, token_count, ret_bytes, fault);
    if (e < 0) return e;
    for (int is_v = 0; is_v < 2; is_v++)
        for (size_t t = token_begin, n; t < token_begin + token_count; ret += n) {
            const uint8_t *rows = next_run(&n, &t, v, layer, is_v, token_begin + token_count);
            memcpy(ret, rows, n);
        }
    return BT_OK;
}

bt_err bt_kv_pack_place(const bt_kv_view *v, size_t layer, size_t token_begin, size_t token_count,
                        const uint8_t *body, size_t body_bytes, bt_fault *fault)
{
    const bt_err e = check_range(v, layer, token_begin, token_count, body_bytes, fault);
    if (e < 0) return e;
    for (int is_v = 0; is_v < 2; is_v++)
        for (size_t t = token_begin, n; t < token_begin + token_count; body += n) {
            uint8_t *rows = next_run(&n, &t, v, layer, is_v, token_begin + token_count);
            memcpy(rows, body, n);
        }
    return BT_OK;
}

static void add_rows(bt_hash_stream *s, const bt_kv_view *v, size_t layer, size_t begin, size_t end)
{
    for (int is_v = 0; is_v < 2; is_v++)
        for (size_t t = begin, n; t < end;) {
            const uint8_t *rows = next_run(&n, &t, v, layer, is_v, end);
            bt_hash_add(s, rows, n);
        }
}

bt_err bt_kv_pack_check(const bt_kv_view *v, const bt_kv_header *h, bt_fault *fault)
{
    const bt_err e = check_range(v, h->layer, h->token_begin, h->token_count, h->body_bytes, fault);
    if (e < 0) return e;
    bt_hash_stream s;
    uint8_t digest[16];
    bt_kv_header_digest_begin(&s, h);
    add_rows(&s, v, h->layer, h->token_begin, (size_t)h->token_begin + h->token_count);
    bt_hash_end(digest, &s);
    if (memcmp(digest, h->digest, 16) == 0) return BT_OK;
    return bt_fail(fault, BT_EFORMAT, "kv block: layer %u, tokens from %u: wrong digest", h->layer,
                   h->token_begin);
}

bt_err bt_kv_pack_digest(uint8_t ret[static 16], const bt_kv_view *v, size_t tokens, bt_fault *fault)
{
    bt_err e = check_range(v, 0, 0, tokens, bt_kv_pack_bytes(v, tokens), fault);
    if (e == BT_OK && v->window_begin)
        e = bt_fail(fault, BT_EARG, "kv pack: rows of window layers before %zu are gone", v->window_begin);
    if (e < 0) return e;
    bt_hash_stream s;
    bt_hash_begin(&s);
    for (size_t layer = 0; layer < v->layers; layer++) add_rows(&s, v, layer, 0, tokens);
    bt_hash_end(ret, &s);
    return BT_OK;
}
