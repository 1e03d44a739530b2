/* The types of a file's tokens, and those that cannot be right. Converters leave a token that was added to a
 * vocabulary normal, or call a word a control token; then a template's marks become letters, or words are
 * lost. The kind of a token shows elsewhere in the file: words of the gpt2 kind are made by merges, the ends
 * of answers and of the text have ids and well-known names, bytes of the llama kind are called <0x00> to
 * <0xFF>. */
#include "text/bpe.h"
#include "text/spm.h"
#include "text/utf8.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

static const char *const end_names[] = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|endofturn|>",
    "[|endofturn|]",
    "<|END_OF_TURN_TOKEN|>",
    "<end_of_turn>",
    "<turn|>",
    "<end_of_utterance>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
    "</s>",
    "<eos>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
};

static const char *const type_names[] = {
    [0] = "of an unknown type",
    [BT_TOKEN_NORMAL] = "normal",
    [BT_TOKEN_UNKNOWN] = "unknown",
    [BT_TOKEN_CONTROL] = "control",
    [BT_TOKEN_USER_DEFINED] = "user-defined",
    [BT_TOKEN_UNUSED] = "unused",
    [BT_TOKEN_BYTE] = "byte",
};

bool bt_tokenizer_is_text(bt_text_span s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

bool bt_tokenizer_is_end_name(bt_text_span name)
{
    for (size_t i = 0; i < sizeof end_names / sizeof *end_names; i++)
        if (bt_tokenizer_is_text(name, end_names[i])) return true;
    return false;
}

/* At least one byte between two others. */
static bool is_between(bt_text_span s, const char *open, const char *close)
{
    const size_t a = strlen(open), b = strlen(close);
    return s.len > a + b && memcmp(s.ptr, open, a) == 0 && memcmp(s.ptr + s.len - b, close, b) == 0;
}

/* <|...|>, also with full-width bars */
static bool looks_control(bt_text_span name)
{
    return is_between(name, "<|", "|>") || is_between(name, "<\xEF\xBD\x9C", "\xEF\xBD\x9C>");
}

static bool is_bracketed(bt_text_span name)
{
    return is_between(name, "<", ">") || is_between(name, "[", "]");
}

/* An id that the file gives for an end of something, or its beginning; or a name that the field uses for it.
 */
static bool is_end(const bt_vocab_source *src, size_t i, bt_text_span name)
{
    const int64_t id = (int64_t)i;
    return id == src->bos || id == src->eos || id == src->eot || id == src->eom ||
           bt_tokenizer_is_end_name(name);
}

/* ---- names that merges make ---- */

/* Tokens whose type may be wrong, by name. */
typedef struct suspects {
    uint32_t *slot; /* an open hash table: id + 1, 0 empty */
    size_t mask;
    bool *is_made; /* [tokens] */
} suspects;

/* The slot of a name: its first token's, or an empty one. */
static uint32_t *slot_of(const suspects *s, const bt_vocab_source *src, const char *name, size_t len)
{
    for (size_t i = (size_t)bt_hash64(name, len) & s->mask;; i = (i + 1) & s->mask) {
        if (s->slot[i] == 0) return &s->slot[i];
        const bt_text_span other = src->token(src->ud, s->slot[i] - 1);
        if (other.len == len && memcmp(other.ptr, name, len) == 0) return &s->slot[i];
    }
}

static bool is_suspect(const bt_vocab_source *src, size_t i, int type, bt_text_span name)
{
    if (name.len == 0) return false;
    if (type == BT_TOKEN_NORMAL) return looks_control(name) || is_end(src, i, name);
    return true;
}

/* Sets is_made of each token that a merge makes, or that is one byte, among those whose type is in doubt. */
static bt_err find_made(suspects *s, const bt_tokenizer *tok, const bt_vocab_source *src, bt_fault *fault)
{
    char whole[2 * BT_TOKENIZER_MAX_TOKEN_BYTES], byte[BT_TOKENIZER_MAX_TOKEN_BYTES];
    size_t n = 0, slots = 64;
    for (size_t i = 0; i < tok->count; i++) n += is_suspect(src, i, tok->type[i], src->token(src->ud, i));
    while (slots < 2 * n) slots *= 2;
    s->mask = slots - 1;
    s->slot = calloc(slots, sizeof *s->slot);
    s->is_made = calloc(tok->count, sizeof *s->is_made);
    if (!s->slot || !s->is_made)
        return bt_fail(fault, BT_ENOMEM, "out of memory for %zu tokens of tokenizer.ggml.token_type", n);
    for (size_t i = 0; i < tok->count; i++) {
        const bt_text_span name = src->token(src->ud, i);
        if (!is_suspect(src, i, tok->type[i], name)) continue;
        uint32_t *slot = slot_of(s, src, name.ptr, name.len);
        if (*slot == 0) *slot = (uint32_t)i + 1;
        s->is_made[i] = name.len <= 2 && bt_bpe_unmap(byte, name.ptr, name.len) == 1;
    }
    for (size_t i = 0; n > 0 && i < src->merge_count; i++) {
        const bt_text_span m = src->merge(src->ud, i);
        const char *space = m.len > 0 && m.len <= sizeof whole ? memchr(m.ptr, ' ', m.len) : NULL;
        if (!space) continue; /* refused where merges are read */
        const size_t left = (size_t)(space - m.ptr);
        memcpy(whole, m.ptr, left);
        memcpy(whole + left, space + 1, m.len - left - 1);
        const uint32_t *slot = slot_of(s, src, whole, m.len - 1);
        if (*slot > 0) s->is_made[*slot - 1] = true;
    }
    return BT_OK;
}

/* ---- judging ---- */

static int judge_bpe(const bt_vocab_source *src, size_t i, int type, bt_text_span name, bool is_made)
{
    if (type == BT_TOKEN_NORMAL && !is_made && (looks_control(name) || is_end(src, i, name)))
        return BT_TOKEN_CONTROL;
    if (type == BT_TOKEN_UNUSED && !is_made && is_end(src, i, name)) return BT_TOKEN_CONTROL;
    if (!is_made || is_end(src, i, name) || type == BT_TOKEN_USER_DEFINED) return type;
    if (type == BT_TOKEN_CONTROL && is_bracketed(name)) return type;
    if (type == BT_TOKEN_UNKNOWN && (int64_t)i == src->unk) return type;
    return BT_TOKEN_NORMAL;
}

static int judge_spm(const bt_vocab_source *src, size_t i, int type, bt_text_span name,
                     const bool has_byte[256])
{
    const int b = bt_spm_byte(name.ptr, name.len);
    if (type == BT_TOKEN_BYTE) return b < 0 ? BT_TOKEN_NORMAL : type;
    if (b >= 0 && !has_byte[b] &&
        (type == BT_TOKEN_NORMAL || type == BT_TOKEN_CONTROL || type == BT_TOKEN_USER_DEFINED))
        return BT_TOKEN_BYTE;
    if (type == BT_TOKEN_NORMAL && (int64_t)i == src->unk) return BT_TOKEN_UNKNOWN;
    if (type == BT_TOKEN_NORMAL && (looks_control(name) || is_end(src, i, name))) return BT_TOKEN_CONTROL;
    if (type == BT_TOKEN_UNUSED && is_end(src, i, name)) return BT_TOKEN_CONTROL;
    return type;
}

static void remark(bt_tokenizer *tok, const bt_vocab_source *src, size_t mended, size_t first, int was)
{
    char shown[48];
    const bt_text_span name = src->token(src->ud, first);
    bt_tokenizer_remark_on(tok,
                           "%zu of tokenizer.ggml.token_type cannot be right; token %zu, '%s', is %s, not %s",
                           mended, first, bt_utf8_show(shown, sizeof shown, name.ptr, name.len),
                           type_names[tok->type[first]], src->type ? type_names[was] : "without a type");
}

bt_err bt_tokenizer_read_types(bt_tokenizer *tok, const bt_vocab_source *src, bt_fault *fault)
{
    bool has_byte[256] = {false};
    suspects s = {0};
    size_t mended = 0, first = 0;
    int was = 0;
    bt_err e = BT_OK;
    for (size_t i = 0; i < tok->count; i++) {
        const int32_t type = src->type ? src->type(src->ud, i) : BT_TOKEN_NORMAL;
        const bt_text_span name = src->token(src->ud, i);
        const int b = tok->is_spm && type == BT_TOKEN_BYTE ? bt_spm_byte(name.ptr, name.len) : -1;
        if (b >= 0) has_byte[b] = true;
        tok->type[i] = type < BT_TOKEN_NORMAL || type > BT_TOKEN_BYTE ? 0 : (uint8_t)type;
    }
    if (!tok->is_spm && (e = find_made(&s, tok, src, fault)) < 0) goto out;
    for (size_t i = 0; i < tok->count; i++) {
        const bt_text_span name = src->token(src->ud, i);
        const int said = tok->type[i], type = said ? said : BT_TOKEN_NORMAL;
        const int is = tok->is_spm ? judge_spm(src, i, type, name, has_byte)
                                   : judge_bpe(src, i, type, name, s.is_made[i]);
        tok->type[i] = (uint8_t)is;
        if (is == said) continue;
        if (mended == 0) {
            first = i;
            was = said;
        }
        mended++;
    }
    if (mended > 0) remark(tok, src, mended, first, was);
out:
    free(s.slot);
    free(s.is_made);
    return e;
}
