/* Templates: text, {{ }} and tags. */
#include "text/jinja/jj_parse.h"

#include "text/jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Statements up to one of the tags in `ends` ("endif elif else"), which is then the current token; NULL: up
 * to the end of the template. */
static bool statements(jj_parse *p, jj_nodes *ret, const char *ends);

/* The rest of a tag, what it holds, and `end`: "{% name ... %} body {% end". Takes `end` too. */
static bool body_to(jj_parse *p, jj_nodes *ret, const char *end)
{
    return statements(p, ret, end) && bt_jj_parse_next(p);
}

static bool is_one_of(const jj_token *t, const char *names)
{
    if (t->kind != JJ_T_NAME) return false;
    for (const char *n = names; *n;) {
        const size_t len = strcspn(n, " ");
        if (len == t->len && memcmp(n, t->ptr, len) == 0) return true;
        n += len + (n[len] == ' ');
    }
    return false;
}

static bool want_name(jj_parse *p, const char *name)
{
    if (bt_jj_parse_skip_name(p, name)) return true;
    char words[48];
    snprintf(words, sizeof words, "'%s' is expected", name);
    return bt_jj_parse_fail(p, &p->now, words);
}

/* ---- targets ---- */

static jj_node *target_name(jj_parse *p, bool with_member)
{
    const jj_token t = p->now;
    static const char words[] = "true True false False none None";
    if (t.kind != JJ_T_NAME || is_one_of(&t, words)) {
        bt_jj_parse_fail(p, &t, "a name to assign to is expected");
        return NULL;
    }
    jj_node *n = bt_jj_parse_node(p, JJ_NAME, t.at);
    if (!n || !bt_jj_parse_name(p, &n->name, t.ptr, t.len) || !bt_jj_parse_next(p)) return NULL;
    p->is_set[n->name] = true;
    if (!with_member || !bt_jj_parse_skip_op(p, ".")) return n;
    if (p->now.kind != JJ_T_NAME) {
        bt_jj_parse_fail(p, &p->now, "a name is expected");
        return NULL;
    }
    n->flag = true;
    n->value = jj_text(bt_jj_str_new(p->run, p->now.ptr, p->now.len, true));
    return n->value.s && bt_jj_parse_next(p) ? n : NULL;
}

/* a, or a, b, or (a, b). */
static jj_node *target(jj_parse *p, bool with_member)
{
    jj_node *first = NULL, *tuple;
    size_t cap = 0;
    if (bt_jj_parse_is_op(&p->now, "(")) {
        if (!bt_jj_parse_deeper(p) || !bt_jj_parse_next(p) || !(first = target(p, with_member)) ||
            !bt_jj_parse_want_op(p, ")"))
            return NULL;
        p->depth--;
    } else if (!(first = target_name(p, with_member))) return NULL;
    if (!bt_jj_parse_is_op(&p->now, ",")) return first;
    if (!(tuple = bt_jj_parse_node(p, JJ_MAKE_TUPLE, first->at)) ||
        !bt_jj_parse_add(p, &tuple->kid, &cap, first))
        return NULL;
    while (bt_jj_parse_skip_op(p, ",")) {
        if (bt_jj_parse_is_name(&p->now, "in") || bt_jj_parse_is_op(&p->now, "=") ||
            bt_jj_parse_is_op(&p->now, ")"))
            break;
        jj_node *n = NULL;
        if (bt_jj_parse_is_op(&p->now, "(")) {
            if (bt_jj_parse_deeper(p) && bt_jj_parse_next(p) && (n = target(p, with_member)) &&
                !bt_jj_parse_want_op(p, ")"))
                n = NULL;
            p->depth--;
        } else n = target_name(p, with_member);
        if (!bt_jj_parse_add(p, &tuple->kid, &cap, n)) return NULL;
    }
    return p->run->err == BT_OK ? tuple : NULL;
}

