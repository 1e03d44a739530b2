/* Expressions, by the grammar of jinja2's parser: what binds tighter stands lower in `levels`. Operators of
 * one level are one node, so that a long sum is not deep. */
#include "text/jinja/jj_parse.h"

#include "text/jinja/jinja.h"
#include "text/jinja/jj_natives.h"

#include <stdio.h>
#include <string.h>

/* ---- tokens ---- */

bool bt_jj_parse_next(jj_parse *p)
{
    p->now = p->ahead;
    p->run->at = p->now.at;
    return bt_jj_lex_next(&p->lex, &p->ahead);
}

bool bt_jj_parse_is_op(const jj_token *t, const char *op)
{
    return t->kind == JJ_T_OP && strcmp(t->op, op) == 0;
}

bool bt_jj_parse_is_name(const jj_token *t, const char *name)
{
    return t->kind == JJ_T_NAME && strlen(name) == t->len && memcmp(t->ptr, name, t->len) == 0;
}

bool bt_jj_parse_fail(jj_parse *p, const jj_token *at, const char *words)
{
    p->run->at = at->at;
    const char *found = "";
    char shown[48];
    switch ((jj_token_kind)at->kind) {
    case JJ_T_END: found = "the end of the template"; break;
    case JJ_T_DATA: found = "text"; break;
    case JJ_T_PRINT_OPEN: found = "'{{'"; break;
    case JJ_T_PRINT_SHUT: found = "'}}'"; break;
    case JJ_T_TAG_OPEN: found = "'{%'"; break;
    case JJ_T_TAG_SHUT: found = "'%}'"; break;
    case JJ_T_STRING: found = "a string"; break;
    case JJ_T_NAME:
    case JJ_T_INT:
    case JJ_T_FLOAT:
        snprintf(shown, sizeof shown, "'%.*s'", at->len < 40 ? (int)at->len : 40, at->ptr);
        found = shown;
        break;
    case JJ_T_OP:
        snprintf(shown, sizeof shown, "'%s'", at->op);
        found = shown;
        break;
    }
    return bt_jj_fail(p->run, BT_EFORMAT, "%s, not %s", words, found);
}

bool bt_jj_parse_skip_op(jj_parse *p, const char *op)
{
    return bt_jj_parse_is_op(&p->now, op) && bt_jj_parse_next(p);
}

bool bt_jj_parse_skip_name(jj_parse *p, const char *name)
{
    return bt_jj_parse_is_name(&p->now, name) && bt_jj_parse_next(p);
}

bool bt_jj_parse_want_op(jj_parse *p, const char *op)
{
    if (bt_jj_parse_skip_op(p, op)) return true;
    char words[32];
    snprintf(words, sizeof words, "'%s' is expected", op);
    return bt_jj_parse_fail(p, &p->now, words);
}

bool bt_jj_parse_deeper(jj_parse *p)
{
    if (++p->depth <= BT_JINJA_MAX_DEPTH) return true;
    return bt_jj_fail(p->run, BT_ELIMIT, "blocks and brackets are nested deeper than %d", BT_JINJA_MAX_DEPTH);
}

/* ---- nodes ---- */

jj_node *bt_jj_parse_node(jj_parse *p, jj_node_kind kind, jj_place at)
{
    jj_node *n = bt_jj_take(p->run, sizeof *n);
    if (!n) return NULL;
    n->kind = (uint8_t)kind;
    n->at = at;
    return n;
}

bool bt_jj_parse_add(jj_parse *p, jj_nodes *list, size_t *cap, jj_node *node)
{
    if (!node) return false;
    if (list->len == *cap) {
        const size_t more = *cap ? 2 * *cap : 4;
        jj_node **q = bt_jj_grow(p->run, list->node, list->len * sizeof *q, more * sizeof *q);
        if (!q) return false;
        list->node = q;
        *cap = more;
    }
    list->node[list->len++] = node;
    return true;
}

