/* Text to ids: finding special tokens, handing what lies between them to the vocabulary's kind. */
#include "text/tokenizer.h"

#include "text/bpe.h"
#include "text/spm.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- special tokens ---- */

/* Where a control token may be: the piece that the search is in ends at `end`. */
typedef struct reach {
    size_t end;
    bool is_special;
} reach;

/* The first in special[lo .. hi) whose byte k is at least c; all of them agree on the bytes before, and one
 * that ends there counts as less than any byte. */
static size_t lower(const bt_tokenizer *tok, size_t lo, size_t hi, size_t k, unsigned c)
{
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const bt_text_span name = bt_tokenizer_piece(tok, (int32_t)tok->special[mid]);
        if (name.len <= k || (unsigned char)name.ptr[k] < c) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* The longest special token that text[at ..) begins with and that may be there: its id, or -1. */
static int32_t match_special(size_t *ret_len, const bt_tokenizer *tok, const char *text, size_t len,
                             size_t at, reach r)
{
    int32_t best = -1;
    size_t lo = 0, hi = tok->specials;
    for (size_t k = 0; at + k < len && lo < hi;) {
        const unsigned c = (unsigned char)text[at + k];
        lo = lower(tok, lo, hi, k, c);
        hi = lower(tok, lo, hi, k, c + 1);
        k++;
        if (lo == hi) break;
        const int32_t id = (int32_t)tok->special[lo];
        if (bt_tokenizer_piece(tok, id).len != k) continue;
        if (tok->type[id] == BT_TOKEN_USER_DEFINED || (r.is_special && at + k <= r.end)) {
            best = id;
            *ret_len = k;
        }
    }
    return best;
}

/* text[begin .. end), which has no special token in it. */
static bt_err encode_plain(bt_encoder *enc, const char *text, size_t begin, size_t end, bool starts_text,
                           bt_fault *fault)
{
    if (begin == end) return BT_OK;
    enc->at = begin;
    return enc->tok->is_spm ? bt_spm_encode(enc, text + begin, end - begin, starts_text, fault)
                            : bt_bpe_encode(enc, text + begin, end - begin, fault);
}

/* The joined text, and the pieces that say where control tokens may be. */
static bt_err encode_text(bt_encoder *enc, const char *text, size_t len, const bt_text_piece *piece,
                          size_t pieces, bool all_special, bt_fault *fault)
{
    const bt_tokenizer *tok = enc->tok;
    bt_err e;
    size_t plain = 0; /* where the text not yet encoded begins */
    size_t at = 0;
    reach r = {0, all_special};
    bool starts_text = true;
    for (size_t p = 0; p < pieces; p++) {
        r.end += piece[p].len;
        if (all_special) r.end = len;
        r.is_special = all_special || piece[p].is_special;
        if (!r.is_special && !tok->has_user_defined) {
            if (at < r.end) at = r.end;
            continue;
        }
        while (at < r.end) {
            size_t n = 0;
            const int32_t id = tok->is_special_first[(unsigned char)text[at]]
                                   ? match_special(&n, tok, text, len, at, r)
                                   : -1;
            if (id < 0) {
                at++;
                continue;
            }
            if ((e = encode_plain(enc, text, plain, at, starts_text, fault)) < 0) return e;
            if ((e = bt_tokenizer_emit(enc, id, fault)) < 0) return e;
            at += n; /* may end inside a later piece */
            plain = at;
            starts_text = true;
        }
    }
    return encode_plain(enc, text, plain, len, starts_text, fault);
}

/* ---- encoding ---- */

bt_err bt_tokenizer_encode_at_most(int32_t **ret, size_t *ret_count, const bt_tokenizer *tok,
                                   const bt_text_piece *piece, size_t pieces, unsigned flags, size_t ids_max,
                                   bt_fault *fault)
{
    bt_err e = BT_OK;
    char *joined = NULL;
    bt_encoder enc = {.tok = tok, .count_max = ids_max};
    size_t len = 0, bad;
    for (size_t i = 0; i < pieces; i++) {
        if (piece[i].len > BT_TOKENIZER_MAX_TEXT_BYTES - len)
            return bt_fail(fault, BT_ELIMIT, "the text has more than %d bytes, the limit",
                           BT_TOKENIZER_MAX_TEXT_BYTES);
        len += piece[i].len;
    }
    const char *text = pieces == 1 ? piece[0].text : "";
    if (pieces > 1) {
        if (!(joined = malloc(len + 1)))
            return bt_fail(fault, BT_ENOMEM, "out of memory encoding %zu bytes of text", len);
        size_t n = 0;
        for (size_t i = 0; i < pieces; i++) {
            if (piece[i].len > 0) memcpy(joined + n, piece[i].text, piece[i].len);
            n += piece[i].len;
        }
        text = joined;
    }
    if (!bt_utf8_valid(text, len, &bad)) {
        e = bt_fail(fault, BT_EARG, "the text is not valid UTF-8 at byte %zu", bad);
        goto out;
    }
    if ((flags & BT_ENCODE_BOS) && tok->adds_bos && (e = bt_tokenizer_emit(&enc, tok->bos, fault)) < 0)
        goto out;
    if ((e = encode_text(&enc, text, len, piece, pieces, (flags & BT_ENCODE_SPECIAL) != 0, fault)) < 0)
        goto out;
    if (!enc.id && !(enc.id = calloc(1, sizeof *enc.id))) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory encoding text");
        goto out;
    }
    if (enc.left_out > 0) atomic_fetch_add_explicit(tok->left_out, enc.left_out, memory_order_relaxed);
    *ret = enc.id;
    *ret_count = enc.count;
    enc.id = NULL;
out:
    bt_merge_done(&enc.merge);
    free(enc.scratch);
    free(enc.id);
    free(joined);
    return e;
}

bt_err bt_tokenizer_encode_pieces(int32_t **ret, size_t *ret_count, const bt_tokenizer *tok,
                                  const bt_text_piece *piece, size_t pieces, unsigned flags, bt_fault *fault)
{
    return bt_tokenizer_encode_at_most(ret, ret_count, tok, piece, pieces, flags, SIZE_MAX, fault);
}

bt_err bt_tokenizer_encode(int32_t **ret, size_t *ret_count, const bt_tokenizer *tok, const char *text,
                           size_t len, unsigned flags, bt_fault *fault)
{
    const bt_text_piece whole = {text, len, false};
    return bt_tokenizer_encode_pieces(ret, ret_count, tok, &whole, 1, flags, fault);
}
