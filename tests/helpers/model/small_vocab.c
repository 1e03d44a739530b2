/* The small vocabularies. */
#include "tests/helpers/model/small_vocab.h"

#include <stdio.h>
#include <string.h>

#define SP "\xE2\x96\x81"
const small_word small_spm_word[] = {
    {SP, -20, BT_TOKEN_NORMAL},
    {"a", -10, BT_TOKEN_NORMAL},
    {"b", -11, BT_TOKEN_NORMAL},
    {"c", -12, BT_TOKEN_NORMAL},
    {"ab", -3, BT_TOKEN_NORMAL},
    {"bc", -2, BT_TOKEN_NORMAL},
    {"abc", -5, BT_TOKEN_NORMAL},
    {SP "a", -4, BT_TOKEN_NORMAL},
    {"aa", -6, BT_TOKEN_NORMAL},
    {SP SP, -1, BT_TOKEN_NORMAL},
    {"\xC3\xA9", -13, BT_TOKEN_NORMAL},
    {"s", 0, BT_TOKEN_NORMAL},
    {"<", -8, BT_TOKEN_NORMAL},
    {">", -8, BT_TOKEN_NORMAL},
    {"<s", 1, BT_TOKEN_NORMAL},
    {"<tool>", 0, BT_TOKEN_USER_DEFINED},
    {"<tool>x", 0, BT_TOKEN_USER_DEFINED},
};
const size_t small_spm_words = sizeof small_spm_word / sizeof *small_spm_word;

const char *const small_bpe_merge[] = {
    "h e",
    "l l",
    "he ll",
    "hell o",
    "\xC4\xA0 w",
    "o r",
    "\xC4\xA0w or",
    "l d",
    "1 2",
    "12 3",
    "\xC4\xA0 \xC4\xA0",
    "a a",
    "aa aa",
    "' s",
    "\xC3\xA3 \xC4\xA3",
    "e l",
};
const size_t small_bpe_merges = sizeof small_bpe_merge / sizeof *small_bpe_merge;

static bt_text_span token_at(void *ud, size_t i)
{
    const small_vocab *v = ud;
    return (bt_text_span){v->token[i].text, v->token[i].len};
}
static bt_text_span merge_at(void *ud, size_t i)
{
    const small_vocab *v = ud;
    return (bt_text_span){v->merge[i].text, v->merge[i].len};
}
static float score_at(void *ud, size_t i) { return ((const small_vocab *)ud)->token[i].score; }
static int32_t type_at(void *ud, size_t i) { return ((const small_vocab *)ud)->token[i].type; }

static void add(small_vocab *v, const char *text, float score, int type)
{
    const size_t i = v->src.token_count++;
    v->token[i].text = text;
    v->token[i].len = strlen(text);
    v->token[i].score = score;
    v->token[i].type = type;
}

static void begin(small_vocab *v, const char *model)
{
    memset(v, 0, sizeof *v);
    v->src = (bt_vocab_source){.model = {model, strlen(model)},
                               .token = token_at,
                               .merge = merge_at,
                               .score = score_at,
                               .type = type_at,
                               .ud = v,
                               .bos = -1,
                               .eos = -1,
                               .unk = -1,
                               .eot = -1,
                               .eom = -1,
                               .add_bos = -1,
                               .add_space_prefix = -1};
}

void small_spm(small_vocab *v)
{
    begin(v, "llama");
    add(v, "<unk>", 0, BT_TOKEN_UNKNOWN);
    add(v, "<s>", 0, BT_TOKEN_CONTROL);
    add(v, "</s>", 0, BT_TOKEN_CONTROL);
    for (int b = 0; b < 256; b++) {
        char *name = v->names + 8 * b;
        snprintf(name, 8, "<0x%02X>", b);
        add(v, name, 0, BT_TOKEN_BYTE);
    }
    for (size_t i = 0; i < small_spm_words; i++)
        add(v, small_spm_word[i].text, small_spm_word[i].score, small_spm_word[i].type);
    v->src.unk = 0;
    v->src.bos = 1;
    v->src.eos = 2;
}

/* The byte alphabet as the rule says it: printable Latin-1 first, in order, then the others as U+0100 and
 * up. */
