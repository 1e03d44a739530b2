#ifndef BT_JINJA_JJ_PARSE_H
#define BT_JINJA_JJ_PARSE_H
#include "text/jinja/jj_ast.h"
#include "text/jinja/jj_lex.h"

/* The state of a parser. jj_parse_expr.c reads expressions, jj_parse.c what stands around them. */
typedef struct jj_parse {
    jj_run *run; /* its memory becomes the template's */
    jj_lex lex;
    jj_token now, ahead;
    bt_jinja *j;
    size_t names_cap, members_cap;
    bool *is_set;                      /* [names_cap]: something assigns to the name */
    int depth;                         /* of brackets and blocks */
    int loops;                         /* that are open, in this macro */
    int ifs;                           /* that are open */
    const jj_node *unknown;            /* the first filter or test that there is not, outside of an if */
    int macros;                        /* that are open */
    const jj_node *uncallable;         /* the first call, certain to be reached, of what may be no function */
    unsigned callers, varargs, kwargs; /* how often these were named */
} jj_parse;

/* NULL and false: the run failed. */
bool bt_jj_parse_next(jj_parse *p);
bool bt_jj_parse_fail(jj_parse *p, const jj_token *at, const char *words); /* always false; adds what was found */
bool bt_jj_parse_is_op(const jj_token *t, const char *op);
bool bt_jj_parse_is_name(const jj_token *t, const char *name);
bool bt_jj_parse_skip_op(jj_parse *p, const char *op); /* takes it if it is next; a failure shows in run->err */
bool bt_jj_parse_skip_name(jj_parse *p, const char *name);
bool bt_jj_parse_want_op(jj_parse *p, const char *op);
bool bt_jj_parse_deeper(jj_parse *p); /* p->depth++, within the limit */

jj_node *bt_jj_parse_node(jj_parse *p, jj_node_kind kind, jj_place at);
bool bt_jj_parse_add(jj_parse *p, jj_nodes *list, size_t *cap, jj_node *node);
bool bt_jj_parse_name(jj_parse *p, uint32_t *ret, const char *name, size_t len);

jj_node *bt_jj_parse_expr(jj_parse *p, bool with_if);
/* An expression, or several parted by commas as a tuple. */
jj_node *bt_jj_parse_tuple(jj_parse *p, bool with_if, bool may_be_empty);
/* `| name(...)` once or more, around `of` (NULL: a block's body). */
jj_node *bt_jj_parse_filters(jj_parse *p, jj_node *of, bool is_first_bare);

bt_jinja *bt_jj_parse_template(jj_run *r, const char *source, size_t len);
#endif
