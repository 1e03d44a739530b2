/* See logprobs.h. */
#include "gateway/api/logprobs.h"
#include "text/utf8.h"

#include <jansson.h>
#include <string.h>

enum { TEXT_BYTES = 1024 }; /* of one token's shown text */

typedef struct token {
    int32_t id;
    size_t begin_bytes, end_bytes; /* place of its text in all text made so far */
    bt_msg_logprob logprob;
} token;

void gw_logprobs_begin(gw_logprobs *ret, const bt_tokenizer *tok, gw_logprobs_form form, uint32_t top,
                       size_t prompt_chars, size_t ids_max)
{
    *ret = (gw_logprobs){.tok = tok, .form = form, .top = top, .place_chars = prompt_chars};
    bt_buf_init(&ret->tokens, ids_max * sizeof(token));
}

void gw_logprobs_end(gw_logprobs *p)
{
    if (p->tok) bt_buf_done(&p->tokens);
    *p = (gw_logprobs){0};
}

bt_err gw_logprobs_push(gw_logprobs *p, const gw_text_answer *text, size_t begin_bytes, int32_t id,
                        const bt_msg_logprob *l)
{
    const token t = {.id = id, .begin_bytes = begin_bytes, .end_bytes = gw_text_made(text), .logprob = *l};
    return bt_buf_add(&p->tokens, &t, sizeof t);
}

static const token *token_at(const gw_logprobs *p, size_t i)
{
    return (const token *)(const void *)p->tokens.data + i;
}

static bool may_tell(const token *t, const gw_text_answer *text, bool is_over)
{
    if (text->is_stopped) return is_over && t->begin_bytes < text->text.len;
    return is_over || t->end_bytes <= text->text.len;
}

bool gw_logprobs_waits(const gw_logprobs *p, const gw_text_answer *text, bool is_over)
{
    return p->tok && p->told < p->tokens.len / sizeof(token) && may_tell(token_at(p, p->told), text, is_over);
}

/* A token's text as JSON can have it: one that is only part of a character is shown with ?; "bytes" has it
 * exactly. */
static bt_text_span spelled(char shown[static TEXT_BYTES], bt_text_span s)
{
    size_t bad;
    if (bt_utf8_valid(s.ptr, s.len, &bad) && !memchr(s.ptr, 0, s.len)) return s;
    const char *text = bt_utf8_show(shown, TEXT_BYTES, s.ptr, s.len);
    return (bt_text_span){text, strlen(text)};
}

static json_t *words(bt_text_span s)
{
    char shown[TEXT_BYTES];
    const bt_text_span t = spelled(shown, s);
    return json_stringn(t.ptr, t.len);
}

