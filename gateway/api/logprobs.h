#ifndef GW_LOGPROBS_H
#define GW_LOGPROBS_H
#include "base/buf.h"
#include "gateway/api/text.h"
#include "wire/msg.h"

struct json_t;

/* Log probabilities of an answer's tokens, given out in step with its text. A token goes out when all of its text may
 * be shown; a token whose text is held back, because a stop string may begin there, waits. When the text ends, the rest
 * goes out, but not tokens that begin at or after the place where a stop string cut the text off. So the tokens given
 * out spell the text shown; only the last token may reach beyond its end. */
typedef enum gw_logprobs_form { GW_LOGPROBS_CHAT, GW_LOGPROBS_TEXT, GW_LOGPROBS_LIST } gw_logprobs_form;
typedef struct gw_logprobs {
    const bt_tokenizer *tok; /* outlives this; NULL: nobody asked */
    gw_logprobs_form form;
    uint32_t top;                    /* how many of the likeliest were asked for */
    bt_buf tokens;                   /* private */
    size_t told;                     /* how many tokens went out */
    size_t place_chars, place_bytes; /* text_offset so far */
} gw_logprobs;

/* prompt_chars: characters of the prompt, before the answer's text. */
void gw_logprobs_begin(gw_logprobs *ret, const bt_tokenizer *tok, gw_logprobs_form form, uint32_t top,
                       size_t prompt_chars, size_t ids_max);
void gw_logprobs_end(gw_logprobs *p);
/* After gw_text_push of the id; begin_bytes: gw_text_made of the answer before that push. */
bt_err gw_logprobs_push(gw_logprobs *p, const gw_text_answer *text, size_t begin_bytes, int32_t id,
                        const bt_msg_logprob *l);
bool gw_logprobs_waits(const gw_logprobs *p, const gw_text_answer *text, bool is_over); /* whether a token may go out */
/* The value of "logprobs" for the tokens that may go out now (is_over: the text has ended), a new reference; JSON null
 * when nobody asked, NULL when out of memory.
 *   chat        {content: [{token, logprob, bytes, top_logprobs}], refusal}
 *   list        [{id, token, logprob, bytes, top_logprobs: [the same without them]}]
 *   completion  {tokens, token_logprobs, top_logprobs, text_offset}. top_logprobs has an object for each token, with
 *               `top` of the likeliest and the token itself; null with a `top` of 0. Offsets are characters
 *               of prompt and answer together */
struct json_t *gw_logprobs_tell(gw_logprobs *p, const gw_text_answer *text, bool is_over);
/* The tokens from `begin` to before `end`, which have been told, as the list of a chat's content once more: a new
 * reference, NULL when out of memory. */
struct json_t *gw_logprobs_again(const gw_logprobs *p, size_t begin, size_t end);
/* How many tokens have all of their text in the first `bytes` of the answer's. */
size_t gw_logprobs_within(const gw_logprobs *p, size_t bytes);
#endif
