#ifndef BT_JINJA_JJ_VALUE_H
#define BT_JINJA_JJ_VALUE_H
#include <jansson.h>
#include "text/jinja/jj_str.h"

/* Values as Python has them. Lists and mappings are never changed once they are made, but for a namespace. */
typedef enum jj_kind {
    JJ_MISSING, /* no value: an argument that was not given */
    JJ_UNDEFINED,
    JJ_NONE,
    JJ_BOOL,
    JJ_INT,
    JJ_FLOAT,
    JJ_STR,
    JJ_LIST,
    JJ_DICT,
    JJ_SPACE, /* namespace() */
    JJ_NATIVE,
    JJ_MACRO,
    JJ_LOOP,
    JJ_TURNS, /* cycler(), joiner() */
} jj_kind;

typedef struct jj_list jj_list;
typedef struct jj_dict jj_dict;
typedef struct jj_undefined jj_undefined;
typedef struct jj_bound jj_bound;
typedef struct jj_macro jj_macro;
typedef struct jj_loop jj_loop;
typedef struct jj_turns jj_turns;

struct jj_value {
    uint8_t kind;     /* jj_kind */
    bool is_template; /* whose the bytes are that stand for it; text knows of each byte itself */
    bool is_markup;   /* text that `safe` or `escape` gave: what is added to it is escaped, as markupsafe does it */
    union {
        bool b;
        int64_t i;
        double f;
        const jj_str *s;
        jj_list *list;
        jj_dict *dict;
        const jj_undefined *undefined; /* NULL: an if without else */
        const jj_bound *native;
        const jj_macro *macro;
        jj_loop *loop;
        jj_turns *turns;
    };
};

/* The reason of an undefined value: words, or the name of what is not there. */
struct jj_undefined {
    const char *words;  /* or NULL */
    const char *object; /* "dict object": what has no such attribute or element; NULL: a variable */
    jj_value name;      /* text, or a number */
};

typedef enum jj_style { JJ_PLAIN, JJ_TUPLE, JJ_GROUP, JJ_RANGE, JJ_KEYS, JJ_VALUES, JJ_ITEMS, JJ_ONCE } jj_style;

struct jj_list {
    jj_value *item;
    size_t len;
    uint8_t style;             /* jj_style: JJ_GROUP is a tuple with names; JJ_ONCE a generator */
    size_t next;               /* JJ_ONCE: what was taken from the front */
    int64_t start, stop, step; /* JJ_RANGE */
};

struct jj_dict {
    jj_value *key, *value;
    size_t len, cap;
};

/* A function of ours, by itself or bound to the value that it is a method of. */
struct jj_bound {
    const jj_native *native;
    jj_value self;
};

/* Arguments as they stand in a call. */
typedef struct jj_keyword {
    const jj_str *name;
    jj_value value;
} jj_keyword;
struct jj_call {
    const jj_value *arg;
    size_t args;
    const jj_keyword *keyword;
    size_t keywords;
};

/* A filter, test, method or function. params: names in order, parted by spaces; the first `required` must be there;
 * "*" alone: the call as it stands. a[i] is the i-th parameter, JJ_MISSING where it was not given. */
typedef bool jj_function(jj_run *r, jj_value *ret, const jj_value *self, const jj_value *a, const jj_call *call);
struct jj_native {
    const char *name, *params;
    uint8_t required;
    jj_function *run;
};
enum { JJ_MAX_PARAMS = 6 };
/* Finds the places of a call's arguments, and runs it. A function that runs another one (map, select) is in
 * bt_jj_enter meanwhile. */
bool bt_jj_value_run(jj_run *r, jj_value *ret, const jj_native *n, const jj_value *self, const jj_call *call);

/* ---- making ---- */