static json_t *byte_list(bt_text_span s)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < s.len; i++)
        if (json_array_append_new(a, json_integer((unsigned char)s.ptr[i])) < 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *chat_entry(const gw_logprobs *p, int32_t id, float logprob)
{
    const bt_text_span s = bt_tokenizer_piece(p->tok, id);
    json_t *j =
        json_pack("{s:o,s:f,s:o}", "token", words(s), "logprob", (double)logprob, "bytes", byte_list(s));
    if (p->form == GW_LOGPROBS_LIST && j && json_object_set_new(j, "id", json_integer(id)) < 0) {
        json_decref(j);
        j = NULL;
    }
    return j;
}

static json_t *chat_token(const gw_logprobs *p, const token *t)
{
    json_t *entry = chat_entry(p, t->id, t->logprob.own), *top = json_array();
    int bad = !entry || !top;
    for (uint32_t i = 0; !bad && i < t->logprob.top_len; i++)
        bad = json_array_append_new(top, chat_entry(p, t->logprob.top_ids[i], t->logprob.top[i])) < 0;
    if (!bad) {
        bad = json_object_set(entry, "top_logprobs", top) < 0;
        json_decref(top);
        top = NULL;
    }
    if (!bad) return entry;
    json_decref(entry);
    json_decref(top);
    return NULL;
}

static int name_one(json_t *o, bt_text_span name, float logprob)
{
    return json_object_setn_new(o, name.ptr, name.len, json_real((double)logprob));
}

/* The likeliest, and the token that was drawn, always. Two ids may look alike: the drawn one has the name,
 * else the likelier. */
static json_t *top_object(const gw_logprobs *p, const token *t)
{
    char own_shown[TEXT_BYTES], shown[TEXT_BYTES];
    const bt_text_span own = spelled(own_shown, bt_tokenizer_piece(p->tok, t->id));
    json_t *o = json_object();
    int bad = !o;
    for (uint32_t i = 0; !bad && i < t->logprob.top_len; i++) {
        const bool is_own = t->logprob.top_ids[i] == t->id;
        const bt_text_span s = spelled(shown, bt_tokenizer_piece(p->tok, t->logprob.top_ids[i]));
        const bool is_taken = json_object_getn(o, s.ptr, s.len) ||
                              (!is_own && s.len == own.len && memcmp(s.ptr, own.ptr, s.len) == 0);
        if (!is_taken) bad = name_one(o, s, t->logprob.top[i]);
    }
    if (!bad && !json_object_getn(o, own.ptr, own.len)) bad = name_one(o, own, t->logprob.own);
    if (!bad) return o;
    json_decref(o);
    return NULL;
}

/* Characters of prompt and answer before the token's text; it never goes back. */
static size_t offset(gw_logprobs *p, const gw_text_answer *text, const token *t)
{
    const size_t end = t->begin_bytes < text->text.len ? t->begin_bytes : text->text.len;
    if (end <= p->place_bytes) return p->place_chars;
    p->place_chars += bt_utf8_count(bt_buf_text(&text->text) + p->place_bytes, end - p->place_bytes);
    p->place_bytes = end;
    return p->place_chars;
}

struct json_t *gw_logprobs_tell(gw_logprobs *p, const gw_text_answer *text, bool is_over)
{
    if (!p->tok) return json_null();
    json_t *a = json_array(), *own = json_array(), *at = json_array();
    json_t *top = p->top ? json_array() : json_null();
    int bad = !a || !own || !top || !at;
    for (; !bad && gw_logprobs_waits(p, text, is_over); p->told++) {
        const token *t = token_at(p, p->told);
        if (p->form != GW_LOGPROBS_TEXT) {
            bad = json_array_append_new(a, chat_token(p, t)) < 0;
            continue;
        }
        bad = json_array_append_new(a, words(bt_tokenizer_piece(p->tok, t->id))) < 0 ||
              json_array_append_new(own, json_real((double)t->logprob.own)) < 0 ||
              (p->top && json_array_append_new(top, top_object(p, t)) < 0) ||
              json_array_append_new(at, json_integer((json_int_t)offset(p, text, t))) < 0;
    }
    json_t *ret = bad                           ? NULL
                  : p->form == GW_LOGPROBS_LIST ? json_incref(a)
                  : bad                         ? NULL
                  : p->form == GW_LOGPROBS_CHAT
                      ? json_pack("{s:O,s:n}", "content", a, "refusal")
                      : json_pack("{s:O,s:O,s:O,s:O}", "tokens", a, "token_logprobs", own, "top_logprobs",
                                  top, "text_offset", at);
    json_decref(a);
    json_decref(own);
    json_decref(top);
    json_decref(at);
    return ret;
}

struct json_t *gw_logprobs_again(const gw_logprobs *p, size_t begin, size_t end)
{
    json_t *a = json_array();
    for (size_t i = begin; a && i < end && i < p->told; i++)
        if (json_array_append_new(a, chat_token(p, token_at(p, i))) < 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

/* Ends of tokens never go back. */
size_t gw_logprobs_within(const gw_logprobs *p, size_t bytes)
{
    size_t lo = 0, hi = p->tok ? p->tokens.len / sizeof(token) : 0;
    while (lo < hi) {
        const size_t at = lo + (hi - lo) / 2;
        if (token_at(p, at)->end_bytes <= bytes) lo = at + 1;
        else hi = at;
    }
    return lo;
}
