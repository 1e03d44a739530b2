/* The regular expressions of the known pre-tokenizers, as their models' tokenizer.json files give them, and
 * the loop that applies them. */
#include "text/pretok.h"

#include "base/buf.h"
#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Characters of Unicode 15 to 16, which the expressions of Hugging Face's tokenizers know and Debian 12's
 * PCRE2 (Unicode 14) does not. */
#define LATER_UPPER "\\x{1C89}\\x{A7CB}-\\x{A7CC}\\x{A7DA}\\x{A7DC}\\x{10D50}-\\x{10D65}"
#define LATER_LOWER "\\x{1C8A}\\x{A7CD}\\x{A7DB}\\x{10D70}-\\x{10D85}\\x{1DF25}-\\x{1DF2A}"
#define LATER_OTHER \
    "\\x{105C0}-\\x{105F3}\\x{10D4A}-\\x{10D4F}\\x{10D6F}\\x{10EC2}-\\x{10EC4}\\x{1123F}-\\x{11240}" \
    "\\x{11380}-\\x{11389}\\x{1138B}\\x{1138E}\\x{11390}-\\x{113B5}\\x{113B7}\\x{113D1}\\x{113D3}" \
    "\\x{11BC0}-\\x{11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}\\x{1342F}" \
    "\\x{13441}-\\x{13446}\\x{13460}-\\x{143FA}\\x{16100}-\\x{1611D}\\x{16D40}-\\x{16D6C}\\x{18CFF}" \
    "\\x{1B132}\\x{1B155}\\x{1E030}-\\x{1E06D}\\x{1E4D0}-\\x{1E4EB}\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}" \
    "\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"
#define LATER_MARK \
    "\\x{897}\\x{CF3}\\x{ECE}\\x{10D69}-\\x{10D6D}\\x{10EFC}-\\x{10EFF}\\x{11241}\\x{113B8}-\\x{113C0}" \
    "\\x{113C2}\\x{113C5}\\x{113C7}-\\x{113CA}\\x{113CC}-\\x{113D0}\\x{113D2}\\x{113E1}-\\x{113E2}" \
    "\\x{11F00}-\\x{11F01}\\x{11F03}\\x{11F34}-\\x{11F3A}\\x{11F3E}-\\x{11F42}\\x{11F5A}\\x{13440}" \
    "\\x{13447}-\\x{13455}\\x{1611E}-\\x{1612F}\\x{1E08F}\\x{1E4EC}-\\x{1E4EF}\\x{1E5EE}-\\x{1E5EF}"
#define LATER_NUMBER \
    "\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}" \
    "\\x{16130}-\\x{16139}\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1D2C0}-\\x{1D2D3}" \
    "\\x{1E4F0}-\\x{1E4F9}\\x{1E5F1}-\\x{1E5FA}"
#define LATER_PUNCT \
    "\\x{1B4E}-\\x{1B4F}\\x{1B7F}\\x{10D6E}\\x{113D4}-\\x{113D5}\\x{113D7}-\\x{113D8}" \
    "\\x{11B00}-\\x{11B09}\\x{11BE1}\\x{11F43}-\\x{11F4F}\\x{16D6D}-\\x{16D6F}\\x{1E5FF}"
#define LATER_SYMBOL \
    "\\x{2427}-\\x{2429}\\x{2FFC}-\\x{2FFF}\\x{31E4}-\\x{31E5}\\x{31EF}\\x{10D8E}-\\x{10D8F}" \
    "\\x{1CC00}-\\x{1CCEF}\\x{1CD00}-\\x{1CEB3}\\x{1F6DC}\\x{1F774}-\\x{1F776}\\x{1F77B}-\\x{1F77F}" \
    "\\x{1F7D9}\\x{1F8B2}-\\x{1F8BB}\\x{1F8C0}-\\x{1F8C1}\\x{1FA75}-\\x{1FA77}\\x{1FA87}-\\x{1FA89}" \
    "\\x{1FA8F}\\x{1FAAD}-\\x{1FAAF}\\x{1FABB}-\\x{1FABF}\\x{1FAC6}\\x{1FACE}-\\x{1FACF}" \
    "\\x{1FADA}-\\x{1FADC}\\x{1FADF}\\x{1FAE8}-\\x{1FAE9}\\x{1FAF7}-\\x{1FAF8}\\x{1FBCB}-\\x{1FBEF}"