static jj_node *whole(const jj_parse *p, jj_node *n) { return p->run->err == BT_OK ? n : NULL; }

/* A node over up to three others, NULL where one of the first `required` failed. */
static jj_node *over(jj_parse *p, jj_node_kind kind, jj_place at, size_t kids, jj_node *a, jj_node *b,
                     jj_node *c)
{
    jj_node *n = p->run->err == BT_OK ? bt_jj_parse_node(p, kind, at) : NULL;
    jj_node **kid = n ? bt_jj_take(p->run, 3 * sizeof *kid) : NULL;
    if (!kid) return NULL;
    kid[0] = a;
    kid[1] = b;
    kid[2] = c;
    n->kid = (jj_nodes){kid, kids};
    return whole(p, n);
}

bool bt_jj_parse_name(jj_parse *p, uint32_t *ret, const char *name, size_t len)
{
    bt_jinja *j = p->j;
    for (size_t i = 0; i < j->names; i++)
        if (jj_str_is(j->name[i], name, len)) {
            *ret = (uint32_t)i;
            return true;
        }
    if (j->names == p->names_cap) {
        const size_t cap = p->names_cap ? 2 * p->names_cap : 32;
        const jj_str **q = bt_jj_grow(p->run, j->name, j->names * sizeof *q, cap * sizeof *q);
        if (!q) return false;
        bool *is_set = bt_jj_grow(p->run, p->is_set, j->names * sizeof *is_set, cap * sizeof *is_set);
        if (!is_set) return false;
        j->name = q;
        p->is_set = is_set;
        p->names_cap = cap;
    }
    if (!(j->name[j->names] = bt_jj_str_new(p->run, name, len, true))) return false;
    *ret = (uint32_t)j->names++;
    return true;
}

/* Remembers x.name, for bt_jinja_mentions. */
static bool mention(jj_parse *p, const jj_str *name)
{
    bt_jinja *j = p->j;
    for (size_t i = 0; i < j->members; i++)
        if (bt_jj_str_same(j->member[i], name)) return true;
    if (j->members == p->members_cap) {
        const size_t cap = p->members_cap ? 2 * p->members_cap : 32;
        const jj_str **q = bt_jj_grow(p->run, j->member, j->members * sizeof *q, cap * sizeof *q);
        if (!q) return false;
        j->member = q;
        p->members_cap = cap;
    }
    j->member[j->members++] = name;
    return true;
}

static jj_node *constant(jj_parse *p, jj_place at, jj_value v)
{
    jj_node *n = p->run->err == BT_OK ? bt_jj_parse_node(p, JJ_CONST, at) : NULL;
    if (n) n->value = v;
    return n;
}

/* ---- what binds tightest ---- */

static jj_node *name_or_word(jj_parse *p)
{
    static const struct {
        const char *word;
        jj_value value;
    } words[] = {{"true", {.kind = JJ_BOOL, .is_template = true, .b = true}},
                 {"True", {.kind = JJ_BOOL, .is_template = true, .b = true}},
                 {"false", {.kind = JJ_BOOL, .is_template = true}},
                 {"False", {.kind = JJ_BOOL, .is_template = true}},
                 {"none", {.kind = JJ_NONE, .is_template = true}},
                 {"None", {.kind = JJ_NONE, .is_template = true}}};
    const jj_token t = p->now;
    if (!bt_jj_parse_next(p)) return NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (bt_jj_parse_is_name(&t, words[i].word)) return constant(p, t.at, words[i].value);
    jj_node *n = bt_jj_parse_node(p, JJ_NAME, t.at);
    if (!n || !bt_jj_parse_name(p, &n->name, t.ptr, t.len)) return NULL;
    p->callers += n->name == p->j->caller;
    p->varargs += n->name == p->j->varargs;
    p->kwargs += n->name == p->j->kwargs;
    return n;
}