static inline jj_value jj_none(void) { return (jj_value){.kind = JJ_NONE, .is_template = true}; }
static inline jj_value jj_bool(bool b) { return (jj_value){.kind = JJ_BOOL, .is_template = true, .b = b}; }
static inline jj_value jj_int(int64_t i) { return (jj_value){.kind = JJ_INT, .is_template = true, .i = i}; }
static inline jj_value jj_float(double f) { return (jj_value){.kind = JJ_FLOAT, .is_template = true, .f = f}; }
static inline jj_value jj_text(const jj_str *s) { return (jj_value){.kind = JJ_STR, .is_template = true, .s = s}; }
/* false where s is NULL: a text that failed */
static inline bool jj_give(jj_value *ret, const jj_str *s)
{
    *ret = jj_text(s);
    return s != NULL;
}
bool bt_jj_value_undefined(jj_run *r, jj_value *ret, const char *words);
bool bt_jj_value_no_member(jj_run *r, jj_value *ret, const jj_value *object, const jj_value *name);
bool bt_jj_value_cstr(jj_run *r, jj_value *ret, const char *text); /* the template's; text lives as long */

/* A list with room for `cap` items, of which it has none yet. */
bool bt_jj_list_new(jj_run *r, jj_value *ret, jj_style style, size_t cap);
/* Appends while a list is being made; *cap as of bt_jj_list_new. */
bool bt_jj_list_add(jj_run *r, jj_list *l, size_t *cap, const jj_value *item);
bool bt_jj_dict_new(jj_run *r, jj_value *ret, jj_kind kind, size_t cap);
bool bt_jj_dict_set(jj_run *r, jj_dict *d, const jj_value *key, const jj_value *value);
/* *ret is NULL where the key is not there. */
bool bt_jj_dict_find(jj_run *r, const jj_value **ret, const jj_dict *d, const jj_str *key);
/* Any key; false where one cannot be hashed. */
bool bt_jj_dict_get(jj_run *r, const jj_value **ret, const jj_dict *d, const jj_value *key);

/* JSON as a value. roles: this is the list of messages (bt_jinja_is_role). */
bool bt_jj_value_json(jj_run *r, jj_value *ret, const json_t *json, bool is_template, bool has_roles);

/* ---- asking ---- */

static inline bool jj_is_number(const jj_value *v)
{
    return v->kind == JJ_BOOL || v->kind == JJ_INT || v->kind == JJ_FLOAT;
}
static inline bool jj_is_whole(const jj_value *v) { return v->kind == JJ_BOOL || v->kind == JJ_INT; }
static inline int64_t jj_whole(const jj_value *v) { return v->kind == JJ_BOOL ? v->b : v->i; }
static inline double jj_real(const jj_value *v) { return v->kind == JJ_FLOAT ? v->f : (double)jj_whole(v); }

const char *bt_jj_value_type(const jj_value *v); /* as Python names it: "str", "NoneType" */
bool bt_jj_value_truth(const jj_value *v);
/* == of Python; false where it goes too deep. */
bool bt_jj_value_equal(jj_run *r, bool *ret, const jj_value *a, const jj_value *b);
/* < 0, 0, > 0; a failure where Python has no order. op: "<" and so on, for the words. */
bool bt_jj_value_order(jj_run *r, int *ret, const jj_value *a, const jj_value *b, const char *op);
bool bt_jj_value_same(const jj_value *a, const jj_value *b); /* `is` of Python, near enough */
/* len(); -1 where it has none. A text's characters are counted: the steps are the caller's. */
int64_t bt_jj_value_len(const jj_value *v);
/* The failure of an undefined value where it is used; always false. */
bool bt_jj_value_fail_undefined(jj_run *r, const jj_value *v);

/* Walking whatever can be walked. begin: fails with Python's words where it cannot. next: false at the end or where
 * the run failed. */
typedef struct jj_walk {
    jj_run *run;
    const jj_value *of;
    jj_value holder;
    size_t at;
} jj_walk;
bool bt_jj_walk_begin(jj_run *r, jj_walk *w, const jj_value *v);
bool bt_jj_walk_next(jj_walk *w, jj_value *ret);
bool bt_jj_value_is_iterable(const jj_value *v);
/* list(v): always a new list, of this style. */
bool bt_jj_value_list(jj_run *r, jj_value *ret, const jj_value *v, jj_style style);
#endif
