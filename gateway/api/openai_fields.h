#ifndef GW_OPENAI_FIELDS_H
#define GW_OPENAI_FIELDS_H
#include "gateway/api/openai_read.h"

/* Private to the door: the one table of the fields of a request. Requests are read by it, and the description in
 * openapi.h is made from it. */
typedef enum gw_field_where { GW_FIELD_CHAT = 1, GW_FIELD_TEXT = 2, GW_FIELD_BOTH = 3 } gw_field_where;
typedef enum gw_field_kind {
    GW_FIELD_NUMBER,  /* lo..hi */
    GW_FIELD_INTEGER, /* lo..hi; both 0: any */
    GW_FIELD_BOOLEAN,
    GW_FIELD_OTHER, /* json is its JSON schema */
    GW_FIELD_ONLY,  /* json is an array of the accepted values, which ask for what is done anyway */
    GW_FIELD_ANY,   /* harmless: accepted with any value, unread */
} gw_field_kind;

typedef struct gw_field {
    const char *name;
    gw_field_where where;
    gw_field_kind kind;
    bt_err (*read)(gw_reader *p, const struct gw_field *f, json_t *v); /* never a null */
    double lo, hi;
    const char *json;
    size_t at;        /* NUMBER: where in bt_sampling the float is */
    const char *help; /* a sentence without its full stop */
} gw_field;

extern const gw_field gw_fields[];
extern const size_t gw_fields_len;

/* Reads every field of the object `root` into p->r, then checks the rules between fields. Errors of gw_openai_parse. */
bt_err gw_fields_read(gw_reader *p, json_t *root);
#endif
