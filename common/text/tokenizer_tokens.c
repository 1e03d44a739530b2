/* A tokenizer's facts about its tokens, and the list of ids that an encoding grows. */
#include "text/tokenizer_private.h"

#include "base/hash.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t bt_tokenizer_count(const bt_tokenizer *tok) { return tok->count; }
int32_t bt_tokenizer_bos(const bt_tokenizer *tok) { return tok->bos; }
int32_t bt_tokenizer_eos(const bt_tokenizer *tok) { return tok->eos; }
int32_t bt_tokenizer_eot(const bt_tokenizer *tok) { return tok->eot; }
int32_t bt_tokenizer_unk(const bt_tokenizer *tok) { return tok->unk; }
bool bt_tokenizer_adds_bos(const bt_tokenizer *tok) { return tok->adds_bos; }
bool bt_tokenizer_adds_space(const bt_tokenizer *tok) { return tok->adds_space; }

static bool is_id(const bt_tokenizer *tok, int32_t id) { return id >= 0 && (size_t)id < tok->count; }

bool bt_tokenizer_is_eog(const bt_tokenizer *tok, int32_t id) { return is_id(tok, id) && tok->is_eog[id]; }

bt_token_type bt_tokenizer_type(const bt_tokenizer *tok, int32_t id)
{
    return is_id(tok, id) ? (bt_token_type)tok->type[id] : (bt_token_type)0;
}

bt_text_span bt_tokenizer_piece(const bt_tokenizer *tok, int32_t id)
{
    if (!is_id(tok, id)) return (bt_text_span){NULL, 0};
    return (bt_text_span){tok->arena + tok->begin[id], tok->begin[id + 1] - tok->begin[id]};
}

int32_t bt_tokenizer_find_word(const bt_tokenizer *tok, const char *text, size_t len)
{
    if (len > tok->max_word_bytes) return -1;
    for (size_t s = (size_t)bt_hash64(text, len) & tok->word_mask; tok->word[s] != 0;
         s = (s + 1) & tok->word_mask) {
        const uint32_t id = tok->word[s] - 1;
        if (tok->begin[id + 1] - tok->begin[id] == len && memcmp(tok->arena + tok->begin[id], text, len) == 0)
            return (int32_t)id;
    }
    return -1;
}

const char *bt_tokenizer_remark(const bt_tokenizer *tok)
{
    return tok->remark.text[0] ? tok->remark.text : NULL;
}

void bt_tokenizer_remark_on(bt_tokenizer *tok, const char *fmt, ...)
{
    char *text = tok->remark.text;
    size_t n = strlen(text);
    if (n > 0 && n + 2 < sizeof tok->remark.text) {
        memcpy(text + n, "; ", 3);
        n += 2;
    }
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text + n, sizeof tok->remark.text - n, fmt, args);
    va_end(args);
}

uint64_t bt_tokenizer_left_out_bytes(const bt_tokenizer *tok)
{
    return atomic_load_explicit(tok->left_out, memory_order_relaxed);
}

bt_err bt_tokenizer_no_token(unsigned char byte, size_t at, bt_fault *fault)
{
    return bt_fail(fault, BT_EARG,
                   "the text has the byte 0x%02X at byte %zu, for which this model's vocabulary has no token",
                   byte, at);
}

bt_err bt_tokenizer_emit(bt_encoder *enc, int32_t id, bt_fault *fault)
{
    if (enc->count == enc->count_max) return bt_fail(fault, BT_ELIMIT, "%s", "");
    if (enc->count == enc->cap) {
        const size_t cap = enc->cap ? 2 * enc->cap : 64;
        int32_t *p = realloc(enc->id, cap * sizeof *p);
        if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu tokens of a text", enc->count);
        enc->id = p;
        enc->cap = cap;
    }
    enc->id[enc->count++] = id;
    return BT_OK;
}
