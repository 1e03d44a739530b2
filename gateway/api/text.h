#ifndef GW_TEXT_H
#define GW_TEXT_H
#include "base/buf.h"
#include "gateway/api/ask.h"
#include "sample/stop.h"
#include "model/templates.h"
#include "text/calls/calls.h"
#include "text/detok.h"
#include "text/thoughts.h"
#include "text/tokenizer.h"

typedef struct bt_gguf bt_gguf; /* model/gguf.h */

/* Words to ids and back for the gateway: prompts with the model's tokeniser and chat template, answers piece by
 * piece. */
enum { GW_TEXT_MARKS = BT_THOUGHTS_MAX_TOKENS + BT_CALLS_MAX_MARKS + 1 };
typedef struct gw_text {
    bt_tokenizer *tok;
    bt_templates templates;
    int32_t stop_ids[BT_MSG_MAX_STOP_IDS]; /* ids that end an answer */
    uint32_t stop_ids_len;
    const bt_thought_marks *marks;   /* of thoughts in answers; NULL: the model has none */
    const bt_call_form *calls;       /* of tools in answers; NULL: the chat template writes none that is known */
    int32_t mark_ids[GW_TEXT_MARKS]; /* control tokens among both's, which are shown; -1: none; calls' are the last */
} gw_text;

/* Copies what it needs from g. A file without a template, or with one that does not parse, is fine: chats are then
 * refused with the words of templates.why. chat_template: as `choice` of bt_templates_open, with its errors. */
bt_err gw_text_open(gw_text *ret, const bt_gguf *g, const char *chat_template, bt_fault *fault);
void gw_text_close(gw_text *t);
void gw_text_name_ends(bt_buf *out, const gw_text *t); /* "<|im_end|> (2), </s> (1)": the ids that end an answer */

/* Limits of a template where others wait for the chat's rendering: at most 2 ms on a machine of today. */
enum { GW_TEXT_QUICK_STEPS = 15000, GW_TEXT_QUICK_BYTES = 1 << 16 };

/* The prompt of a chat as text. With limits in r->talk that are too small: BT_EAGAIN, without words. Errors as
 * gw_dialect_read. */
bt_err gw_text_render(bt_chat_prompt *ret, const gw_text *t, const gw_ask *r, gw_error *err);
/* Asks for a structure where the answer must be calls of tools; looks at the tools of any chat that calls them. Errors
 * as gw_dialect_read. */
bt_err gw_text_shape(const gw_text *t, gw_ask *r, gw_error *err);
/* The ids of a request's prompt, malloc'ed, at least one. A chat goes through the template; a text begins with a BOS
 * where the file asks for one, and not with a second one where the text, whose control tokens are taken
 * (parse_special), begins with its own; a list of ids stays as it is. A text of more than ctx_tokens +
 * GW_TEXT_COUNTED_TOKENS is not counted to its end, so that no body keeps the gateway from its other work for long.
 * Errors as gw_text_render, gw_ask_bound. */
enum { GW_TEXT_COUNTED_TOKENS = 16384 };
bt_err gw_text_prompt(int32_t **ret, size_t *ret_len, const gw_text *t, const gw_ask *r, uint32_t ctx_tokens,
                      gw_error *err);

/* Whether the file asks for a BOS, and the text begins with its name: where names are tokens, none is to be added. */
bool gw_text_brings_bos(const gw_text *t, const char *text, size_t len);
/* The text of ids, control tokens by their names, into *ret, which is begun, and ended by the caller also after a
 * failure. Errors of bt_detok_all; BT_ELIMIT beyond BT_TOKENIZER_MAX_TEXT_BYTES. */
bt_err gw_text_of_ids(bt_buf *ret, const gw_text *t, const int32_t *ids, size_t ids_len, bt_fault *fault);

/* One answer's text. Bytes that may begin a stop string are held back until that is certain. A stop string that is one
 * control token, which no text shows, ends the text as that id. */
typedef struct gw_text_answer {
    bt_detok detok;
    bt_stop stop;
    bt_buf text;           /* everything that may be shown, in whole characters */
    bt_thoughts thoughts;  /* how far the text has been given out by gw_text_next */
    bool is_stopped;       /* a stop string came: the text ends before it, later ids change nothing */
    bool brings_bos;       /* the prompt's text begins with the BOS that the file asks for: none was added */
    size_t prompt_chars;   /* of the prompt's text, where log probabilities of a completion tell places */
    size_t thought_tokens; /* inside thoughts so far */
    bt_thoughts counted;   /* private: how far thought_tokens counts */
    bt_calls calls;        /* of what it says */
    bt_buf said;           /* private: what was said, where calls are read from it; err tells of lacking memory */
    int32_t stop_id[GW_ASK_MAX_STOPS], mark_ids[GW_TEXT_MARKS]; /* private */
    size_t stop_ids, stop_at[GW_ASK_MAX_STOPS];
} gw_text_answer;

/* ids: of the prompt. ids_max bounds the memory. */
bt_err gw_text_begin(gw_text_answer *ret, const gw_text *t, const gw_ask *r, const int32_t *ids, size_t ids_len,
                     size_t ids_max, bt_fault *fault);
/* Whether a stop string is the id's name: gw_text_stop instead of gw_text_push then, and the id is no part of the
 * answer. */
bool gw_text_is_stop(const gw_text_answer *a, int32_t id);
bt_err gw_text_stop(gw_text_answer *a, int32_t id, bt_fault *fault); /* gives out the text held back, and sets
                                                                        is_stopped */
bt_text_span gw_text_stopped_by(const gw_text_answer *a);            /* the stop string, with is_stopped */
bt_err gw_text_push(gw_text_answer *a, int32_t id, bt_fault *fault);
/* The next part of the text, of what a chat's model thinks or of what it says, or a call of a tool: ret_call->name is
 * NULL where it is text; each byte comes once. is_over: the text has ended. False: there is none for now. */
bool gw_text_next(bt_thoughts_part *ret, bt_call *ret_call, gw_text_answer *a, bool is_over);
/* Bytes of text that the ids so far made, shown and held back; without meaning once is_stopped. */
static inline size_t gw_text_made(const gw_text_answer *a) { return a->text.len + a->stop.held_bytes; }
bt_err gw_text_finish(gw_text_answer *a, bt_fault *fault); /* gives out the text held back */
void gw_text_end(gw_text_answer *a);
#endif
