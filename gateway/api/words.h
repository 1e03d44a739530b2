#ifndef GW_WORDS_H
#define GW_WORDS_H
#include "gateway/api/text.h"

/* Texts to ids and back without an answer, as clients of llama.cpp's server ask for them. Pure: a body in, an
 * answer's JSON out.
 *
 *   tokenize    {content, add_special, parse_special, with_pieces}   -> {tokens: [id, ...]}, or with_pieces
 *               {tokens: [{id, piece}, ...]}; a piece that is no UTF-8 is a list of its bytes.
 *               add_special (false): a BOS where the file asks for one, unless the text brings it;
 *               parse_special (true): names of control tokens are the tokens
 *   detokenize  {tokens}   -> {content}, with the names of control tokens
 *
 * Both take `model` as the other requests do; any other field is refused by its name. At most
 * BT_MSG_MAX_PROMPT_TOKENS tokens, and BT_TOKENIZER_MAX_TEXT_BYTES of text. Errors as gw_dialect_read; what
 * out then holds means nothing. */
typedef bt_err gw_words(bt_buf *out, gw_error *err, const gw_text *t, const char *body, size_t len,
                        const gw_ask_limits *limits);
gw_words gw_words_tokenize, gw_words_detokenize;
#endif