#define UPPER  "\\p{Lu}" LATER_UPPER
#define LOWER  "\\p{Ll}" LATER_LOWER
#define OTHER  "\\p{Lt}\\p{Lm}\\p{Lo}" LATER_OTHER
#define LETTER "\\p{L}" LATER_UPPER LATER_LOWER LATER_OTHER
#define MARK   "\\p{M}" LATER_MARK
#define NUMBER "\\p{N}" LATER_NUMBER
#define PUNCT  "\\p{P}" LATER_PUNCT
#define SYMBOL "\\p{S}" LATER_SYMBOL
/* PCRE2's own \s has U+180E, which has not been White_Space since Unicode 6.3. */
#define SPACE "\\p{Z}\\t-\\r\\x{85}"

/* How nearly all end: rows of white space, the last of which goes with what follows. */
#define SPACES "|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define LINES  "|[" SPACE "]*[\\r\\n]+" SPACES
#define SHORT  "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define DIGIT  "[" NUMBER "]"

#define WORD_GPT2 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?[" LETTER "]+| ?[" NUMBER "]+| ?[^" SPACE LETTER NUMBER "]+" SPACES
#define WORD_LLAMA3(numbers) \
    SHORT "|[^\\r\\n" LETTER NUMBER "]?[" LETTER "]+|" numbers "| ?[^" SPACE LETTER NUMBER "]+[\\r\\n]" \
          "*" LINES
/* Letters and marks, first no small ones, then no capitals. */
#define CASED(first, then) \
    "[^\\r\\n" LETTER NUMBER "]?[" UPPER OTHER MARK "]" first "[" LOWER "\\p{Lm}\\p{Lo}" LATER_OTHER MARK \
    "]" then
#define WORD_CASED(tail, numbers) \
    CASED("*", "+") \
    tail "|" CASED("+", "*") tail "|" numbers "| ?[^" SPACE LETTER NUMBER "]+[\\r\\n/" \
                                  "]*" LINES
#define WORD_DEEPSEEK3 \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n" LETTER PUNCT SYMBOL "]?[" LETTER MARK \
    "]+|" \
    " ?[" PUNCT SYMBOL "]+[\\r\\n]*" LINES
/* The cased letters of Unicode 12, as DeepSeek LLM writes them out. */
#define DEEPSEEK_LETTERS \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}" \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}" \
    "\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}" \
    "\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}" \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}" \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{" \
    "1f7d}" \
    "\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{" \
    "1fd3}" \
    "\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}" \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}" \
    "\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}" \
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}" \
    "\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}" \
    "\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}" \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}" \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
#define DEEPSEEK_MARKS "[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]"
#define DEEPSEEK_CJK   "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"

enum { MAX_CUTS = 6, MAX_NAMES = 10 };

typedef struct pretok_kind {
    const char *names[MAX_NAMES]; /* the first is the proper one */
    const char *cuts[MAX_CUTS];   /* each cuts what the one before has left and found, and so on */
    unsigned traits;
} pretok_kind;