static jj_node *string(jj_parse *p)
{
    const jj_place at = p->now.at;
    jj_buf b = jj_buf_of(p->run);
    const jj_token first = p->now;
    if (!bt_jj_parse_next(p)) return NULL;
    if (p->now.kind != JJ_T_STRING)
        return constant(p, at, jj_text(bt_jj_str_new(p->run, first.ptr, first.len, true)));
    if (!bt_jj_buf_bytes(&b, first.ptr, first.len, true)) return NULL;
    while (p->now.kind == JJ_T_STRING)
        if (!bt_jj_buf_bytes(&b, p->now.ptr, p->now.len, true) || !bt_jj_parse_next(p)) return NULL;
    return constant(p, at, jj_text(bt_jj_buf_str(&b, true)));
}

/* [a, b] and {a: b}; the opening is next. */
static jj_node *display(jj_parse *p, bool is_dict)
{
    const char *end = is_dict ? "}" : "]";
    jj_node *n = bt_jj_parse_node(p, is_dict ? JJ_MAKE_DICT : JJ_MAKE_LIST, p->now.at);
    size_t cap = 0;
    if (!n || !bt_jj_parse_next(p)) return NULL;
    while (!bt_jj_parse_is_op(&p->now, end)) {
        if (n->kid.len > 0 && !bt_jj_parse_want_op(p, ",")) return NULL;
        if (bt_jj_parse_is_op(&p->now, end)) break;
        if (!bt_jj_parse_add(p, &n->kid, &cap, bt_jj_parse_expr(p, true))) return NULL;
        if (is_dict &&
            (!bt_jj_parse_want_op(p, ":") || !bt_jj_parse_add(p, &n->kid, &cap, bt_jj_parse_expr(p, true))))
            return NULL;
    }
    return bt_jj_parse_next(p) ? whole(p, n) : NULL;
}

static jj_node *primary(jj_parse *p)
{
    const jj_token t = p->now;
    if (t.kind == JJ_T_NAME) return name_or_word(p);
    if (t.kind == JJ_T_STRING) return string(p);
    if (t.kind == JJ_T_INT || t.kind == JJ_T_FLOAT)
        return bt_jj_parse_next(p)
                   ? constant(p, t.at, t.kind == JJ_T_INT ? jj_int(t.whole) : jj_float(t.real))
                   : NULL;
    if (!bt_jj_parse_is_op(&t, "(") && !bt_jj_parse_is_op(&t, "[") && !bt_jj_parse_is_op(&t, "{")) {
        bt_jj_parse_fail(p, &t, "an expression is expected");
        return NULL;
    }
    if (!bt_jj_parse_deeper(p)) return NULL;
    jj_node *n = NULL;
    if (t.op[0] != '(') n = display(p, t.op[0] == '{');
    else if (bt_jj_parse_next(p) && (n = bt_jj_parse_tuple(p, true, true)) && !bt_jj_parse_want_op(p, ")"))
        n = NULL;
    p->depth--;
    return n;
}

/* (a, k=b, *c, **d); the opening is next. */
static jj_args *call_args(jj_parse *p)
{
    jj_args *a = bt_jj_take(p->run, sizeof *a);
    size_t cap = 0, keyword_cap = 0;
    if (!a || !bt_jj_parse_next(p)) return NULL;
    for (bool is_first = true; !bt_jj_parse_is_op(&p->now, ")"); is_first = false) {
        if (!is_first && !bt_jj_parse_want_op(p, ",")) return NULL;
        if (bt_jj_parse_is_op(&p->now, ")")) break;
        const jj_token t = p->now;
        bool is_right = !a->more_named;
        if (bt_jj_parse_is_op(&t, "*")) {
            is_right = is_right && !a->more;
            if (!bt_jj_parse_next(p) || !(a->more = bt_jj_parse_expr(p, true))) return NULL;
        } else if (bt_jj_parse_is_op(&t, "**")) {
            if (!bt_jj_parse_next(p) || !(a->more_named = bt_jj_parse_expr(p, true))) return NULL;
        } else if (t.kind == JJ_T_NAME && bt_jj_parse_is_op(&p->ahead, "=")) {
            if (a->keywords == keyword_cap) {
                const size_t more = keyword_cap ? 2 * keyword_cap : 4;
                jj_named *q = bt_jj_grow(p->run, a->keyword, a->keywords * sizeof *q, more * sizeof *q);
                if (!q) return NULL;
                a->keyword = q;
                keyword_cap = more;
            }
            jj_named *k = &a->keyword[a->keywords++];
            k->name = bt_jj_str_new(p->run, t.ptr, t.len, true);
            if (!k->name || !bt_jj_parse_next(p) || !bt_jj_parse_next(p) ||
                !(k->node = bt_jj_parse_expr(p, true)))
                return NULL;
        } else {
            is_right = is_right && !a->more && a->keywords == 0;
            if (!bt_jj_parse_add(p, &a->arg, &cap, bt_jj_parse_expr(p, true))) return NULL;
        }
        if (!is_right) {
            bt_jj_parse_fail(p, &t, "invalid syntax for function call expression");
            return NULL;
        }
    }
    return bt_jj_parse_next(p) ? a : NULL;
}

