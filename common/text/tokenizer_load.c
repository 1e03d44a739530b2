/* Making a tokenizer from a vocabulary that nobody has checked yet. Every error names the key of the file it
 * is about. */
#include "text/tokenizer.h"

#include "base/buf.h"
#include "base/hash.h"
#include "text/bpe.h"
#include "text/spm.h"
#include "text/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void bt_tokenizer_free(bt_tokenizer *tok)
{
    if (!tok) return;
    free(tok->arena);
    free(tok->begin);
    free(tok->type);
    free(tok->is_eog);
    free(tok->word);
    free(tok->special);
    free(tok->score);
    free(tok->merge);
    free(tok->left_out);
    bt_pretok_free(tok->pretok);
    free(tok);
}

static bt_err check_counts(const bt_vocab_source *src, bool is_spm, bt_fault *fault)
{
    if (src->token_count == 0) return bt_fail(fault, BT_EFORMAT, "tokenizer.ggml.tokens is missing or empty");
    if (src->token_count > BT_TOKENIZER_MAX_TOKENS)
        return bt_fail(fault, BT_ELIMIT, "tokenizer.ggml.tokens has %zu tokens; at most %d are allowed",
                       src->token_count, BT_TOKENIZER_MAX_TOKENS);
    if (!is_spm && src->merge_count == 0)
        return bt_fail(fault, BT_EFORMAT, "tokenizer.ggml.merges is missing or empty");
    if (!is_spm && src->merge_count > BT_TOKENIZER_MAX_MERGES)
        return bt_fail(fault, BT_ELIMIT, "tokenizer.ggml.merges has %zu merges; at most %d are allowed",
                       src->merge_count, BT_TOKENIZER_MAX_MERGES);
    return BT_OK;
}

static bt_err set_id(int32_t *ret, int64_t id, const char *key, const bt_tokenizer *tok, bt_fault *fault)
{
    if (id < -1 || id >= (int64_t)tok->count)
        return bt_fail(fault, BT_EFORMAT, "%s is %lld, but there are %zu tokens", key, (long long)id,
                       tok->count);
    *ret = (int32_t)id;
    return BT_OK;
}

/* Tokens that have the text of an earlier one, which is used instead. */
typedef struct doubles {
    size_t count, first, of; /* the first one, and the one that it doubles */
} doubles;

static void add_double(doubles *d, size_t i, size_t of)
{
    if (d->count++ > 0) return;
    d->first = i;
    d->of = of;
}

static void remark_doubles(bt_tokenizer *tok, const doubles *d, const char *kind)
{
    if (d->count > 0)
        bt_tokenizer_remark_on(
            tok,
            "%zu of the %stokens of tokenizer.ggml.tokens %s the text of an earlier one, which is used; "
            "token %zu that of token %zu",
            d->count, kind, d->count == 1 ? "has" : "have", d->first, d->of);
}

/* One word into the hash table, or one byte into byte_id. */
static void add_word(bt_tokenizer *tok, size_t i, doubles *d)
{
    const char *text = tok->arena + tok->begin[i];
    const size_t len = tok->begin[i + 1] - tok->begin[i];
    if (len == 0) return; /* no text has it */
    size_t s = (size_t)bt_hash64(text, len) & tok->word_mask;
    for (; tok->word[s] != 0; s = (s + 1) & tok->word_mask) {
        const uint32_t other = tok->word[s] - 1;
        if (tok->begin[other + 1] - tok->begin[other] == len &&
            memcmp(tok->arena + tok->begin[other], text, len) == 0) {
            add_double(d, i, other);
            return;
        }
    }
    tok->word[s] = (uint32_t)i + 1;
    if (len > tok->max_word_bytes) tok->max_word_bytes = len;
    if (len == 1 && !tok->is_spm) tok->byte_id[(unsigned char)text[0]] = (int32_t)i;
}

