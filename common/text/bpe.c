/* The gpt2 kind: the bytes of each word joined by merge rank. Names in the file write each byte as a
 * printable character; inside, all is bytes. */
#include "text/bpe.h"

#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

/* The byte alphabet: printable Latin-1 bytes are themselves; the 68 others, ascending, are U+0100 and up. */
static bool is_plain(unsigned b)
{
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

static int byte_of(unsigned point)
{
    if (point < 0x100) return is_plain(point) ? (int)point : -1;
    const unsigned k = point - 0x100; /* 0..67: 00..20, 7F..A0, AD */
    return k < 0x21 ? (int)k : k < 0x43 ? (int)(0x7F + k - 0x21) : k == 0x43 ? 0xAD : -1;
}

int bt_bpe_unmap(char *ret, const char *name, size_t len)
{
    int n = 0;
    for (size_t i = 0; i < len;) {
        const int bytes = bt_utf8_next(name + i, len - i);
        if (bytes != 1 && bytes != 2) return -1;
        const unsigned char *p = (const unsigned char *)name + i;
        const int b = byte_of(bytes == 1 ? p[0] : (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu));
        if (b < 0) return -1;
        ret[n++] = (char)b;
        i += (size_t)bytes;
    }
    return n;
}

static size_t slot_of(uint64_t pair, size_t mask)
{
    uint64_t h = pair * 0x9E3779B97F4A7C15u;
    return (size_t)(h ^ h >> 29) & mask;
}

static bt_err bad_merge(size_t i, const char *why, bt_fault *fault)
{
    return bt_fail(fault, BT_EFORMAT, "tokenizer.ggml.merges[%zu]: %s", i, why);
}

/* Whether a control or user-defined token has this name: no word, so that a merge with it joins nothing. */
static bool is_special(const bt_tokenizer *tok, const char *name, size_t len)
{
    size_t lo = 0, hi = tok->specials;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const bt_text_span other = bt_tokenizer_piece(tok, (int32_t)tok->special[mid]);
        const int c = memcmp(other.ptr, name, other.len < len ? other.len : len);
        if (c == 0 && other.len == len) return true;
        if (c < 0 || (c == 0 && other.len < len)) lo = mid + 1;
        else hi = mid;
    }
    return false;
}

bt_err bt_bpe_load_merges(bt_tokenizer *tok, const bt_vocab_source *src, bt_fault *fault)
{
    size_t slots = 64;
    while (slots < 2 * src->merge_count) slots *= 2; /* merge_count <= BT_TOKENIZER_MAX_MERGES */
    if (!(tok->merge = malloc(slots * sizeof *tok->merge)))
        return bt_fail(fault, BT_ENOMEM, "out of memory for the %zu merges of tokenizer.ggml.merges, %zu MiB",
                       src->merge_count, slots * sizeof *tok->merge >> 20);
    tok->merge_mask = slots - 1;
    for (size_t i = 0; i < slots; i++) tok->merge[i].pair = BT_TOKENIZER_NO_PAIR;
    char bytes[2 * BT_TOKENIZER_MAX_TOKEN_BYTES];
    for (size_t i = 0; i < src->merge_count; i++) {
        const bt_text_span m = src->merge(src->ud, i);
        const char *space = m.len > 1 ? memchr(m.ptr, ' ', m.len) : NULL;
        if (!space || space == m.ptr || space == m.ptr + m.len - 1)
            return bad_merge(i, "not two names and a space", fault);
        const size_t left_len = (size_t)(space - m.ptr), right_len = m.len - left_len - 1;
        if (left_len > BT_TOKENIZER_MAX_TOKEN_BYTES || right_len > BT_TOKENIZER_MAX_TOKEN_BYTES)
            return bad_merge(i, "too long", fault);
        const int l = bt_bpe_unmap(bytes, m.ptr, left_len);
        const int r = l < 0 ? -1 : bt_bpe_unmap(bytes + l, space + 1, right_len);
        if (r < 0) return bad_merge(i, "has a character outside the byte alphabet", fault);
        const int32_t left = bt_tokenizer_find_word(tok, bytes, (size_t)l);
        const int32_t right = bt_tokenizer_find_word(tok, bytes + l, (size_t)r);
        const int32_t id = bt_tokenizer_find_word(tok, bytes, (size_t)(l + r));
        if (left < 0 || right < 0 || id < 0) {
            char name[2 * BT_TOKENIZER_MAX_TOKEN_BYTES];
            memcpy(name, m.ptr, left_len);
            memcpy(name + left_len, space + 1, right_len);
            if ((left < 0 && !is_special(tok, m.ptr, left_len)) ||
                (right < 0 && !is_special(tok, space + 1, right_len)) ||
                (id < 0 && !is_special(tok, name, left_len + right_len)))
                return bad_merge(i, "a part or the whole is not in tokenizer.ggml.tokens", fault);
            continue;
        }
        const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
        size_t s = slot_of(pair, tok->merge_mask);
        while (tok->merge[s].pair != BT_TOKENIZER_NO_PAIR && tok->merge[s].pair != pair)
            s = (s + 1) & tok->merge_mask;
        if (tok->merge[s].pair == BT_TOKENIZER_NO_PAIR)
            tok->merge[s] = (bt_tokenizer_merge){pair, (uint32_t)i, id};
    }
    return BT_OK;
}