/* (a, b=1) of a macro, or of a call block's caller. */
static bool signature(jj_parse *p, jj_params *ret)
{
    size_t cap = 0;
    bool has_other = false;
    if (!bt_jj_parse_want_op(p, "(")) return false;
    while (!bt_jj_parse_is_op(&p->now, ")")) {
        if (ret->len > 0 && !bt_jj_parse_want_op(p, ",")) return false;
        if (ret->len > 0 && bt_jj_parse_is_op(&p->now, ")")) break;
        if (ret->len == cap) {
            const size_t more = cap ? 2 * cap : 4, n = ret->len;
            ret->name = bt_jj_grow(p->run, ret->name, n * sizeof *ret->name, more * sizeof *ret->name);
            ret->text = bt_jj_grow(p->run, ret->text, n * sizeof *ret->text, more * sizeof *ret->text);
            ret->other = bt_jj_grow(p->run, ret->other, n * sizeof *ret->other, more * sizeof *ret->other);
            if (!ret->name || !ret->text || !ret->other) return false;
            cap = more;
        }
        const jj_node *n = target_name(p, false);
        if (!n) return false;
        const size_t i = ret->len++;
        ret->name[i] = n->name;
        ret->text[i] = p->j->name[n->name];
        if (bt_jj_parse_skip_op(p, "=")) {
            if (!(ret->other[i] = bt_jj_parse_expr(p, true))) return false;
            has_other = true;
        } else if (has_other)
            return bt_jj_parse_fail(p, &p->now, "non-default argument follows default argument");
    }
    return bt_jj_parse_next(p);
}

/* ---- tags; the tag's name is taken ---- */

static jj_node *tag_for(jj_parse *p, jj_node *n)
{
    size_t cap = 0;
    if (!(n->target = target(p, false)) || !want_name(p, "in") ||
        !bt_jj_parse_add(p, &n->kid, &cap, bt_jj_parse_tuple(p, false, false)))
        return NULL;
    if (bt_jj_parse_skip_name(p, "if") && !bt_jj_parse_add(p, &n->kid, &cap, bt_jj_parse_expr(p, true)))
        return NULL;
    n->flag = bt_jj_parse_skip_name(p, "recursive");
    p->loops++;
    const bool ok = statements(p, &n->body, "endfor else");
    p->loops--;
    if (!ok) return NULL;
    if (bt_jj_parse_skip_name(p, "else") && !statements(p, &n->other, "endfor")) return NULL;
    return bt_jj_parse_next(p) ? n : NULL;
}

/* elif is an if in the other branch; they are read in a row, so that a long one is not deep. */
static jj_node *tag_if(jj_parse *p, jj_node *n)
{
    jj_node *last = n;
    const int depth = p->depth;
    size_t cap = 0;
    p->ifs++;
    for (;;) {
        if (!bt_jj_parse_add(p, &last->kid, &cap, bt_jj_parse_tuple(p, false, false)) ||
            !statements(p, &last->body, "elif else endif"))
            return NULL;
        const jj_place at = p->now.at;
        if (!bt_jj_parse_skip_name(p, "elif")) break;
        jj_node *more = bt_jj_parse_node(p, JJ_IF, at);
        cap = 0;
        if (!bt_jj_parse_add(p, &last->other, &cap, more)) return NULL;
        last = more;
        cap = 0;
    }
    if (bt_jj_parse_skip_name(p, "else") && !statements(p, &last->other, "endif")) return NULL;
    p->ifs--;
    p->depth = depth;
    return bt_jj_parse_next(p) ? n : NULL;
}

static jj_node *tag_set(jj_parse *p, jj_node *n)
{
    size_t cap = 0;
    if (!(n->target = target(p, true))) return NULL;
    if (bt_jj_parse_skip_op(p, "="))
        return bt_jj_parse_add(p, &n->kid, &cap, bt_jj_parse_tuple(p, true, false)) ? n : NULL;
    n->kind = JJ_SET_BLOCK;
    if (bt_jj_parse_is_op(&p->now, "|") &&
        !bt_jj_parse_add(p, &n->kid, &cap, bt_jj_parse_filters(p, NULL, false)))
        return NULL;
    return body_to(p, &n->body, "endset") ? n : NULL;
}

static jj_node *tag_with(jj_parse *p, jj_node *n)
{
    size_t cap = 0, targets = 0;
    if (!(n->target = bt_jj_parse_node(p, JJ_MAKE_TUPLE, n->at))) return NULL;
    while (p->now.kind != JJ_T_TAG_SHUT) {
        if (n->kid.len > 0 && !bt_jj_parse_want_op(p, ",")) return NULL;
        if (!bt_jj_parse_add(p, &n->target->kid, &targets, target_name(p, false)) ||
            !bt_jj_parse_want_op(p, "=") || !bt_jj_parse_add(p, &n->kid, &cap, bt_jj_parse_expr(p, true)))
            return NULL;
    }
    return body_to(p, &n->body, "endwith") ? n : NULL;
}