/* Token i, whose type is known: its piece appended to arena; *ret_is_word when text can be joined to it. */
static bt_err read_token(bt_tokenizer *tok, bt_buf *arena, const bt_vocab_source *src, size_t i,
                         bool *ret_is_word, doubles *d, bt_fault *fault)
{
    const bt_text_span name = src->token(src->ud, i);
    const int type = tok->type[i];
    char unmapped[BT_TOKENIZER_MAX_TOKEN_BYTES];
    int n = -1;
    if (name.len > BT_TOKENIZER_MAX_TOKEN_BYTES)
        return bt_fail(fault, BT_ELIMIT, "tokenizer.ggml.tokens[%zu] has %zu bytes; at most %d are allowed",
                       i, name.len, BT_TOKENIZER_MAX_TOKEN_BYTES);
    if (type == BT_TOKEN_NORMAL) {
        n = tok->is_spm ? bt_spm_unmap(unmapped, name.ptr, name.len)
                        : bt_bpe_unmap(unmapped, name.ptr, name.len);
        *ret_is_word = n >= 0;
    } else {
        *ret_is_word = false;
    }
    if (type == BT_TOKEN_BYTE && tok->is_spm) {
        const int b = bt_spm_byte(name.ptr, name.len);
        if (tok->byte_id[b] >= 0) add_double(d, i, (size_t)tok->byte_id[b]);
        else tok->byte_id[b] = (int32_t)i;
        unmapped[0] = (char)b;
        n = 1;
    }
    if (tok->is_spm) {
        const float score = src->score ? src->score(src->ud, i) : 0;
        if (!isfinite(score))
            return bt_fail(fault, BT_EFORMAT, "tokenizer.ggml.scores[%zu] is not a number", i);
        tok->score[i] = score;
    }
    return n >= 0 ? bt_buf_add(arena, unmapped, (size_t)n) : bt_buf_add(arena, name.ptr, name.len);
}

static bt_err load_tokens(bt_tokenizer *tok, const bt_vocab_source *src, bt_fault *fault)
{
    const size_t n = tok->count;
    bt_err e = BT_OK;
    size_t slots = 64;
    while (slots < 2 * n) slots *= 2;
    bt_buf arena;
    bt_buf_init(&arena, (size_t)BT_TOKENIZER_MAX_TOKENS * BT_TOKENIZER_MAX_TOKEN_BYTES);
    doubles d = {0};
    bool *is_word = calloc(n, sizeof *is_word);
    tok->begin = calloc(n + 1, sizeof *tok->begin);
    tok->type = calloc(n, sizeof *tok->type);
    tok->is_eog = calloc(n, sizeof *tok->is_eog);
    tok->word = calloc(slots, sizeof *tok->word);
    tok->word_mask = slots - 1;
    if (tok->is_spm) tok->score = calloc(n, sizeof *tok->score);
    if (!is_word || !tok->begin || !tok->type || !tok->is_eog || !tok->word || (tok->is_spm && !tok->score)) {
        const size_t each = sizeof *tok->begin + sizeof *tok->type + sizeof *tok->is_eog + sizeof *is_word +
                            (tok->is_spm ? sizeof *tok->score : 0);
        e = bt_fail(fault, BT_ENOMEM, "out of memory for the %zu tokens of tokenizer.ggml.tokens, %zu MiB", n,
                    (n * each + slots * sizeof *tok->word) >> 20);
        goto out;
    }
    if ((e = bt_tokenizer_read_types(tok, src, fault)) < 0) goto out;
    for (size_t i = 0; i < n; i++) {
        if ((e = read_token(tok, &arena, src, i, &is_word[i], &d, fault)) < 0) goto out;
        tok->begin[i + 1] = (uint32_t)arena.len;
    }
    if ((e = bt_buf_byte(&arena, 0)) < 0) goto out; /* an empty vocabulary of names still has an address */
    tok->arena = (char *)arena.data;
    bt_buf_init(&arena, 0);
    for (size_t i = 0; i < n; i++)
        if (is_word[i]) add_word(tok, i, &d);
    remark_doubles(tok, &d, "");
out:
    if (arena.err < 0) bt_fail(fault, e, "tokenizer.ggml.tokens: out of memory");
    bt_buf_done(&arena);
    free(is_word);
    return e;
}

typedef struct named {
    const char *text;
    size_t len;
    uint32_t id;
} named;

static int by_name(const void *a, const void *b)
{
    const named *x = a, *y = b;
    const int c = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    if (c != 0) return c;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static bt_err load_specials(bt_tokenizer *tok, bt_fault *fault)
{
    bt_err e = BT_OK;
    size_t n = 0, end = tok->count, returns = 0;
    doubles d = {0};
    for (size_t i = 0; i < tok->count; i++)
        n += tok->type[i] == BT_TOKEN_CONTROL || tok->type[i] == BT_TOKEN_USER_DEFINED;
    named *list = calloc(n + 1, sizeof *list);
    tok->special = calloc(n + 1, sizeof *tok->special);
    if (!list || !tok->special) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory for %zu special tokens", n);
        goto out;
    }
    n = 0;
    for (size_t i = 0; i < tok->count; i++) {
        const bt_text_span name = bt_tokenizer_piece(tok, (int32_t)i);
        if (name.len == 0 || (tok->type[i] != BT_TOKEN_CONTROL && tok->type[i] != BT_TOKEN_USER_DEFINED))
            continue;
        /* Found in text, a piece of a character would leave the rest of it: no longer UTF-8. */
        if (!bt_utf8_valid(name.ptr, name.len, NULL)) {
            e = bt_fail(fault, BT_EFORMAT, "tokenizer.ggml.tokens[%zu] is a special token, but not UTF-8", i);
            goto out;
        }
        list[n++] = (named){name.ptr, name.len, (uint32_t)i};
        tok->is_special_first[(unsigned char)name.ptr[0]] = true;
        if (tok->type[i] == BT_TOKEN_USER_DEFINED) tok->has_user_defined = true;
        if (bt_tokenizer_is_end_name(name)) tok->is_eog[i] = true;
        if (bt_tokenizer_is_text(name, "<|end|>")) end = i;
        returns += bt_tokenizer_is_text(name, "<|return|>") || bt_tokenizer_is_text(name, "<|call|>");
    }
    if (returns == 2 && end < tok->count) tok->is_eog[end] = false;
    qsort(list, n, sizeof *list, by_name);
    for (size_t i = 0; i < n; i++) {
        const named *before = i > 0 ? &list[i - 1] : NULL;
        if (before && before->len == list[i].len && memcmp(before->text, list[i].text, list[i].len) == 0)
            add_double(&d, list[i].id, before->id);
        else tok->special[tok->specials++] = list[i].id;
    }
    remark_doubles(tok, &d, "special ");
out:
    free(list);
    return e;
}