static jj_node *call(jj_parse *p, jj_node *of)
{
    const jj_place at = p->now.at;
    if (!bt_jj_parse_deeper(p)) return NULL;
    jj_args *args = call_args(p);
    p->depth--;
    jj_node *n = args ? over(p, JJ_CALL, at, 1, of, NULL, NULL) : NULL;
    if (n) n->args = args;
    if (n && of->kind == JJ_NAME && !p->uncallable && p->ifs + p->loops + p->macros == 0 &&
        !bt_jj_global_find(p->j->name[of->name]->ptr, p->j->name[of->name]->len))
        p->uncallable = n;
    return whole(p, n);
}

/* The inside of [ ]: an expression or a slice. */
static jj_node *subscribed(jj_parse *p)
{
    const jj_place at = p->now.at;
    jj_node *part[3] = {NULL, NULL, NULL};
    int colons = 0;
    while (!bt_jj_parse_is_op(&p->now, "]") && !bt_jj_parse_is_op(&p->now, ",")) {
        if (bt_jj_parse_is_op(&p->now, ":")) {
            if (++colons > 2) {
                bt_jj_parse_fail(p, &p->now, "']' is expected");
                return NULL;
            }
            if (!bt_jj_parse_next(p)) return NULL;
            continue;
        }
        if (part[colons]) {
            bt_jj_parse_fail(p, &p->now, "']' is expected");
            return NULL;
        }
        if (!(part[colons] = bt_jj_parse_expr(p, true))) return NULL;
    }
    if (colons == 0) {
        if (!part[0]) bt_jj_parse_fail(p, &p->now, "an expression is expected");
        return part[0];
    }
    return over(p, JJ_SLICE, at, 3, part[0], part[1], part[2]);
}

static jj_node *element(jj_parse *p, jj_node *of)
{
    const jj_place at = p->now.at;
    if (!bt_jj_parse_deeper(p) || !bt_jj_parse_next(p)) return NULL;
    jj_node *arg = subscribed(p);
    if (arg && bt_jj_parse_is_op(&p->now, ",")) {
        jj_node *tuple = bt_jj_parse_node(p, JJ_MAKE_TUPLE, at);
        size_t cap = 0;
        if (!tuple || !bt_jj_parse_add(p, &tuple->kid, &cap, arg)) return NULL;
        while (bt_jj_parse_skip_op(p, ","))
            if (!bt_jj_parse_add(p, &tuple->kid, &cap, subscribed(p))) return NULL;
        arg = whole(p, tuple);
    }
    p->depth--;
    if (!arg || !bt_jj_parse_want_op(p, "]")) return NULL;
    if (arg->kind == JJ_CONST && arg->value.kind == JJ_STR && !mention(p, arg->value.s)) return NULL;
    return over(p, JJ_ELEMENT, at, 2, of, arg, NULL);
}