static int plain(int b)
{
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

int32_t small_bpe_byte(unsigned char b)
{
    int32_t id = 0;
    if (plain(b)) {
        for (int i = 0; i < b; i++) id += plain(i);
    } else {
        for (int i = 0; i < 256; i++) id += plain(i);
        for (int i = 0; i < b; i++) id += !plain(i);
    }
    return id;
}

void small_bpe(small_vocab *v, const char *pre)
{
    begin(v, "gpt2");
    v->src.pre = (bt_text_span){pre, strlen(pre)};
    int others = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int b = 0; b < 256; b++) {
            if (plain(b) == (pass == 1)) continue;
            const int point = pass == 0 ? b : 0x100 + others++;
            char *name = v->names + 8 * v->src.token_count;
            if (point < 0x80) snprintf(name, 8, "%c", point);
            else snprintf(name, 8, "%c%c", 0xC0 | point >> 6, 0x80 | (point & 0x3F));
            add(v, name, 0, BT_TOKEN_NORMAL);
        }
    }
    for (size_t i = 0; i < small_bpe_merges; i++) {
        const char *m = small_bpe_merge[i], *space = strchr(m, ' ');
        v->merge[i].text = m;
        v->merge[i].len = strlen(m);
        char *name = v->names + 8 * v->src.token_count;
        snprintf(name, 8, "%.*s%s", (int)(space - m), m, space + 1);
        add(v, name, 0, BT_TOKEN_NORMAL);
    }
    v->src.merge_count = small_bpe_merges;
    add(v, "<|end|>", 0, BT_TOKEN_CONTROL);
    add(v, "<|im_start|>", 0, BT_TOKEN_CONTROL);
    add(v, "<|im_end|>", 0, BT_TOKEN_CONTROL);
    add(v, "<think>", 0, BT_TOKEN_USER_DEFINED);
    v->src.bos = v->src.eos = small_id(v, "<|end|>");
}

int32_t small_id(const small_vocab *v, const char *name)
{
    for (size_t i = 0; i < v->src.token_count; i++)
        if (strlen(name) == v->token[i].len && memcmp(name, v->token[i].text, v->token[i].len) == 0)
            return (int32_t)i;
    return -1;
}

/* ---- pairs and rows ---- */

enum { BYTES = 256, PAIRS = BYTES * BYTES, ROWS = 5, ROW_MAX = 64, NAME_MAX = 2 * ROW_MAX + 2 };

typedef struct byte_name {
    char text[3];
    size_t len;
} byte_name;

static byte_name of_byte[BYTES];

static void add_byte(char *name, size_t *len, unsigned b)
{
    memcpy(name + *len, of_byte[b].text, of_byte[b].len);
    *len += of_byte[b].len;
}

/* The parts of a token that is no byte, with `between` where they are joined. A callback's span lives until
 * the next call: a tokenizer copies what it gets. */
static bt_text_span joined(size_t i, const char *between)
{
    static char name[NAME_MAX];
    size_t len = 0;
    const size_t pair = i * 40503 % PAIRS, half = i < PAIRS ? 1 : (size_t)2 << (i - PAIRS) / BYTES;
    for (size_t part = 0; part < 2; part++) {
        if (part > 0 && *between) name[len++] = *between;
        if (i < PAIRS) add_byte(name, &len, (unsigned)(part == 0 ? pair / BYTES : pair % BYTES));
        else
            for (size_t k = 0; k < half; k++) add_byte(name, &len, (unsigned)((i - PAIRS) % BYTES));
    }
    return (bt_text_span){name, len};
}

static bt_text_span pairs_token(void *ud, size_t i)
{
    (void)ud;
    return i < BYTES ? (bt_text_span){of_byte[i].text, of_byte[i].len} : joined(i - BYTES, "");
}

static bt_text_span pairs_merge(void *ud, size_t i)
{
    (void)ud;
    return joined(i, " ");
}

void small_bpe_pairs(bt_vocab_source *ret, const char *pre)
{
    unsigned others = 0;
    for (int b = 0; b < BYTES; b++) {
        const unsigned point = plain(b) ? (unsigned)b : 0x100 + others++;
        byte_name *n = &of_byte[b];
        n->len = point < 0x80 ? 1 : 2;
        n->text[0] = (char)(point < 0x80 ? point : 0xC0 | point >> 6);
        n->text[1] = (char)(point < 0x80 ? 0 : 0x80 | (point & 0x3F));
    }
    *ret = (bt_vocab_source){.model = {"gpt2", 4},
                             .pre = {pre, strlen(pre)},
                             .token_count = BYTES + PAIRS + ROWS * BYTES,
                             .merge_count = PAIRS + ROWS * BYTES,
                             .token = pairs_token,
                             .merge = pairs_merge,
                             .bos = -1,
                             .eos = -1,
                             .unk = -1,
                             .eot = -1,
                             .eom = -1,
                             .add_bos = 0,
                             .add_space_prefix = -1};
}