/* The body of a macro or of a call block, and which of the special names it has. */
static jj_node *macro_body(jj_parse *p, jj_node *n, const char *end)
{
    const unsigned callers = p->callers, varargs = p->varargs, kwargs = p->kwargs;
    const int loops = p->loops;
    p->loops = 0;
    p->macros++;
    if (!body_to(p, &n->body, end)) return NULL;
    p->macros--;
    p->loops = loops;
    n->params->has_caller = p->callers > callers;
    n->params->has_varargs = p->varargs > varargs;
    n->params->has_kwargs = p->kwargs > kwargs;
    return n;
}

static jj_node *tag_macro(jj_parse *p, jj_node *n)
{
    const jj_node *name = target_name(p, false);
    if (!name || !(n->params = bt_jj_take(p->run, sizeof *n->params)) || !signature(p, n->params))
        return NULL;
    n->name = name->name;
    return macro_body(p, n, "endmacro");
}

static jj_node *tag_call(jj_parse *p, jj_node *n)
{
    size_t cap = 0;
    if (!(n->params = bt_jj_take(p->run, sizeof *n->params))) return NULL;
    if (bt_jj_parse_is_op(&p->now, "(") && !signature(p, n->params)) return NULL;
    const jj_token t = p->now;
    if (!bt_jj_parse_add(p, &n->kid, &cap, bt_jj_parse_expr(p, true))) return NULL;
    if (n->kid.node[0]->kind != JJ_CALL) {
        bt_jj_parse_fail(p, &t, "a call is expected");
        return NULL;
    }
    return macro_body(p, n, "endcall");
}

static jj_node *tag_filter(jj_parse *p, jj_node *n)
{
    size_t cap = 0;
    return bt_jj_parse_add(p, &n->kid, &cap, bt_jj_parse_filters(p, NULL, true)) &&
                   body_to(p, &n->body, "endfilter")
               ? n
               : NULL;
}

static jj_node *tag_print(jj_parse *p, jj_node *n)
{
    size_t cap = 0;
    while (p->now.kind != JJ_T_TAG_SHUT) {
        if (n->kid.len > 0 && !bt_jj_parse_want_op(p, ",")) return NULL;
        if (!bt_jj_parse_add(p, &n->kid, &cap, bt_jj_parse_expr(p, true))) return NULL;
    }
    return n;
}

static jj_node *tag_generation(jj_parse *p, jj_node *n)
{
    return body_to(p, &n->body, "endgeneration") ? n : NULL;
}

static jj_node *tag_jump(jj_parse *p, jj_node *n)
{
    if (p->loops > 0) return n;
    p->run->at = n->at;
    bt_jj_fail(p->run, BT_EFORMAT, "'%s' outside of a loop", n->kind == JJ_BREAK ? "break" : "continue");
    return NULL;
}

static const struct {
    const char *name;
    jj_node_kind kind;
    jj_node *(*read)(jj_parse *p, jj_node *n);
} tags[] = {
    {"for", JJ_FOR, tag_for},
    {"if", JJ_IF, tag_if},
    {"set", JJ_SET, tag_set},
    {"with", JJ_WITH, tag_with},
    {"macro", JJ_MACRO_DEF, tag_macro},
    {"call", JJ_CALL_BLOCK, tag_call},
    {"filter", JJ_FILTER_BLOCK, tag_filter},
    {"print", JJ_PRINT, tag_print},
    {"generation", JJ_SCOPE, tag_generation},
    {"break", JJ_BREAK, tag_jump},
    {"continue", JJ_CONTINUE, tag_jump},
};

static jj_node *unknown_tag(jj_parse *p, const jj_token *t, const char *ends)
{
    static const char refused[] = "block extends include import from autoescape";
    p->run->at = t->at;
    const int len = t->len < 40 ? (int)t->len : 40;
    if (is_one_of(t, refused))
        bt_jj_fail(p->run, BT_EFORMAT, "the tag '%.*s' is not for templates of one file", len, t->ptr);
    else if (ends)
        bt_jj_fail(p->run, BT_EFORMAT, "Encountered unknown tag '%.*s'. Looked for: %s.", len, t->ptr, ends);
    else bt_jj_fail(p->run, BT_EFORMAT, "Encountered unknown tag '%.*s'.", len, t->ptr);
    return NULL;
}

