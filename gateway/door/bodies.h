#ifndef GW_BODIES_H
#define GW_BODIES_H
#include "gateway/door/state.h"

/* Bodies of POSTs become requests (JSON, the chat template, tokens, lengths) or answers that need no node. A short body
 * is read at once, unless its chat template has more to do than GW_TEXT_QUICK_STEPS, or its schema or grammar is not
 * compiled yet. Any other is read by a thread, so
 * that nobody waits for it: by one thread the bodies up to GW_BODIES_LONG_BYTES, and by another the longer ones, both
 * in order of arrival. The requests then stand in the brain's line in the order in which they were read.
 *
 * A body that waits counts among the bodies of the HTTP server. All that wait together take at most half of the memory
 * for bodies, so that one can always come in; one more is refused as GW_HTTP_TOO_BUSY. A client that goes away takes
 * its body out of the line. */
enum { GW_BODIES_SHORT_BYTES = 4096, GW_BODIES_LONG_BYTES = 131072 };

/* A body and what became of it. */
typedef struct gw_body {
    bt_aside_item item; /* first */
    gw_door *door;
    gw_live *live; /* with prompt_ids and text, once it was read; then->takes it, or it is freed */
    bt_buf bytes;  /* of one that a thread reads */
    size_t len;
    const gw_dialect *dialect; /* of its path */
    void (*read)(struct gw_body *b, const char *bytes);
    gw_ask_limits limits;
    uint32_t ctx_tokens;
    int64_t now_s; /* when it came, by the local clock with its zone: for the chat template */
    bool is_quick; /* others wait meanwhile: what takes longer ends with BT_EAGAIN */
    void (*then)(struct gw_body *b);
    bt_err e; /* with `err` */
    gw_error err;
    gw_ask request; /* without its texts and ids */
    bt_buf answer;  /* of one that needs no node */
} gw_body;

/* Calls then when the body was read, in the call or later, unless the client has gone by then. then takes b->live, or
 * sets e, and returns; b lives until it has returned. */
void gw_bodies_read(gw_door *d, gw_http_exchange *x, const gw_http_request *r,
                    void (*read)(gw_body *b, const char *bytes), void (*then)(gw_body *b));
/* How a body is read: fills b, by any thread, so it touches of the door only what never changes. */
void gw_bodies_ask(gw_body *b, const char *bytes);      /* for an answer of nodes */
void gw_bodies_count(gw_body *b, const char *bytes);    /* {"input_tokens": of the prompt} */
void gw_bodies_template(gw_body *b, const char *bytes); /* of a chat: {"prompt": the text it becomes} */
/* The client of a live whose body is unread has gone. */
void gw_bodies_forget(gw_body *b);
#endif
