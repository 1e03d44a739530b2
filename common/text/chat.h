#ifndef BT_TEXT_CHAT_H
#define BT_TEXT_CHAT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "text/tokenizer.h"

struct json_t;

/* Chats as a model's own template writes them (text/jinja/jinja.h): the text that transformers' apply_chat_template
 * gives, to the byte.
 *
 * A rendered prompt is a list of pieces: what the template wrote, which may name control tokens, and the request's
 * words, which may not. A user who writes "<|im_end|>" gets the letters, not the token. Encode with
 * bt_tokenizer_encode_pieces and without BT_ENCODE_BOS: a BOS is there where the template writes one, and never twice.
 *
 * A chat never changes after bt_chat_new: any number of threads may render with it at once. */
enum {
    BT_CHAT_MAX_TEMPLATE_BYTES = 65536,
    BT_CHAT_MAX_MESSAGES = 4096,
    BT_CHAT_MAX_KWARGS = 64,
    BT_CHAT_MAX_ENDS = 16,
};

typedef struct bt_chat bt_chat;

/* A chat with the template `tmpl`; a request that has tools is written by `for_tools` where that is given (ptr not
 * NULL). The tokenizer, for the names of its BOS, EOS and unknown token, must live on; NULL: the template is parsed
 * and nothing more. BT_EFORMAT, BT_ELIMIT: a template does not parse, with line and column. */
bt_err bt_chat_new(bt_chat **ret, const bt_tokenizer *tok, bt_text_span tmpl, bt_text_span for_tools, bt_fault *fault);
void bt_chat_free(bt_chat *chat); /* NULL is fine */

/* The ids that end an answer, each once: eos, eot, eom and the names that the field uses (bt_tokenizer_is_eog), and the
 * token with which the template closes an answer, whatever type the file gives it. That one is found by rendering an
 * answer: a control token, or a token that looks like one (<...>, [...]). chat may be NULL. Returns how many. */
size_t bt_chat_ends(int32_t ret[BT_CHAT_MAX_ENDS], const bt_chat *chat, const bt_tokenizer *tok);

/* A conversation, all of it JSON; NULL: none. Rendering reads it and leaves it as it is. */
typedef struct bt_chat_talk {
    struct json_t *messages;    /* an array of objects, at least one */
    const struct json_t *tools; /* arrays of objects */
    const struct json_t *documents;
    const struct json_t *kwargs; /* an object: more variables for the template, for example enable_thinking */
    bool add_generation_prompt;  /* end with what opens an answer */
    int64_t now_s;               /* the template's clock: seconds since 1970 of the local clock, zone included */
    uint64_t steps_max;          /* of the template; 0: BT_JINJA_MAX_STEPS */
    size_t bytes_max;            /* of the prompt; 0: BT_JINJA_MAX_OUTPUT_BYTES */
} bt_chat_talk;

typedef struct bt_chat_prompt {
    char *text; /* all pieces joined, NUL-terminated */
    size_t len;
    bt_text_piece *piece; /* into text; neighbours differ in is_special */
    size_t pieces;
    uint64_t steps; /* that the template took */
} bt_chat_prompt;

/* As apply_chat_template does before the template sees them, members of messages that are null are left out, and a
 * thought (reasoning_content, thinking or reasoning) is there under the first two names. BT_EARG: no messages, one that
 * is no object, or the template refuses them (raise_exception), with its own words. BT_EFORMAT: the template fails
 * on them, with line and column. BT_ELIMIT: too many messages, or a limit that the fault names. */
bt_err bt_chat_render(bt_chat_prompt *ret, const bt_chat *chat, const bt_chat_talk *talk, bt_fault *fault);
void bt_chat_prompt_done(bt_chat_prompt *p); /* NULL is fine */

/* Messages of OpenAI's API become messages as the template expects them: arguments of tool calls, a text there, become
 * the object that they spell, unless the template takes the text; the role developer becomes system, unless the
 * template has the word; a content becomes a list of one part, {"type": "text", "text"}, where the template takes
 * nothing else. Changes the tree. BT_ENOMEM. */
bt_err bt_chat_adapt(const bt_chat *chat, struct json_t *messages);
#endif