static const pretok_kind kinds[] = {
    {{"gpt-2", "gpt2", "phi-2"}, {WORD_GPT2}, 0},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "lfm2"},
     {WORD_LLAMA3(DIGIT "{1,3}")},
     BT_PRETOK_WHOLE_WORDS | BT_PRETOK_BOS},
    {{"qwen2", "deepseek-r1-qwen"}, {WORD_LLAMA3(DIGIT)}, BT_PRETOK_NFC},
    {{"smollm", "starcoder", "refact"}, {DIGIT, WORD_GPT2}, 0},
    {{"command-r"}, {DIGIT, WORD_GPT2}, BT_PRETOK_NFC},
    {{"olmo"}, {WORD_GPT2}, BT_PRETOK_NFC},
    {{"dbrx", "smaug-bpe"}, {WORD_LLAMA3(DIGIT "{1,3}")}, 0},
    {{"gpt-4o", "llama4"}, {WORD_CASED(SHORT "?", DIGIT "{1,3}")}, 0},
    {{"tekken"}, {WORD_CASED("", DIGIT)}, BT_PRETOK_WHOLE_WORDS | BT_PRETOK_BOS | BT_PRETOK_REFUSES},
    {{"deepseek-v3", "hunyuan-dense"},
     {DIGIT "{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+", WORD_DEEPSEEK3},
     0},
    {{"deepseek-llm"},
     {"[\\r\\n]", "[" SPACE "]?[" DEEPSEEK_LETTERS "]+", "[" SPACE "]?" DEEPSEEK_MARKS "+",
      "(?<![" SPACE "])[" SPACE "]++\\z", DEEPSEEK_CJK, DIGIT},
     0},
    {{"deepseek-coder"},
     {"[\\r\\n]", "[" SPACE "]?[" LETTER "]+", "[" SPACE "]?[" PUNCT "]+", DEEPSEEK_CJK, DIGIT},
     0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct bt_pretok {
    const pretok_kind *kind;
    pcre2_code *cut[MAX_CUTS + 1]; /* ends with NULL */
};

static const pretok_kind *find_kind(const char *name, size_t len)
{
    for (size_t i = 0; i < KINDS; i++)
        for (size_t j = 0; j < MAX_NAMES && kinds[i].names[j]; j++)
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

static bt_err refuse(const char *name, size_t len, bt_fault *fault)
{
    char shown[64];
    bt_buf known;
    bt_buf_init(&known, sizeof fault->text);
    for (size_t i = 0; i < KINDS; i++)
        (void)bt_buf_fmt(&known, "%s%s", i == 0 ? "" : i + 1 < KINDS ? ", " : " and ", kinds[i].names[0]);
    (void)bt_fail(fault, BT_EVERSION, "tokenizer.ggml.pre is '%s'; this build knows %s",
                  bt_utf8_show(shown, sizeof shown, name, len), bt_buf_text(&known));
    bt_buf_done(&known);
    return BT_EVERSION;
}

bt_err bt_pretok_new(bt_pretok **ret, const char *name, size_t len, bt_fault *fault)
{
    const pretok_kind *kind = find_kind(name, len);
    if (!kind) return refuse(name, len, fault);
    bt_err e = BT_OK;
    bt_pretok *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory making a pre-tokenizer");
    p->kind = kind;
    for (size_t i = 0; i < MAX_CUTS && kind->cuts[i]; i++)
        if ((e = compile(&p->cut[i], kind->cuts[i], fault)) < 0) goto out;
    *ret = p;
    p = NULL;
out:
    bt_pretok_free(p);
    return e;
}

void bt_pretok_free(bt_pretok *p)
{
    if (!p) return;
    for (size_t i = 0; p->cut[i]; i++) pcre2_code_free(p->cut[i]);
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
                         size_t len, size_t from, const pass *ps)
{
    const int rc = pcre2_match(re, (PCRE2_SPTR)text, len, from, PCRE2_NO_UTF_CHECK, ps->data, ps->limits);
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

/* Cuts text by the expressions from cut on, at most MAX_CUTS deep: what one finds and what it leaves are each
 * cut by the next, to which their ends are the ends of the text. */
static bt_err split(pcre2_code *const *cut, const char *text, size_t len, const pass *ps)
{
    bt_err e;
    if (!*cut) return ps->fn(ps->ud, text, len, ps->fault);
    for (size_t at = 0; at < len;) {
        size_t begin = len, end = len;
        if ((e = next_match(&begin, &end, *cut, text, len, at, ps)) < 0) return e;
        if (begin > at && (e = split(cut + 1, text + at, begin - at, ps)) < 0) return e;
        if (end > begin && (e = split(cut + 1, text + begin, end - begin, ps)) < 0) return e;
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
    e = split(p->cut, text, len, &ps);
out:
    pcre2_match_data_free(ps.data);
    pcre2_match_context_free(ps.limits);
    return e;
}