static bt_err load_ids(bt_tokenizer *tok, const bt_vocab_source *src, bt_fault *fault)
{
    bt_err e;
    int32_t eom = -1;
    if ((e = set_id(&tok->bos, src->bos, "tokenizer.ggml.bos_token_id", tok, fault)) < 0) return e;
    if ((e = set_id(&tok->eos, src->eos, "tokenizer.ggml.eos_token_id", tok, fault)) < 0) return e;
    if ((e = set_id(&tok->unk, src->unk, "tokenizer.ggml.unknown_token_id", tok, fault)) < 0) return e;
    if ((e = set_id(&tok->eot, src->eot, "tokenizer.ggml.eot_token_id", tok, fault)) < 0) return e;
    if ((e = set_id(&eom, src->eom, "tokenizer.ggml.eom_token_id", tok, fault)) < 0) return e;
    if (tok->eos >= 0) tok->is_eog[tok->eos] = true;
    if (tok->eot >= 0) tok->is_eog[tok->eot] = true;
    if (eom >= 0) tok->is_eog[eom] = true;
    /* Files of the gpt2 kind often name <|endoftext|> here, which text must never turn into. */
    tok->fallback = tok->unk >= 0 && (tok->is_spm || tok->type[tok->unk] == BT_TOKEN_UNKNOWN) ? tok->unk : -1;
    if (src->add_bos == 1 && tok->bos < 0)
        return bt_fail(fault, BT_EFORMAT,
                       "tokenizer.ggml.add_bos_token is true, but there is no tokenizer.ggml.bos_token_id");
    const bool dflt = tok->is_spm || (bt_pretok_traits(tok->pretok) & BT_PRETOK_BOS);
    tok->adds_bos = tok->bos >= 0 && (src->add_bos < 0 ? dflt : src->add_bos == 1);
    tok->adds_space = tok->is_spm && src->add_space_prefix != 0;
    return BT_OK;
}

bt_err bt_tokenizer_new(bt_tokenizer **ret, const bt_vocab_source *src, bt_fault *fault)
{
    bt_err e;
    const bool is_spm = bt_tokenizer_is_text(src->model, "llama");
    char shown[64];
    if (!is_spm && !bt_tokenizer_is_text(src->model, "gpt2"))
        return bt_fail(fault, BT_EVERSION, "tokenizer.ggml.model is '%s'; this build knows llama and gpt2",
                       bt_utf8_show(shown, sizeof shown, src->model.ptr, src->model.len));
    if ((e = check_counts(src, is_spm, fault)) < 0) return e;
    bt_tokenizer *tok = calloc(1, sizeof *tok);
    if (!tok) return bt_fail(fault, BT_ENOMEM, "out of memory making a tokenizer");
    if (!(tok->left_out = calloc(1, sizeof *tok->left_out))) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory making a tokenizer");
        goto out;
    }
    tok->is_spm = is_spm;
    tok->count = src->token_count;
    for (int b = 0; b < 256; b++) tok->byte_id[b] = -1;
    if (!is_spm && (e = bt_pretok_new(&tok->pretok, src->pre.ptr, src->pre.len, fault)) < 0) goto out;
    if ((e = load_tokens(tok, src, fault)) < 0) goto out;
    if ((e = load_specials(tok, fault)) < 0) goto out;
    if ((e = load_ids(tok, src, fault)) < 0) goto out;
    if (!is_spm && (e = bt_bpe_load_merges(tok, src, fault)) < 0) goto out;
    *ret = tok;
    tok = NULL;
out:
    bt_tokenizer_free(tok);
    return e;
}
