#ifndef GW_TEXT_H
#define GW_TEXT_H
#include "base/buf.h"
#include "gateway/api/openai.h"
#include "sample/stop.h"
#include "text/chat.h"
#include "text/detok.h"
#include "text/tokenizer.h"

typedef struct bt_gguf bt_gguf; /* model/gguf.h */

/* Words to ids and back for the gateway: prompts with the model's tokeniser and chat template, answers piece by
 * piece. */
typedef struct gw_text {
    bt_tokenizer *tok;
    bt_chat chat;
    bool has_chat;
    bt_fault chat_fault;                   /* why there is no chat */
    char *chat_template;                   /* the whole template of the file; NULL: none, no UTF-8, or over the limit */
    int32_t stop_ids[BT_MSG_MAX_STOP_IDS]; /* ids that end an answer */
    uint32_t stop_ids_len;
} gw_text;

enum { GW_TEXT_TEMPLATE_MAX_BYTES = 1 << 16 };
/* Copies what it needs from g. A file without a known chat template is fine: chats are then refused with
 * chat_fault's words. */
bt_err gw_text_open(gw_text *ret, const bt_gguf *g, bt_fault *fault);
void gw_text_close(gw_text *t);

/* The ids of a request's prompt, malloc'ed, at least one. A chat goes through the template; a text begins with a BOS
 * where the file asks for one; a list of ids stays as it is. A text of more than ctx_tokens + GW_TEXT_COUNTED_TOKENS is
 * not counted to its end, so that no body keeps the gateway from its other work for long. Errors as gw_openai_parse,
 * gw_openai_max_tokens. */
enum { GW_TEXT_COUNTED_TOKENS = 16384 };
bt_err gw_text_prompt(int32_t **ret, size_t *ret_len, const gw_text *t, const gw_openai_request *r, uint32_t ctx_tokens,
                      gw_openai_error *err);

/* One answer's text. Bytes that may begin a stop string are held back until that is certain. */
typedef struct gw_text_answer {
    bt_detok detok;
    bt_stop stop;
    bt_buf text;     /* everything that may be shown, in whole characters */
    bool is_stopped; /* a stop string came: the text ends before it, later ids change nothing */
} gw_text_answer;

/* ids_max bounds the memory. */
bt_err gw_text_begin(gw_text_answer *ret, const gw_text *t, const gw_openai_request *r, size_t ids_max,
                     bt_fault *fault);
bt_err gw_text_push(gw_text_answer *a, int32_t id, bt_fault *fault);
/* Bytes of text that the ids so far made, shown and held back; without meaning once is_stopped. */
static inline size_t gw_text_made(const gw_text_answer *a) { return a->text.len + a->stop.held_bytes; }
bt_err gw_text_finish(gw_text_answer *a, bt_fault *fault); /* gives out the text held back */
void gw_text_end(gw_text_answer *a);
#endif
