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

/* Where in the text the character is that stands at n in the scratch. */
static size_t place_in_text(const char *text, size_t len, bool has_space, size_t n)
{
    size_t i = 0;
    for (size_t k = has_space; k < n; k++)
        i += len - i >= MARK_BYTES && memcmp(text + i, mark, MARK_BYTES) == 0 ? MARK_BYTES : 1;
    return i;
}

/* The first byte of the symbol that the vocabulary has no token for, or len. */
static size_t missing_byte(const bt_encoder *enc, const bt_merge_symbol *s)
{
    size_t i = 0;
    while (i < s->len && enc->tok->byte_id[(unsigned char)enc->scratch[s->begin + i]] >= 0) i++;
    return i;
}

static bt_err emit_bytes(bt_encoder *enc, const bt_merge_symbol *s, bt_fault *fault)
{
    bt_err e = BT_OK;
    for (size_t i = 0; i < s->len && e == BT_OK; i++)
        e = bt_tokenizer_emit(enc, enc->tok->byte_id[(unsigned char)enc->scratch[s->begin + i]], fault);
    return e;
}

/* The ids of the joined row. Characters without tokens that follow each other are one unknown token. */
static bt_err emit_row(bt_encoder *enc, const char *text, size_t len, bool has_space, bt_fault *fault)
{
    bt_err e = BT_OK;
    bool was_unknown = false;
    bt_merge_symbol s;
    for (uint32_t i = 0; i < enc->merge.len && e == BT_OK; i += s.len) {
        s = bt_merge_at(&enc->merge, i);
        const size_t missing = s.id >= 0 ? s.len : missing_byte(enc, &s);
        const bool is_unknown = missing < s.len;
        if (is_unknown && enc->tok->fallback < 0)
            return bt_tokenizer_no_token((unsigned char)enc->scratch[i + missing],
                                         enc->at + place_in_text(text, len, has_space, i + missing), fault);
        if (!is_unknown) e = s.id >= 0 ? bt_tokenizer_emit(enc, s.id, fault) : emit_bytes(enc, &s, fault);
        else if (!was_unknown) e = bt_tokenizer_emit(enc, enc->tok->fallback, fault);
        was_unknown = is_unknown;
    }
    return e;
}

bt_err bt_spm_encode(bt_encoder *enc, const char *text, size_t len, bool starts_text, bt_fault *fault)
{
    const bt_tokenizer *tok = enc->tok;
    const bool has_space = tok->adds_space && starts_text;
    if (enc->scratch_cap < len + 1) {
        char *p = realloc(enc->scratch, len + 1);
        if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory encoding %zu bytes of text", len);
        enc->scratch = p;
        enc->scratch_cap = len + 1;
    }
    bt_merge_clear(&enc->merge);
    size_t n = 0;
    if (has_space) enc->scratch[n++] = ' ';
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
    return emit_row(enc, text, len, has_space, fault);
}
