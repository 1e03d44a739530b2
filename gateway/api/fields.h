#ifndef GW_ASK_FIELDS_H
#define GW_ASK_FIELDS_H
#include "gateway/api/read.h"

/* Private to the door: the tables of the fields of requests. Requests are read by them, and the description in
 * openapi.h is made from them. The table here has the fields that several dialects share; each dialect has a table of
 * its own beside it.
 *
 * A row is a field that is used, one that is harmless, so accepted unread, or one that is not supported, so refused by
 * name when it asks for something. A field without a row is refused as unrecognised, with the nearest known name where
 * one is close. A field that is null is a field that is absent. */
typedef enum gw_field_where { /* a bit for each dialect */
                              GW_FIELD_CHAT = 1,
                              GW_FIELD_TEXT = 2,
                              GW_FIELD_MESSAGES = 4,
                              GW_FIELD_COUNT = 8,
                              GW_FIELD_OLLAMA_CHAT = 16,
                              GW_FIELD_OLLAMA_TEXT = 32,
                              GW_FIELD_OLLAMA_OPTIONS = 64, /* an object inside of both */
                              GW_FIELD_OLLAMA_SHOW = 128,
                              GW_FIELD_RESPONSES = 256,
                              GW_FIELD_LLAMA = 512,
} gw_field_where;
typedef enum gw_field_kind {
    GW_FIELD_NUMBER,  /* lo..hi */
    GW_FIELD_INTEGER, /* lo..hi; both 0: any */
    GW_FIELD_BOOLEAN,
    GW_FIELD_OTHER, /* json is its JSON schema */
    GW_FIELD_ONLY,  /* json is an array of the accepted values, which ask for what is done anyway */
    GW_FIELD_ANY,   /* harmless: accepted with any value, unread */
} gw_field_kind;

typedef struct gw_field gw_field;
typedef bt_err gw_field_read(gw_reader *p, const gw_field *f, json_t *v); /* v: never a null */
struct gw_field {
    const char *name;
    unsigned where;
    gw_field_kind kind;
    gw_field_read *read;
    double lo, hi;
    const char *json;
    size_t at;        /* NUMBER: where in bt_sampling the float is */
    const char *help; /* a sentence without its full stop */
    bool is_required;
};
typedef struct gw_fields {
    const gw_field *at;
    size_t len;
} gw_fields;

extern const gw_fields gw_fields_shared;

/* Rows of a table. */
// clang-format off
#define GW_NUMBER(name, where, member, lo, hi, help) \
    {name, where, GW_FIELD_NUMBER, gw_field_number, lo, hi, NULL, offsetof(bt_sampling, member), help, false}
#define GW_INTEGER(name, where, fn, lo, hi, help) \
    {name, where, GW_FIELD_INTEGER, fn, lo, hi, NULL, 0, help, false}
#define GW_BOOLEAN(name, where, fn, help) {name, where, GW_FIELD_BOOLEAN, fn, 0, 0, NULL, 0, help, false}
#define GW_OTHER(name, where, fn, schema, help) {name, where, GW_FIELD_OTHER, fn, 0, 0, schema, 0, help, false}
#define GW_REQUIRED(name, where, fn, schema, help) {name, where, GW_FIELD_OTHER, fn, 0, 0, schema, 0, help, true}
#define GW_ONLY(name, where, values) \
    {name, where, GW_FIELD_ONLY, gw_field_only, 0, 0, values, 0, \
     "Not supported: only the values that ask for nothing", false}
#define GW_HARMLESS(name, where, help) {name, where, GW_FIELD_ANY, gw_field_any, 0, 0, NULL, 0, help, false}
// clang-format on

gw_field_read gw_field_number, gw_field_any, gw_field_only, gw_field_stop, gw_field_max_answer;

/* The next field of the dialect `where` in both tables, from *at on, which moves; NULL: no more. */
const gw_field *gw_fields_next(size_t *at, const gw_fields *own, unsigned where);
/* Reads every field of the object `root` into p->r, by the rows of `where`, and looks for those that must be there.
 * Errors of gw_dialect_read. */
bt_err gw_fields_read(gw_reader *p, json_t *root, unsigned where);
#endif
