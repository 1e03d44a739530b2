#ifndef GW_DIALECT_H
#define GW_DIALECT_H
#include "gateway/api/answer.h"
#include "gateway/api/fields.h"
#include "gateway/api/logprobs.h"

/* A dialect: one form of requests, answers and errors over the internal request (ask.h) and answer (answer.h). It has
 * one file, and one row of dialects_table.h. Pure: bytes to a struct, structs to bytes.
 *
 * A stream is what begin, part, call and end add, in this order, part once for each piece of text; alive stands in for
 * begin's followers where nothing came for a while. A stream that fails ends with an error event instead of end. The
 * caller sets now_us of the answer before each, and keeps all parts (gw_answer_keep) before whole.
 * Writers return the errors of bt_buf_add; BT_ENOMEM adds nothing. */
extern const char gw_dialect_events[], gw_dialect_lines[]; /* types of streams: server-sent events, lines of JSON */

typedef struct gw_error_kind { /* of the first row that holds the status */
    int from, to;              /* statuses */
    const char *type;          /* the dialect's word */
} gw_error_kind;

typedef struct gw_dialect gw_dialect;
struct gw_dialect {
    const char *name;    /* of a request, in logs */
    const char *request; /* its schema's name in the description of the API */
    const char *prompt;  /* the field of its prompt, which errors name */
    unsigned where;      /* its bit in the tables of fields */
    const gw_fields *own;
    bool is_chat, is_stream;                    /* what a request is that does not say */
    bool tells_prompt;                          /* answers have the prompt's text */
    uint32_t default_tokens;                    /* of an answer; 0: --max-answer */
    bt_err (*made)(gw_reader *p, json_t *root); /* after all fields: rules between them; NULL: none */

    const char *id; /* what ids of answers begin with */
    gw_logprobs_form logprobs;
    const char *stream_type; /* Content-Type of a stream */
    bt_err (*begin)(bt_buf *out, gw_answer *a);
    /* logprobs: of gw_logprobs_tell; the reference is taken, NULL is BT_ENOMEM */
    bt_err (*part)(bt_buf *out, gw_answer *a, const bt_thoughts_part *part, json_t *logprobs);
    bt_err (*call)(bt_buf *out, gw_answer *a, const bt_call *call); /* of a tool; NULL: it has no words for calls */
    bt_err (*end)(bt_buf *out, gw_answer *a, const gw_answer_report *r);
    bt_err (*alive)(bt_buf *out, gw_answer *a);
    bt_err (*loaded)(bt_buf *out, gw_answer *a); /* where is_load was asked for; NULL: it cannot be */
    bt_err (*whole)(bt_buf *out, gw_answer *a, const gw_answer_report *r, json_t *logprobs); /* not streamed */

    const char *error_schema;   /* in the description of the API */
    const gw_error_kind *kinds; /* every status from 400 to 599 is in one of them */
    json_t *(*error)(const gw_error *err, const char *type);
    const char *error_event; /* what stands before an error in a stream, and behind it */
    const char *error_end;
};

#define X(name) extern const gw_dialect gw_dialect_##name;
#include "gateway/api/dialects_table.h"
#undef X

/* A body as a request. BT_OK, or BT_EARG with *err filled (400, or 404 for another model's name); BT_ENOMEM with *err
 * filled too (500). *ret is untouched on failure. Any bytes are safe. */
bt_err gw_dialect_read(gw_ask *ret, gw_error *err, const gw_dialect *d, const char *body, size_t len,
                       const gw_ask_limits *limits);
/* The answer that r begins, without its id. */
gw_answer gw_dialect_answer(const gw_dialect *d, const gw_ask *r);
void gw_dialect_answer_done(gw_answer *a); /* a zeroed one is fine */
bt_err gw_dialect_error(bt_buf *out, const gw_dialect *d, const gw_error *err);
bt_err gw_dialect_error_event(bt_buf *out, const gw_dialect *d, const gw_error *err);
#endif
