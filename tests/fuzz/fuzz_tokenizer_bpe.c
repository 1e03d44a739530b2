/* Any text over a small vocabulary of the gpt2 kind with each pre-tokenizer: what is encoded comes back
 * (where the pre-tokenizer wants NFC: of texts in NFC), cutting it into pieces changes no id, and control
 * tokens stay out of pieces that are not special. Byte 0: bits 0, 1, 3 and 4 the pre-tokenizer, bit 2 special
 * everywhere; byte 1: where the text is cut. */
#include "text/detok.h"
#include "text/utf8.h"
#include "tests/helpers/model/small_vocab.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char *const pres[] = {"gpt-2",       "llama-bpe",    "qwen2",     "smollm",
                                   "dbrx",        "gpt-4o",       "tekken",    "olmo",
                                   "deepseek-v3", "deepseek-llm", "command-r", "deepseek-coder"};
enum { PRES = sizeof pres / sizeof *pres };

/* The texts of their models are brought into NFC. */
static bool is_composed(size_t pre)
{
    return strcmp(pres[pre], "qwen2") == 0 || strcmp(pres[pre], "olmo") == 0 ||
           strcmp(pres[pre], "command-r") == 0;
}

static bt_tokenizer *make(const char *pre)
{
    static small_vocab v;
    bt_tokenizer *tok;
    small_bpe(&v, pre);
    if (bt_tokenizer_new(&tok, &v.src, NULL) < 0) abort();
    return tok;
}

static void check_round_trip(const bt_tokenizer *tok, const int32_t *ids, size_t n, const char *text,
                             size_t len)
{
    bt_buf out;
    bt_buf_init(&out, len);
    if (bt_detok_all(&out, tok, ids, n, BT_DETOK_START | BT_DETOK_SPECIAL, NULL) < 0) abort();
    if (out.len != len || (len > 0 && memcmp(out.data, text, len) != 0)) abort();
    bt_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static bt_tokenizer *tok[PRES];
    if (!tok[0])
        for (int i = 0; i < PRES; i++) tok[i] = make(pres[i]);
    if (len < 2) return 0;
    const size_t pre = ((data[0] & 3u) | (data[0] >> 1 & 12u)) % PRES;
    const bt_tokenizer *t = tok[pre];
    const unsigned flags = data[0] & 4 ? BT_ENCODE_SPECIAL : 0;
    const char *text = (const char *)data + 2;
    len -= 2;
    const size_t cut = data[1] < len ? data[1] : len;
    const bt_text_piece piece[] = {{text, cut, false}, {text + cut, len - cut, false}};
    int32_t *ids, *cut_ids;
    size_t n, cut_n;
    const bt_err e = bt_tokenizer_encode(&ids, &n, t, text, len, flags, NULL);
    if ((e < 0) == bt_utf8_valid(text, len, NULL)) abort();
    if (e < 0) return 0;
    if (bt_tokenizer_encode_pieces(&cut_ids, &cut_n, t, piece, 2, flags, NULL) < 0) abort();
    if (n != cut_n || (n > 0 && memcmp(ids, cut_ids, n * sizeof *ids) != 0)) abort();
    for (size_t i = 0; i < n; i++)
        if (flags == 0 && bt_tokenizer_type(t, ids[i]) == BT_TOKEN_CONTROL) abort();
    char *normal = NULL;
    size_t normal_len;
    if (is_composed(pre) && bt_utf8_nfc(&normal, &normal_len, text, len) < 0) abort();
    if (!normal) check_round_trip(t, ids, n, text, len);
    free(normal);
    free(ids);
    free(cut_ids);
    return 0;
}
