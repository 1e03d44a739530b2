/* Any bytes as a GGUF file: its vocabulary is refused or works, and a chat template in it is refused or
 * renders. */
#include "model/gguf.h"
#include "model/templates.h"
#include "model/vocab.h"
#include "text/detok.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void use(const bt_tokenizer *tok, const bt_chat *chat)
{
    static const char text[] = " Hello 123, <s>w\xC3\xB6rld\xF0\x9F\xA6\x99</s>\n\n";
    int32_t *ids, end[BT_CHAT_MAX_ENDS];
    size_t n;
    bt_buf out;
    bt_chat_prompt p;
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
    n = bt_chat_ends(end, chat, tok);
    for (size_t i = 0; i < n; i++)
        if (!bt_tokenizer_piece(tok, end[i]).ptr) abort();
    if (!chat) return;
    json_t *messages = json_pack("[{s:s,s:s},{s:s,s:s},{s:s,s:s}]", "role", "user", "content", text, "role",
                                 "assistant", "content", "ok", "role", "user", "content", "");
    const bt_chat_talk talk = {.messages = messages, .add_generation_prompt = true, .steps_max = 10000,
                               .bytes_max = 4096};
    if (bt_chat_render(&p, chat, &talk, NULL) == BT_OK) {
        if (bt_tokenizer_encode_pieces(&ids, &n, tok, p.piece, p.pieces, 0, NULL) == BT_OK) free(ids);
        bt_chat_prompt_done(&p);
    }
    json_decref(messages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    bt_gguf *g;
    bt_tokenizer *tok;
    bt_templates t;
    if (bt_gguf_open_bytes(&g, data, len, NULL) < 0) return 0;
    const bt_err e = bt_vocab_load(&tok, g, NULL);
    const bt_err opened = e == BT_OK ? bt_templates_open(&t, g, tok, NULL, NULL) : e;
    bt_gguf_close(g);
    if (opened == BT_OK) {
        use(tok, t.chat);
        bt_templates_close(&t);
    }
    if (e == BT_OK) bt_tokenizer_free(tok);
    return 0;
}
