#ifndef BT_JINJA_JINJA_H
#define BT_JINJA_JINJA_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The Jinja that chat templates are written in, as an interpreter that is bounded and pure: no file, clock, thread,
 * locale or network is in its reach. A rendering has the bytes that transformers' apply_chat_template gives: jinja2's
 * ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks, `break` and `continue`, `{% generation %}`, a tojson
 * that writes text as it is, raise_exception and strftime_now.
 *
 * Where it differs, it refuses: integers beyond 64 bits; include, import, extends, block, autoescape; the filters
 * pprint, random, urlize, wordwrap and xmlattr; members inside of formats ("{0.x}"); attributes of Python's objects
 * that are no methods of text, lists or mappings; values filled into text that is marked safe ("%s" | safe).
 *
 * Every byte of a rendering is either the template's or the request's. Literals, variables that are marked so and
 * what is computed from them alone are the template's. So is the role of a message that is one of the fixed set
 * (bt_jinja_is_role). Bytes keep their origin through every filter, slice, join and replacement; digits, quotes and
 * brackets that stand for a value of the request are the request's. */

enum {
    BT_JINJA_MAX_SOURCE_BYTES = 64 << 10,
    BT_JINJA_MAX_STEPS = 10000000,         /* a step: a node evaluated, an item walked, 16 names looked through, or 64
                                              bytes copied, searched or compared */
    BT_JINJA_MAX_DEPTH = 64,               /* of blocks and brackets in a source, of calls, of lists in lists */
    BT_JINJA_MAX_FRAMES = 1024,            /* evaluations that are open at once, one inside the other */
    BT_JINJA_MAX_OUTPUT_BYTES = 16 << 20,  /* of the rendering, and of any text on the way */
    BT_JINJA_MAX_MEMORY_BYTES = 256 << 20, /* of one rendering, with its copy of the variables */
    BT_JINJA_MAX_RANGE = 100000,           /* numbers of one range(), as in jinja2's sandbox */
};

/* A template, parsed. It never changes: any number of threads may render it at once. */
typedef struct bt_jinja bt_jinja;

/* Copies the source, which need not be NUL-terminated. Faults begin with "line L, column C: ", both from 1, columns in
 * characters. BT_EFORMAT: not UTF-8, no Jinja, or a filter, test, function or tag that there is not (one inside
 * {% if %} is reported when it is reached, as jinja2 does). BT_ELIMIT: larger or deeper than the limits above, which
 * the fault names. */
bt_err bt_jinja_parse(bt_jinja **ret, const char *source, size_t len, bt_fault *fault);
void bt_jinja_free(bt_jinja *j); /* NULL is fine */

/* True where the template reads a variable of this name, or a member x.name of any value. */
bool bt_jinja_mentions(const bt_jinja *j, const char *name);

typedef enum bt_jinja_origin {
    BT_JINJA_REQUEST,  /* all text in it is the request's */
    BT_JINJA_TEMPLATE, /* all text in it is the template's: bos_token and its like */
    BT_JINJA_MESSAGES, /* the request's, but for roles: "role" of each object in the list */
} bt_jinja_origin;

/* Names that count as the template's where a message has exactly one of them as its role: assistant, developer,
 * function, ipython, model, system, tool, user. */
bool bt_jinja_is_role(const char *role, size_t len);

/* Both are borrowed while bt_jinja_render runs; the JSON is only read, so that threads may share it. */
typedef struct bt_jinja_var {
    const char *name;
    const json_t *value;
    bt_jinja_origin origin;
} bt_jinja_var;

typedef struct bt_jinja_limits { /* 0: the limits above, which are also the greatest values */
    uint64_t steps;
    size_t output_bytes, memory_bytes;
} bt_jinja_limits;

typedef struct bt_jinja_input {
    const bt_jinja_var *var; /* the last of one name counts */
    size_t vars;
    int64_t now_s; /* the time of strftime_now: seconds since 1970 of the local clock, zone included */
    bt_jinja_limits limits;
} bt_jinja_input;

typedef struct bt_jinja_run {
    size_t len; /* > 0 */
    bool is_template;
} bt_jinja_run;

typedef struct bt_jinja_text {
    char *text; /* UTF-8, NUL-terminated */
    size_t len;
    bt_jinja_run *run; /* neighbours differ in origin; their lengths add up to len */
    size_t runs;
    uint64_t steps; /* taken */
    size_t memory_bytes;
} bt_jinja_text;

/* Fills *ret, for bt_jinja_text_done. Faults name line and column of the template as above.
 *   BT_EARG    the template called raise_exception: the fault is its text alone, cut to fit
 *   BT_EFORMAT the template cannot be rendered with these variables
 *   BT_ELIMIT  a limit, named in the fault
 *   BT_ENOMEM */
bt_err bt_jinja_render(bt_jinja_text *ret, const bt_jinja *j, const bt_jinja_input *in, bt_fault *fault);
void bt_jinja_text_done(bt_jinja_text *t); /* NULL is fine */
#endif