static bool joins(const void *ud, const char *text, const bt_merge_symbol *left, const bt_merge_symbol *right,
                  uint32_t *ret_rank, int32_t *ret_id)
{
    (void)text;
    const bt_tokenizer *tok = ud;
    const uint64_t pair = (uint64_t)(uint32_t)left->id << 32 | (uint32_t)right->id;
    for (size_t s = slot_of(pair, tok->merge_mask); tok->merge[s].pair != BT_TOKENIZER_NO_PAIR;
         s = (s + 1) & tok->merge_mask) {
        if (tok->merge[s].pair != pair) continue;
        *ret_rank = tok->merge[s].rank;
        *ret_id = tok->merge[s].id;
        return true;
    }
    return false;
}

static bt_err encode_word(void *ud, const char *word, size_t len, bt_fault *fault)
{
    bt_encoder *enc = ud;
    const bt_tokenizer *tok = enc->tok;
    bt_err e = BT_OK;
    const unsigned traits = bt_pretok_traits(tok->pretok);
    if (traits & BT_PRETOK_WHOLE_WORDS) {
        const int32_t id = bt_tokenizer_find_word(tok, word, len);
        if (id >= 0) return bt_tokenizer_emit(enc, id, fault);
    }
    /* Joining a word that has too many tokens in any case would take as long as all the rest. */
    if (tok->max_word_bytes && len / tok->max_word_bytes > enc->count_max - enc->count)
        return bt_fail(fault, BT_ELIMIT, "%s", "");
    bt_merge_clear(&enc->merge);
    for (size_t i = 0; i < len; i++) {
        int32_t id = tok->byte_id[(unsigned char)word[i]];
        if (id < 0 && (id = tok->fallback) < 0) {
            if (traits & BT_PRETOK_REFUSES)
                return bt_tokenizer_no_token((unsigned char)word[i],
                                             enc->at + (size_t)(word + i - enc->plain), fault);
            enc->left_out++; /* what stands around it may join */
            continue;
        }
        if (bt_merge_add(&enc->merge, 1, id) < 0) goto no_memory;
    }
    if (bt_merge_run(&enc->merge, word, joins, tok) < 0) goto no_memory;
    for (uint32_t i = 0; i < enc->merge.len && e == BT_OK; i += enc->merge.slot[i].len)
        e = bt_tokenizer_emit(enc, enc->merge.slot[i].id, fault);
    return e;
no_memory:
    return bt_fail(fault, BT_ENOMEM, "out of memory encoding a word of %zu bytes", len);
}

bt_err bt_bpe_encode(bt_encoder *enc, const char *text, size_t len, bt_fault *fault)
{
    const bt_pretok *p = enc->tok->pretok;
    char *normal = NULL;
    if ((bt_pretok_traits(p) & BT_PRETOK_NFC) && bt_utf8_nfc(&normal, &len, text, len) < 0)
        return bt_fail(fault, BT_ENOMEM, "out of memory composing the characters of %zu bytes of text", len);
    enc->plain = normal ? normal : text;
    const bt_err e = bt_pretok_split(p, enc->plain, len, encode_word, enc, fault);
    free(normal);
    return e;
}
