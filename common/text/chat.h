#ifndef BT_TEXT_CHAT_H
#define BT_TEXT_CHAT_H
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"
#include "text/tokenizer.h"

/* Chat templates. A file carries its template as a Jinja program; we run none: the family is recognised from marks in
 * its text, and rendered by our own table. Variants inside a family (a default system message, trimming, a missing
 * system role) are read from the text too. All else that a template might do (tools, dates, thinking) is left out.
 *
 * A rendered prompt is a list of pieces: markup, which may name control tokens, and the callers' words,
 * which may not. A user who writes "<|im_end|>" gets the letters, not the token. Encode with
 * bt_tokenizer_encode_pieces and BT_ENCODE_BOS; the BOS that begins most templates is left to that flag
 * and so never doubled. */
typedef enum bt_chat_family {
    BT_CHAT_CHATML,
    BT_CHAT_LLAMA2,
    BT_CHAT_LLAMA3,
    BT_CHAT_MISTRAL,
    BT_CHAT_ZEPHYR,
    BT_CHAT_PHI3,
    BT_CHAT_GEMMA,
} bt_chat_family;

enum { BT_CHAT_MAX_SYSTEM_BYTES = 1024, BT_CHAT_MAX_TOKEN_BYTES = 64, BT_CHAT_MAX_MESSAGES = 4096 };

typedef struct bt_chat {
    bt_chat_family family;
    bool has_system; /* the template has a system role, or a place for its text */
    bool is_trimmed; /* white space at both ends of each content is dropped */
    /* Llama 2 and Mistral */
    bool has_system_tag; /* [SYSTEM_PROMPT] rather than words inside [INST] */
    bool is_system_last; /* the system text goes into the last instruction, not the first */
    bool is_answer_trimmed;
    bool has_bos_each_turn;             /* before every [INST] but the first */
    const char *inst_open, *inst_close; /* "[INST] ", " [/INST]", with the spaces of the variant */
    /* "" or " ": before the answer, between it and its EOS, after the EOS */
    const char *answer_open, *answer_close, *answer_gap;
    /* goes first when the first message is not system; "" for none */
    char default_system[BT_CHAT_MAX_SYSTEM_BYTES];
    char bos[BT_CHAT_MAX_TOKEN_BYTES], eos[BT_CHAT_MAX_TOKEN_BYTES];
} bt_chat;

const char *bt_chat_family_name(bt_chat_family f); /* "ChatML", "Llama 2", ... */

/* BT_EVERSION when the file has no template or one of no known family, with words on how to send a plain
 * prompt. */
bt_err bt_chat_init(bt_chat *ret, const bt_tokenizer *tok, bt_fault *fault);
/* The same from the template's text and the names of the BOS and EOS tokens. */
bt_err bt_chat_detect(bt_chat *ret, bt_text_span tmpl, bt_text_span bos, bt_text_span eos, bt_fault *fault);

typedef struct bt_chat_message {
    const char *role;
    const char *content;
    size_t content_len;
} bt_chat_message;

typedef struct bt_chat_prompt {
    char *text; /* all pieces joined, NUL-terminated */
    size_t len;
    bt_text_piece *piece; /* into text */
    size_t pieces;
} bt_chat_prompt;

/* Roles are system, user, assistant. BT_EARG names a role that is not supported, or an order of roles that
 * the family cannot write (a late system message, a first answer); no messages at all is BT_EARG; text
 * beyond limit_bytes BT_ELIMIT. add_generation_prompt: end with the beginning of an assistant's turn. */
bt_err bt_chat_render(bt_chat_prompt *ret, const bt_chat *chat, const bt_chat_message *message, size_t messages,
                      bool add_generation_prompt, size_t limit_bytes, bt_fault *fault);
void bt_chat_prompt_done(bt_chat_prompt *p); /* NULL is fine */
#endif