static jj_node *statement(jj_parse *p, const char *ends)
{
    const jj_token t = p->now;
    if (t.kind != JJ_T_NAME) {
        bt_jj_parse_fail(p, &t, "the name of a tag is expected");
        return NULL;
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!bt_jj_parse_is_name(&t, tags[i].name)) continue;
        jj_node *n = bt_jj_parse_node(p, tags[i].kind, t.at);
        return n && bt_jj_parse_next(p) ? tags[i].read(p, n) : NULL;
    }
    return unknown_tag(p, &t, ends);
}

static jj_node *printed(jj_parse *p)
{
    jj_node *n = bt_jj_parse_node(p, JJ_PRINT, p->now.at);
    size_t cap = 0;
    if (!n || !bt_jj_parse_next(p) || !bt_jj_parse_add(p, &n->kid, &cap, bt_jj_parse_tuple(p, true, false)))
        return NULL;
    if (p->now.kind == JJ_T_PRINT_SHUT) return n;
    bt_jj_parse_fail(p, &p->now, "'}}' is expected");
    return NULL;
}

static bool statements(jj_parse *p, jj_nodes *ret, const char *ends)
{
    size_t cap = 0;
    ret->len = 0;
    ret->node = NULL;
    if (!bt_jj_parse_deeper(p)) return false;
    if (ends) {
        if (!bt_jj_parse_skip_op(p, ":") && p->run->err != BT_OK) return false;
        if (p->now.kind != JJ_T_TAG_SHUT) return bt_jj_parse_fail(p, &p->now, "'%}' is expected");
        if (!bt_jj_parse_next(p)) return false;
    }
    for (;;) {
        jj_node *n = NULL;
        if (p->now.kind == JJ_T_END) {
            if (!ends) break;
            p->run->at = p->now.at;
            return bt_jj_fail(p->run, BT_EFORMAT, "Unexpected end of template. Looked for: %s.", ends);
        }
        if (p->now.kind == JJ_T_DATA) {
            if ((n = bt_jj_parse_node(p, JJ_DATA, p->now.at)))
                n->value = jj_text(bt_jj_str_new(p->run, p->now.ptr, p->now.len, true));
        } else if (p->now.kind == JJ_T_PRINT_OPEN) n = printed(p);
        else {
            if (!bt_jj_parse_next(p)) return false;
            if (ends && is_one_of(&p->now, ends)) break;
            n = statement(p, ends);
            if (n && p->now.kind != JJ_T_TAG_SHUT) return bt_jj_parse_fail(p, &p->now, "'%}' is expected");
        }
        if (!bt_jj_parse_add(p, ret, &cap, n) || !bt_jj_parse_next(p)) return false;
    }
    p->depth--;
    return p->run->err == BT_OK;
}

bt_jinja *bt_jj_parse_template(jj_run *r, const char *source, size_t len)
{
    jj_parse p = {.run = r, .j = bt_jj_take(r, sizeof *p.j)};
    bt_jinja *j = p.j;
    if (!j || !bt_jj_lex_begin(&p.lex, r, source, len) || !bt_jj_parse_name(&p, &j->loop, "loop", 4) ||
        !bt_jj_parse_name(&p, &j->caller, "caller", 6) || !bt_jj_parse_name(&p, &j->varargs, "varargs", 7) ||
        !bt_jj_parse_name(&p, &j->kwargs, "kwargs", 6) || !bt_jj_parse_next(&p) || !bt_jj_parse_next(&p) ||
        !statements(&p, &j->body, NULL))
        return NULL;
    if (!p.unknown && p.uncallable && !p.is_set[p.uncallable->kid.node[0]->name]) {
        const jj_str *name = j->name[p.uncallable->kid.node[0]->name];
        r->at = p.uncallable->at;
        bt_jj_fail(r, BT_EFORMAT, "there is no function '%.*s'", name->len < 60 ? (int)name->len : 60,
                   name->ptr);
        return NULL;
    }
    if (!p.unknown) return j;
    r->at = p.unknown->at;
    bt_jj_fail(r, BT_EFORMAT, "No %s named '%.*s'.", p.unknown->kind == JJ_FILTER ? "filter" : "test",
               p.unknown->value.s->len < 60 ? (int)p.unknown->value.s->len : 60, p.unknown->value.s->ptr);
    return NULL;
}