static jj_node *member(jj_parse *p, jj_node *of)
{
    const jj_place at = p->now.at;
    if (!bt_jj_parse_next(p)) return NULL;
    const jj_token t = p->now;
    if (t.kind == JJ_T_INT) {
        if (!bt_jj_parse_next(p)) return NULL;
        return over(p, JJ_ELEMENT, at, 2, of, constant(p, t.at, jj_int(t.whole)), NULL);
    }
    if (t.kind != JJ_T_NAME) {
        bt_jj_parse_fail(p, &t, "a name or a number is expected");
        return NULL;
    }
    const jj_str *name = bt_jj_str_new(p->run, t.ptr, t.len, true);
    if (!name || !mention(p, name) || !bt_jj_parse_next(p)) return NULL;
    jj_node *n = over(p, JJ_MEMBER, at, 1, of, NULL, NULL);
    if (n) n->value = jj_text(name);
    return n;
}

static jj_node *postfix(jj_parse *p, jj_node *n)
{
    while (n) {
        if (bt_jj_parse_is_op(&p->now, ".")) n = member(p, n);
        else if (bt_jj_parse_is_op(&p->now, "[")) n = element(p, n);
        else if (bt_jj_parse_is_op(&p->now, "(")) n = call(p, n);
        else break;
    }
    return n;
}

/* A filter or test that there is not is kept: it is an error at the end, or where it stands in an `if`
 * (choice() and the tag), when it is reached. */
static jj_node *look_up(jj_parse *p, jj_node *n, const jj_token *t)
{
    if (!n) return NULL;
    const bool is_filter = n->kind == JJ_FILTER;
    n->native = is_filter ? bt_jj_filter_find(t->ptr, t->len) : bt_jj_test_find(t->ptr, t->len);
    n->value = jj_text(bt_jj_str_new(p->run, t->ptr, t->len, true));
    if (!n->native && p->ifs == 0 && !p->unknown) p->unknown = n;
    return n->value.s ? n : NULL;
}

jj_node *bt_jj_parse_filters(jj_parse *p, jj_node *of, bool is_first_bare)
{
    jj_node *n = of;
    while (is_first_bare || bt_jj_parse_is_op(&p->now, "|")) {
        if (!is_first_bare && !bt_jj_parse_next(p)) return NULL;
        is_first_bare = false;
        const jj_token t = p->now;
        if (t.kind != JJ_T_NAME) {
            bt_jj_parse_fail(p, &t, "the name of a filter is expected");
            return NULL;
        }
        if (!bt_jj_parse_next(p)) return NULL;
        n = look_up(p, over(p, JJ_FILTER, t.at, 1, n, NULL, NULL), &t);
        if (n && bt_jj_parse_is_op(&p->now, "(")) {
            if (!bt_jj_parse_deeper(p) || !(n->args = call_args(p))) return NULL;
            p->depth--;
        }
        if (!(n = whole(p, n))) return NULL;
    }
    return n;
}

static bool begins_argument(const jj_token *t)
{
    if (t->kind == JJ_T_NAME)
        return !bt_jj_parse_is_name(t, "else") && !bt_jj_parse_is_name(t, "or") &&
               !bt_jj_parse_is_name(t, "and");
    return t->kind == JJ_T_STRING || t->kind == JJ_T_INT || t->kind == JJ_T_FLOAT ||
           bt_jj_parse_is_op(t, "[") || bt_jj_parse_is_op(t, "{");
}

