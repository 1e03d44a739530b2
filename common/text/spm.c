/* The llama kind: characters joined by score, and bytes for characters that are no token. The mark U+2581
 * that such vocabularies write for a space is a space here, in words and in text alike: to them the two are
 * the same. */
#include "text/spm.h"

#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

static const char mark[] = "\xE2\x96\x81";
enum { MARK_BYTES = 3 };

int bt_spm_unmap(char *ret, const char *name, size_t len)
{
    int n = 0;
    for (size_t i = 0; i < len;) {
        if (name[i] == ' ') return -1;
        if (len - i >= MARK_BYTES && memcmp(name + i, mark, MARK_BYTES) == 0) {
            ret[n++] = ' ';
            i += MARK_BYTES;
        } else {
            ret[n++] = name[i++];
        }
    }
    return n;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

int bt_spm_byte(const char *name, size_t len)
{
    if (len != 6 || memcmp(name, "<0x", 3) != 0 || name[5] != '>') return -1;
    const int hi = hex(name[3]), lo = hex(name[4]);
    return hi < 0 || lo < 0 ? -1 : 16 * hi + lo;
}

/* Higher scores first: the bits of a float, made to sort downwards as an unsigned number. */
static uint32_t rank_of(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 becomes 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? bits : 0x7FFFFFFFu - bits;
}

static bool joins(const void *ud, const char *text, const bt_merge_symbol *left, const bt_merge_symbol *right,
                  uint32_t *ret_rank, int32_t *ret_id)
{
    const bt_tokenizer *tok = ud;
    const int32_t id = bt_tokenizer_find_word(tok, text + left->begin, (size_t)left->len + right->len);
    if (id < 0) return false;
    *ret_rank = rank_of(tok->score[id]);
    *ret_id = id;
    return true;
}

static bt_err emit_bytes(bt_encoder *enc, const char *text, size_t len, bt_fault *fault)
{
    bt_err e = BT_OK;
    for (size_t i = 0; i < len; i++) {
        if (enc->tok->byte_id[(unsigned char)text[i]] >= 0) continue;
        if (enc->tok->fallback < 0) return bt_tokenizer_no_token((unsigned char)text[i], fault);
        return bt_tokenizer_emit(enc, enc->tok->fallback, fault); /* one for the whole character */
    }
    for (size_t i = 0; i < len && e == BT_OK; i++)
        e = bt_tokenizer_emit(enc, enc->tok->byte_id[(unsigned char)text[i]], fault);
    return e;
}

bt_err bt_spm_encode(bt_encoder *enc, const char *text, size_t len, bool starts_text, bt_fault *fault)
{
    const bt_tokenizer *tok = enc->tok;
    bt_err e;
    if (enc->scratch_cap < len + 1) {
        char *p = realloc(enc->scratch, len + 1);
        if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory encoding %zu bytes of text", len);
        enc->scratch = p;
        enc->scratch_cap = len + 1;
    }
    bt_merge_clear(&enc->merge);
    size_t n = 0;
    if (tok->adds_space && starts_text) enc->scratch[n++] = ' ';
    for (size_t i = 0; i < len;) {
        if (len - i >= MARK_BYTES && memcmp(text + i, mark, MARK_BYTES) == 0) {
            enc->scratch[n++] = ' ';
            i += MARK_BYTES;
        } else {
            enc->scratch[n++] = text[i++];
        }
    }
    for (size_t i = 0; i < n;) {
        const int bytes = bt_utf8_next(enc->scratch + i, n - i); /* text is valid: 1 to 4 */
        if (bt_merge_add(&enc->merge, (uint32_t)bytes,
                         bt_tokenizer_find_word(tok, enc->scratch + i, (size_t)bytes)) < 0)
            return bt_fail(fault, BT_ENOMEM, "out of memory encoding %zu bytes of text", len);
        i += (size_t)bytes;
    }
    if (bt_merge_run(&enc->merge, enc->scratch, joins, tok) < 0)
        return bt_fail(fault, BT_ENOMEM, "out of memory encoding %zu bytes of text", len);
    for (uint32_t i = 0; i != BT_MERGE_NONE; i = enc->merge.symbol[i].next) {
        const bt_merge_symbol *s = &enc->merge.symbol[i];
        e = s->id >= 0 ? bt_tokenizer_emit(enc, s->id, fault)
                       : emit_bytes(enc, enc->scratch + s->begin, s->len, fault);
        if (e < 0) return e;
    }
    return BT_OK;
}
