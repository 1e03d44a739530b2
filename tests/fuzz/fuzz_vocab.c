/* Any bytes as a GGUF file: its vocabulary is refused or works, and a chat template in it is refused or
 * renders. */
#include "model/gguf.h"
#include "model/vocab.h"
#include "text/chat.h"
#include "text/detok.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void use(const bt_tokenizer *tok)
{
    static const char text[] = " Hello 123, <s>w\xC3\xB6rld\xF0\x9F\xA6\x99</s>\n\n";
    int32_t *ids;
    size_t n;
    bt_buf out;
    bt_chat chat;
    bt_chat_prompt p;
    const bt_chat_message m[] = {{"user", text, sizeof text - 1}, {"assistant", "ok", 2}, {"user", "", 0}};
    if (bt_tokenizer_encode(&ids, &n, tok, text, sizeof text - 1, BT_ENCODE_SPECIAL | BT_ENCODE_BOS, NULL) ==
        BT_OK) {
        for (size_t i = 0; i < n; i++)
            if (!bt_tokenizer_piece(tok, ids[i]).ptr) abort();
        bt_buf_init(&out, 1 << 20);
        /* hostile names may be long: a limit is fine */
        (void)bt_detok_all(&out, tok, ids, n, BT_DETOK_START, NULL);
        bt_buf_done(&out);
        free(ids);
    }
    if (bt_chat_init(&chat, tok, NULL) == BT_OK &&
        bt_chat_render(&p, &chat, m, 3, true, 4096, NULL) == BT_OK) {
        if (bt_tokenizer_encode_pieces(&ids, &n, tok, p.piece, p.pieces, BT_ENCODE_BOS, NULL) == BT_OK)
            free(ids);
        bt_chat_prompt_done(&p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    bt_gguf *g;
    bt_tokenizer *tok;
    if (bt_gguf_open_bytes(&g, data, len, NULL) < 0) return 0;
    const bt_err e = bt_vocab_load(&tok, g, NULL);
    bt_gguf_close(g);
    if (e == BT_OK) use(tok);
    if (e == BT_OK) bt_tokenizer_free(tok);
    return 0;
}
