#ifndef GW_LOGPROBS_H
#define GW_LOGPROBS_H
#include "base/buf.h"
#include "gateway/door/text.h"
#include "wire/msg.h"

struct json_t;

/* Log probabilities of an answer's tokens, given out in step with its text: a token is told when all of its text may be
 * shown, so one whose text is held back for a stop string waits with it. When the text ends, the rest is told, but for tokens
 * that begin at or after the place where a stop string cut it: what is told spells what is shown, up to the last token's end. */
typedef struct gw_logprobs {
    const bt_tokenizer *tok;            /* outlives this; NULL: nobody asked */
    bool is_chat;
    bt_buf tokens;                      /* private */
    size_t told;                        /* of them */
    size_t place_chars, place_bytes;    /* text_offset so far */
} gw_logprobs;

void gw_logprobs_begin(gw_logprobs *ret, const bt_tokenizer *tok, bool is_chat, size_t ids_max);
void gw_logprobs_end(gw_logprobs *p);
/* After gw_text_push of the id; begin_bytes: gw_text_made of the answer before that push. */
bt_err gw_logprobs_push(gw_logprobs *p, const gw_text_answer *text, size_t begin_bytes, int32_t id, const bt_msg_logprob *l);
bool gw_logprobs_waits(const gw_logprobs *p, const gw_text_answer *text, bool is_over);     /* is there one to be told? */
/* The value of "logprobs" for those that may be told now (is_over: the text has ended), a new reference; JSON null when nobody asked,
 * NULL when out of memory. A chat's: {content: [{token, logprob, bytes, top_logprobs}], refusal}. A completion's: {tokens,
 * token_logprobs, top_logprobs, text_offset}, offsets in characters of the answer's text. */
struct json_t *gw_logprobs_tell(gw_logprobs *p, const gw_text_answer *text, bool is_over);
#endif