/* `is` is next. */
static jj_node *test(jj_parse *p, jj_node *of)
{
    if (!bt_jj_parse_next(p)) return NULL;
    const bool is_not = bt_jj_parse_skip_name(p, "not");
    const jj_token t = p->now;
    if (t.kind != JJ_T_NAME) {
        bt_jj_parse_fail(p, &t, "the name of a test is expected");
        return NULL;
    }
    if (!bt_jj_parse_next(p)) return NULL;
    jj_node *n = look_up(p, over(p, JJ_TEST, t.at, 1, of, NULL, NULL), &t);
    if (!n) return NULL;
    n->flag = is_not;
    if (bt_jj_parse_is_op(&p->now, "(")) {
        if (!bt_jj_parse_deeper(p) || !(n->args = call_args(p))) return NULL;
        p->depth--;
    } else if (begins_argument(&p->now)) {
        size_t cap = 0;
        if (bt_jj_parse_is_name(&p->now, "is")) {
            bt_jj_parse_fail(p, &p->now, "You cannot chain multiple tests with is");
            return NULL;
        }
        n->args = bt_jj_take(p->run, sizeof *n->args);
        if (!n->args || !bt_jj_parse_add(p, &n->args->arg, &cap, postfix(p, primary(p)))) return NULL;
    }
    return whole(p, n);
}

static jj_node *unary(jj_parse *p, bool with_filter)
{
    const jj_token t = p->now;
    jj_node *n = NULL;
    if (bt_jj_parse_is_op(&t, "-") || bt_jj_parse_is_op(&t, "+")) {
        jj_node *of = bt_jj_parse_deeper(p) && bt_jj_parse_next(p) ? unary(p, false) : NULL;
        p->depth--;
        n = of ? over(p, JJ_SIGN, t.at, 1, of, NULL, NULL) : NULL;
        if (n) n->flag = t.op[0] == '-';
    } else n = primary(p);
    n = postfix(p, n);
    while (n && with_filter) {
        if (bt_jj_parse_is_op(&p->now, "|")) n = bt_jj_parse_filters(p, n, false);
        else if (bt_jj_parse_is_name(&p->now, "is")) n = test(p, n);
        else if (bt_jj_parse_is_op(&p->now, "(")) n = call(p, n);
        else break;
    }
    return n;
}

/* ---- chains of operators ---- */

typedef enum level { OR, AND, NOT, COMPARE, SUM, CONCAT, PRODUCT, POWER, UNARY } level;

typedef struct operator
{
    uint8_t level, op; /* jj_op */
    char text[4];
}
operator;

static const operator operators[] = {
    {OR, JJ_OP_NONE, "or"}, {AND, JJ_OP_NONE, "and"}, {COMPARE, JJ_EQ, "=="},    {COMPARE, JJ_NE, "!="},
    {COMPARE, JJ_LT, "<"},  {COMPARE, JJ_LE, "<="},   {COMPARE, JJ_GT, ">"},     {COMPARE, JJ_GE, ">="},
    {COMPARE, JJ_IN, "in"}, {SUM, JJ_ADD, "+"},       {SUM, JJ_SUB, "-"},        {CONCAT, JJ_OP_NONE, "~"},
    {PRODUCT, JJ_MUL, "*"}, {PRODUCT, JJ_DIV, "/"},   {PRODUCT, JJ_FLOOR, "//"}, {PRODUCT, JJ_MOD, "%"},
    {POWER, JJ_POW, "**"},
};
static const jj_node_kind level_nodes[] = {JJ_OR,   JJ_AND,    JJ_NOT,  JJ_COMPARE,
                                           JJ_MATH, JJ_CONCAT, JJ_MATH, JJ_MATH};

/* The operator of this level that is next, taken; `*ret` false: none, or a failure. */
static bool take_operator(jj_parse *p, level l, bool *ret, jj_op *op)
{
    *ret = false;
    if (l == COMPARE && bt_jj_parse_is_name(&p->now, "not") && bt_jj_parse_is_name(&p->ahead, "in")) {
        *ret = true;
        *op = JJ_NOT_IN;
        return bt_jj_parse_next(p) && bt_jj_parse_next(p);
    }
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        const operator* o = & operators[i];
        if (o->level != l || !(bt_jj_parse_is_op(&p->now, o->text) || bt_jj_parse_is_name(&p->now, o->text)))
            continue;
        *ret = true;
        *op = (jj_op)o->op;
        return bt_jj_parse_next(p);
    }
    return true;
}

