/* The regular expressions of the known pre-tokenizers, as their models' tokenizer.json files give them, and
 * the loop that applies one. Every alternative takes at least one character and together they cover all, so
 * matching always advances. */
#include "text/pretok.h"

#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* PCRE2's own \s has U+180E, which has not been White_Space since Unicode 6.3. */
#define WS   "\\p{Z}\\t-\\r\\x{85}"
#define S    "[" WS "]"
#define NOTS "[^" WS "]"
#define WORD_GPT2 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|" S "+(?!" NOTS ")|" S "+"
#define WORD_LLAMA3(numbers) \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers "| ?[^" WS \
    "\\p{L}\\p{N}]+[\\r\\n]*|" S "*[\\r\\n]+|" S "+(?!" NOTS ")|" S "+"

typedef struct pretok_kind {
    const char *names[4]; /* the first is the proper one */
    const char *digits;   /* cut out before anything else: each match is a word; NULL for none */
    const char *word;
    unsigned traits;
} pretok_kind;

static const pretok_kind kinds[] = {
    {{"gpt-2", "gpt2"}, NULL, WORD_GPT2, 0},
    {{"llama-bpe", "llama3", "llama-v3"},
     NULL,
     WORD_LLAMA3("\\p{N}{1,3}"),
     BT_PRETOK_WHOLE_WORDS | BT_PRETOK_BOS},
    {{"qwen2", "deepseek-r1-qwen"}, NULL, WORD_LLAMA3("\\p{N}"), BT_PRETOK_NFC},
    {{"smollm", "starcoder"}, "\\p{N}", WORD_GPT2, 0},
};

struct bt_pretok {
    const pretok_kind *kind;
    pcre2_code *digits, *word;
};

static const pretok_kind *find_kind(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (size_t j = 0; j < sizeof kinds[i].names / sizeof *kinds[i].names && kinds[i].names[j]; j++)
            if (strlen(kinds[i].names[j]) == len && memcmp(kinds[i].names[j], name, len) == 0)
                return &kinds[i];
    return NULL;
}

static bt_err compile(pcre2_code **ret, const char *pattern, bt_fault *fault)
{
    int code;
    PCRE2_SIZE at;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at, NULL);
    if (!re)
        return bt_fail(fault, BT_ENOMEM,
                       "PCRE2 cannot compile the expression of a pre-tokenizer: error %d at byte %zu", code,
                       at);
    /* Where the system forbids making code at run time, matching goes on interpreted: slower,
     * the same words. */
    (void)pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
    *ret = re;
    return BT_OK;
}

bt_err bt_pretok_new(bt_pretok **ret, const char *name, size_t len, bt_fault *fault)
{
    const pretok_kind *kind = find_kind(name, len);
    char shown[64];
    if (!kind)
        return bt_fail(fault, BT_EVERSION, "tokenizer.ggml.pre is '%s'; this build knows %s, %s, %s and %s",
                       bt_utf8_show(shown, sizeof shown, name, len), kinds[0].names[0], kinds[1].names[0],
                       kinds[2].names[0], kinds[3].names[0]);
    bt_err e;
    bt_pretok *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory making a pre-tokenizer");
    p->kind = kind;
    if (kind->digits && (e = compile(&p->digits, kind->digits, fault)) < 0) goto out;
    if ((e = compile(&p->word, kind->word, fault)) < 0) goto out;
    *ret = p;
    p = NULL;
out:
    bt_pretok_free(p);
    return e;
}

void bt_pretok_free(bt_pretok *p)
{
    if (!p) return;
    pcre2_code_free(p->digits);
    pcre2_code_free(p->word);
    free(p);
}

unsigned bt_pretok_traits(const bt_pretok *p) { return p->kind->traits; }

/* One pass over one text: what all matches share. */
typedef struct pass {
    pcre2_match_data *data;
    pcre2_match_context *limits;
    bt_pretok_word_fn *fn;
    void *ud;
    bt_fault *fault;
} pass;

/* The next match of re in text[from .. len): *ret_begin and *ret_end, or both len where there is none. */
static bt_err next_match(size_t *ret_begin, size_t *ret_end, const pcre2_code *re, const char *text,
                         size_t len, size_t from, uint32_t options, const pass *ps)
{
    const int rc =
        pcre2_match(re, (PCRE2_SPTR)text, len, from, PCRE2_NO_UTF_CHECK | options, ps->data, ps->limits);
    if (rc == PCRE2_ERROR_NOMATCH) {
        *ret_begin = *ret_end = len;
        return BT_OK;
    }
    if (rc == PCRE2_ERROR_NOMEMORY)
        return bt_fail(ps->fault, BT_ENOMEM, "out of memory cutting text into words");
    if (rc < 0)
        return bt_fail(ps->fault, BT_ELIMIT, "PCRE2 gave up cutting the text into words (error %d)", rc);
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(ps->data);
    *ret_begin = at[0];
    *ret_end = at[1];
    return BT_OK;
}

/* The words of a text without its cut-out digits. An expression's look-ahead must see the end of this part as
 * the end. */
static bt_err split_words(const bt_pretok *p, const char *text, size_t len, const pass *ps)
{
    bt_err e;
    for (size_t at = 0; at < len;) {
        size_t begin, end;
        if ((e = next_match(&begin, &end, p->word, text, len, at, PCRE2_ANCHORED, ps)) < 0) return e;
        if ((e = ps->fn(ps->ud, text + at, end - at, ps->fault)) < 0) return e;
        at = end;
    }
    return BT_OK;
}

bt_err bt_pretok_split(const bt_pretok *p, const char *text, size_t len, bt_pretok_word_fn *fn, void *ud,
                       bt_fault *fault)
{
    bt_err e = BT_OK;
    pass ps = {.fn = fn, .ud = ud, .fault = fault};
    ps.data = pcre2_match_data_create(1, NULL);
    ps.limits = pcre2_match_context_create(NULL);
    if (!ps.data || !ps.limits) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory cutting text into words");
        goto out;
    }
    /* A match may step back over each character of a long run a few times, no more. */
    pcre2_set_match_limit(ps.limits, (uint32_t)(len < 100000000 ? 1000 + 16 * len : UINT32_MAX));
    if (!p->digits) {
        e = split_words(p, text, len, &ps);
        goto out;
    }
    for (size_t at = 0; at < len;) {
        size_t begin, end;
        if ((e = next_match(&begin, &end, p->digits, text, len, at, 0, &ps)) < 0) goto out;
        if (begin > at && (e = split_words(p, text + at, begin - at, &ps)) < 0) goto out;
        if (end > begin && (e = fn(ud, text + begin, end - begin, fault)) < 0) goto out;
        at = end;
    }
out:
    pcre2_match_data_free(ps.data);
    pcre2_match_context_free(ps.limits);
    return e;
}
