#ifndef BT_JINJA_JJ_AST_H
#define BT_JINJA_JJ_AST_H
#include "text/jinja/jinja.h"
#include "text/jinja/jj_value.h"

/* A template as a tree. It lies in the memory of its bt_jinja and is never changed after parsing. */
typedef enum jj_node_kind {
    /* expressions; kid[] in order of evaluation */
    JJ_CONST, /* value */
    JJ_NAME,  /* name */
    JJ_MAKE_TUPLE,
    JJ_MAKE_LIST,
    JJ_MAKE_DICT, /* key, value, key, value ... */
    JJ_MEMBER,    /* kid[0] . value (a text) */
    JJ_ELEMENT,   /* kid[0] [ kid[1] ] */
    JJ_SLICE,     /* kid[0..2], NULL where left out; only inside JJ_ELEMENT */
    JJ_CALL,      /* kid[0], then args */
    JJ_FILTER,    /* kid[0] (NULL: the body of a block), then args; native or, unknown, value: its name */
    JJ_TEST,      /* likewise */
    JJ_SIGN,      /* op '-' or '+' */
    JJ_NOT,
    JJ_MATH, /* kid[0] op[1] kid[1] op[2] kid[2] ..., from the left */
    JJ_CONCAT,
    JJ_COMPARE, /* kid[0] op[1] kid[1] op[2] kid[2]: a chain as in Python */
    JJ_AND,
    JJ_OR,
    JJ_COND, /* kid[0] if kid[1] else kid[2] (NULL: undefined) */
    /* statements; body[] is what they hold */
    JJ_DATA,         /* value */
    JJ_PRINT,        /* kid[0] */
    JJ_FOR,          /* target, kid[0] walked, kid[1] if (or NULL); body, other */
    JJ_IF,           /* kid[0]; body, other */
    JJ_SET,          /* target, kid[0] */
    JJ_SET_BLOCK,    /* target, kid[0] filters (or NULL); body */
    JJ_WITH,         /* kid[i] for target->kid[i]; body */
    JJ_MACRO_DEF,    /* name, params; body */
    JJ_CALL_BLOCK,   /* kid[0] a JJ_CALL, params of its caller; body */
    JJ_FILTER_BLOCK, /* kid[0] filters; body */
    JJ_SCOPE,        /* body: {% generation %} */
    JJ_BREAK,
    JJ_CONTINUE,
} jj_node_kind;

typedef enum jj_op {
    JJ_OP_NONE,
    JJ_ADD,
    JJ_SUB,
    JJ_MUL,
    JJ_DIV,
    JJ_FLOOR,
    JJ_MOD,
    JJ_POW,
    JJ_EQ,
    JJ_NE,
    JJ_LT,
    JJ_LE,
    JJ_GT,
    JJ_GE,
    JJ_IN,
    JJ_NOT_IN,
} jj_op;

typedef struct jj_node jj_node;
typedef struct jj_nodes {
    jj_node **node;
    size_t len;
} jj_nodes;

typedef struct jj_named {
    const jj_str *name;
    jj_node *node;
} jj_named;

/* The arguments behind a function's name, in brackets. */
typedef struct jj_args {
    jj_nodes arg;
    jj_named *keyword;
    size_t keywords;
    jj_node *more, *more_named; /* *more, **more_named; NULL: none */
} jj_args;

/* Parameters of a macro: those from `required` on have a value of their own. */
typedef struct jj_params {
    uint32_t *name;
    const jj_str **text;
    jj_node **other; /* NULL: required */
    size_t len;
    bool has_caller, has_varargs, has_kwargs; /* the body names them */
} jj_params;

struct jj_node {
    uint8_t kind; /* jj_node_kind */
    bool flag;    /* JJ_FOR: recursive; JJ_TEST: `is not`; JJ_NAME in a target: a member of a namespace */
    jj_place at;
    uint32_t name; /* its index in the template's names */
    jj_nodes kid;
    uint8_t *op; /* jj_op, beside kid */
    jj_value value;
    const jj_native *native;
    jj_args *args;
    jj_params *params;
    jj_node *target; /* JJ_NAME, JJ_MAKE_TUPLE of such, or JJ_MEMBER of a JJ_NAME */
    jj_nodes body, other;
};

struct bt_jinja {
    jj_mem mem;
    jj_nodes body;
    const jj_str **name; /* of variables, each once */
    size_t names;
    uint32_t loop, caller, varargs, kwargs; /* of these, the indices */
    const jj_str **member;                  /* x.name and x['name'] */
    size_t members;
};
#endif