static jj_node *chain(jj_parse *p, level l);

static jj_node *negation(jj_parse *p)
{
    const jj_place at = p->now.at;
    if (!bt_jj_parse_is_name(&p->now, "not")) return chain(p, COMPARE);
    if (!bt_jj_parse_deeper(p) || !bt_jj_parse_next(p)) return NULL;
    jj_node *of = negation(p);
    p->depth--;
    return of ? over(p, JJ_NOT, at, 1, of, NULL, NULL) : NULL;
}

static jj_node *chain(jj_parse *p, level l)
{
    if (l == UNARY) return unary(p, true);
    if (l == NOT) return negation(p);
    const jj_place at = p->now.at;
    const jj_node *uncallable = p->uncallable;
    jj_node *first = chain(p, l + 1), *n = NULL;
    size_t cap = 0, ops_cap = 0;
    for (;;) {
        bool is_there;
        jj_op op;
        if (!first || !take_operator(p, l, &is_there, &op)) return NULL;
        if (!is_there) break;
        if (!n &&
            (!(n = bt_jj_parse_node(p, level_nodes[l], at)) || !bt_jj_parse_add(p, &n->kid, &cap, first)))
            return NULL;
        if (n->kid.len >= ops_cap) {
            const size_t more = ops_cap ? 2 * ops_cap : 4;
            if (!(n->op = bt_jj_grow(p->run, n->op, ops_cap, more))) return NULL;
            ops_cap = more;
        }
        n->op[n->kid.len] = (uint8_t)op;
        if (!bt_jj_parse_add(p, &n->kid, &cap, chain(p, l + 1))) return NULL;
    }
    if (n && (l == OR || l == AND)) p->uncallable = uncallable; /* what follows may not be reached */
    return n ? whole(p, n) : first;
}

/* a if b else c */
static jj_node *choice(jj_parse *p)
{
    const jj_place at = p->now.at;
    const jj_node *unknown = p->unknown, *uncallable = p->uncallable;
    jj_node *n = chain(p, OR);
    while (n && bt_jj_parse_is_name(&p->now, "if")) {
        if (!bt_jj_parse_deeper(p) || !bt_jj_parse_next(p)) return NULL;
        jj_node *cond = chain(p, OR), *other = NULL;
        if (cond && bt_jj_parse_skip_name(p, "else") && !(other = choice(p))) return NULL;
        p->depth--;
        n = cond ? over(p, JJ_COND, at, 3, n, cond, other) : NULL;
        p->unknown = unknown;
        p->uncallable = uncallable;
    }
    return n;
}

jj_node *bt_jj_parse_expr(jj_parse *p, bool with_if) { return with_if ? choice(p) : chain(p, OR); }

static bool is_tuple_end(const jj_token *t)
{
    return t->kind == JJ_T_PRINT_SHUT || t->kind == JJ_T_TAG_SHUT || bt_jj_parse_is_op(t, ")");
}

jj_node *bt_jj_parse_tuple(jj_parse *p, bool with_if, bool may_be_empty)
{
    const jj_token first = p->now;
    jj_node *n = NULL, *tuple = NULL;
    size_t cap = 0;
    if (!is_tuple_end(&p->now) && !(n = bt_jj_parse_expr(p, with_if))) return NULL;
    if (!n && !may_be_empty) {
        bt_jj_parse_fail(p, &first, "an expression is expected");
        return NULL;
    }
    if (n && !bt_jj_parse_is_op(&p->now, ",")) return n;
    if (!(tuple = bt_jj_parse_node(p, JJ_MAKE_TUPLE, first.at))) return NULL;
    if (n && !bt_jj_parse_add(p, &tuple->kid, &cap, n)) return NULL;
    while (n && bt_jj_parse_skip_op(p, ",") && !is_tuple_end(&p->now))
        if (!bt_jj_parse_add(p, &tuple->kid, &cap, bt_jj_parse_expr(p, with_if))) return NULL;
    return whole(p, tuple);
}
