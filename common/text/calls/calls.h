#ifndef BT_TEXT_CALLS_H
#define BT_TEXT_CALLS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "text/chat.h"

/* Calls of tools in an answer's text. A model writes them in the form that its chat template shows it; each known form
 * is a row of one table. A call is given out once it is whole, since text that turns out to be no call is text. */
enum {
    BT_CALLS_MAX_MARKS = 2,
    BT_CALLS_MAX_BODY_BYTES = 1 << 20, /* of what stands between two marks; more is text */
    BT_CALLS_MAX_HELD_BYTES = 64,      /* of white space before a mark or a body; a longer run is text, and no call's */
    BT_CALLS_MAX_DEPTH = 64,           /* of lists and objects in arguments */
    BT_CALLS_MAX_NAME_BYTES = 256,
    BT_CALLS_MAX_CALLS = 128, /* of an answer; later ones are dropped */
};

typedef enum bt_call_body {
    BT_CALL_OBJECT, /* {"name": ..., "arguments": {...}}; Llama's word for the second is "parameters" */
    BT_CALL_LIST,   /* a list of such objects */
    BT_CALL_PYTHON, /* [f(a=1, b="x"), g()] */
} bt_call_body;
typedef struct bt_call_form {
    const char *name;                     /* as /props tells it */
    const char *open[BT_CALLS_MAX_MARKS]; /* marks, the first is the usual one; NULL: no more */
    bt_call_body body;
    const char *close; /* may be missing behind the body; "": there is none */
    char between;      /* may separate bodies; 0: nothing does */
    bool is_bare;      /* a body at the answer's beginning, or behind `between`, needs no mark; nor does a block of
                          code there, ```json, that is one */
    bool is_unmarked;  /* the template writes none */
} bt_call_form;

/* The form in which the chat's template writes a call, found by rendering one; where it writes none at all, the one
 * whose mark it tells the model together with tools. NULL: none, or one that is not known. Static. */
const bt_call_form *bt_calls_find(const bt_chat *chat);

/* The names of tools, {"function": {"name"}} or {"name"} each, as an object whose keys they are; a new reference.
 * BT_EARG: the one at *ret_bad has no name of 1 to BT_CALLS_MAX_NAME_BYTES; BT_ENOMEM. */
bt_err bt_calls_names(struct json_t **ret, size_t *ret_bad, const struct json_t *tools);

/* An answer that is nothing but calls: {"schema", "before", "between", "behind", "is_many"}, a new reference. The JSON
 * Schema is of one body, which stands between the two texts; is_many: of one body or more. only: the tool that is
 * called, NULL: any. Arguments are objects, whatever `parameters` say of their type. Members of `parameters` of a tool
 * that point into it (#/...) point to the same places still. tools: as bt_calls_names takes them. NULL: memory lacks,
 * or the form's bodies are no JSON (bt_calls_has_schema). */
static inline bool bt_calls_has_schema(const bt_call_form *form) { return form->body != BT_CALL_PYTHON; }
struct json_t *bt_calls_schema(const bt_call_form *form, const struct json_t *tools, const char *only, bool is_single);

typedef enum bt_calls_state { BT_CALLS_SAYS, BT_CALLS_BEGINS, BT_CALLS_BODY, BT_CALLS_BEHIND } bt_calls_state;
typedef struct bt_calls {     /* plain data, private but for form, given, unread, unknown and its name */
    const bt_call_form *form; /* NULL: all is text */
    struct json_t *names;     /* of bt_calls_names */
    bool is_single;           /* only the first call is given out, later ones are dropped */
    uint32_t given, unread;   /* calls given out; marks without a call behind */
    uint32_t unknown;         /* calls of tools that are not there */
    char unknown_name[64];    /* the tool of the last unknown call, perhaps without its end */
    bt_calls_state state;
    bool is_marked, is_closed;
    const char *close;     /* of the body */
    size_t at, body, scan; /* bytes that are done with; where the body begins; how far it was looked at */
    unsigned depth;
    char quote;
    bool is_escaped;
    bool is_unknown;      /* the body names a tool that is not there */
    struct json_t *ready; /* calls of one body */
    size_t next;          /* of them */
} bt_calls;
typedef struct bt_call {   /* valid until the next call of bt_calls_next */
    const char *name;      /* one of the tools' */
    const char *arguments; /* a JSON object */
    uint32_t index;
} bt_call;
typedef struct bt_calls_part {
    bool is_call;
    bt_text_span text; /* not empty; where it is no call */
    bt_call call;
} bt_calls_part;

/* names is taken; it may be NULL only where form is. */
void bt_calls_begin(bt_calls *ret, const bt_call_form *form, struct json_t *names, bool is_single);
void bt_calls_done(bt_calls *c); /* a zeroed one is fine */
/* The next part of a text that has grown to len bytes, from its beginning; is_over: no more comes. Bytes that may be a
 * call wait until that is certain. Behind a call white space is left out. False: there is no part for now. Memory that
 * is lacking makes a call text. */
bool bt_calls_next(bt_calls_part *ret, bt_calls *c, const char *text, size_t len, bool is_over);
#endif
