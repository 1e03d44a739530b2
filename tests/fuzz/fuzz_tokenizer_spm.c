/* Any text over a small vocabulary of the llama kind, pieces and flags chosen by the input: what is encoded
 * comes back. Byte 0: 1 special everywhere, 2 BOS, 4 no space in front; byte 1: where the text is cut in
 * two pieces. */
#include "text/detok.h"
#include "text/utf8.h"
#include "tests/helpers/model/small_vocab.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bt_tokenizer *make(int adds_space)
{
    static small_vocab v;
    bt_tokenizer *tok;
    small_spm(&v);
    v.src.add_space_prefix = adds_space;
    if (bt_tokenizer_new(&tok, &v.src, NULL) < 0) abort();
    return tok;
}

/* Text as it must come back: the mark for a space is a space; after a special token a space is put in
 * front. */
static void check_round_trip(const bt_tokenizer *tok, const int32_t *ids, size_t n, const char *text,
                             size_t len)
{
    bt_buf out, want;
    bt_buf_init(&out, 8 * len + 64);
    bt_buf_init(&want, len + 1);
    for (size_t i = 0; i < n; i++)
        if (bt_tokenizer_type(tok, ids[i]) == BT_TOKEN_USER_DEFINED) goto out;
    for (size_t i = 0; i < len;) {
        const int is_mark = len - i >= 3 && memcmp(text + i, "\xE2\x96\x81", 3) == 0;
        bt_buf_byte(&want, is_mark ? ' ' : (uint8_t)text[i]);
        i += is_mark ? 3 : 1;
    }
    if (bt_detok_all(&out, tok, ids, n, BT_DETOK_START, NULL) < 0) abort();
    if (out.len != want.len || (out.len > 0 && memcmp(out.data, want.data, out.len) != 0)) abort();
out:
    bt_buf_done(&out);
    bt_buf_done(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static bt_tokenizer *tok[2];
    if (!tok[0])
        for (int i = 0; i < 2; i++) tok[i] = make(i);
    if (len < 2) return 0;
    const bt_tokenizer *t = tok[(data[0] & 4) == 0];
    const unsigned flags = (data[0] & 1 ? BT_ENCODE_SPECIAL : 0) | (data[0] & 2 ? BT_ENCODE_BOS : 0);
    const char *text = (const char *)data + 2;
    len -= 2;
    const size_t cut = data[1] < len ? data[1] : len;
    const bt_text_piece piece[] = {{text, cut, true}, {text + cut, len - cut, false}};
    int32_t *ids;
    size_t n;
    const bt_err e = bt_tokenizer_encode_pieces(&ids, &n, t, piece, 2, flags, NULL);
    if ((e < 0) == bt_utf8_valid(text, len, NULL))
        abort(); /* all valid text can be expressed, nothing else */
    if (e < 0) return 0;
    free(ids);
    if (n > 2 * len + 2) abort();
    if (bt_tokenizer_encode(&ids, &n, t, text, len, 0, NULL) < 0) abort();
    check_round_trip(t, ids, n, text, len);
    free(ids);
    return 0;
}
