/* The parser of GBNF: one pass, groups on a stack of its own; rules may be named before they are written. */
#include "grammar/compile.h"

#include "base/hash.h"
#include "grammar/automaton.h"
#include "grammar/program.h"
#include "grammar/reader.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64 };

typedef struct gbnf {
    bt_reader r;
    char (*name)[NAME_BYTES + 1]; /* [BT_PROGRAM_RULES]; that of rule i at i */
    bt_auto_map map;              /* hash of a name -> rule */
} gbnf;

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static void skip_space(bt_reader *r, bool with_lines)
{
    for (; r->at < r->len; r->at++) {
        if (bt_reader_is(r, "#"))
            while (r->at < r->len && r->text[r->at] != '\n' && r->text[r->at] != '\r') r->at++;
        if (r->at == r->len) return;
        const char c = r->text[r->at];
        if (c != ' ' && c != '\t' && !(with_lines && (c == '\n' || c == '\r'))) return;
    }
}

/* The rule of the name at r->at, a new one where it is not known. */
static bt_err read_name(uint32_t *ret, gbnf *g)
{
    bt_reader *r = &g->r;
    const size_t from = r->at;
    while (r->at < r->len && is_name(r->text[r->at])) r->at++;
    const size_t n = r->at - from;
    if (n == 0) return bt_reader_bad(r, "no name");
    if (n > NAME_BYTES)
        return bt_fail(r->f, BT_ELIMIT, "a name of over %d bytes at byte %zu", NAME_BYTES, from);
    for (uint64_t hash = bt_hash64(r->text + from, n);; hash++) {
        const uint32_t fresh = (uint32_t)g->map.used, rule = bt_auto_map_get(&g->map, hash, fresh);
        if (rule == UINT32_MAX) return bt_fail(r->f, BT_ENOMEM, "a grammar");
        *ret = rule;
        if (rule == fresh) {
            if (rule == BT_PROGRAM_RULES)
                return bt_fail(r->f, BT_ELIMIT, "a grammar of over %d rules", BT_PROGRAM_RULES);
            memcpy(g->name[rule], r->text + from, n);
            /* Rule 0 is there already, and its name was asked for first. */
            if (rule > 0 && bt_syntax_rule(r->s, g->name[rule]) != rule)
                return bt_fail(r->f, BT_ENOMEM, "a grammar");
            return BT_OK;
        }
        if (strlen(g->name[rule]) == n && memcmp(g->name[rule], r->text + from, n) == 0) return BT_OK;
    }
}

static bt_err read_text(uint32_t *ret, bt_reader *r)
{
    uint32_t c;
    *ret = BT_SYNTAX_EMPTY;
    for (r->at++; !bt_reader_is(r, "\"");) {
        if (bt_reader_is(r, "\\")) {
            r->at++;
            const bt_err e = bt_reader_escape(&c, r);
            if (e < 0) return e;
        } else {
            const size_t n = bt_syntax_next_char(&c, r->text + r->at, r->len - r->at);
            if (n == 0) return bt_reader_bad(r, r->at == r->len ? "a text without its end" : "no UTF-8");
            r->at += n;
        }
        *ret = bt_syntax_join(r->s, *ret, bt_reader_char(r, c));
    }
    r->at++;
    return BT_OK;
}

/* Any item but groups. */
static bt_err read_item(gbnf *g, bt_series *to)
{
    bt_reader *r = &g->r;
    uint32_t node = BT_SYNTAX_EMPTY, rule;
    bt_err e = BT_OK;
    const char c = r->text[r->at];
    if (c == '"') {
        e = read_text(&node, r);
    } else if (c == '[') {
        r->at++;
        e = bt_reader_class(&node, r);
    } else if (c == '.') {
        r->at++;
        node = bt_syntax_char(r->s, &(bt_syntax_chars){0, BT_READER_LAST_CHAR}, 1, false);
    } else if (is_name(c)) {
        e = read_name(&rule, g);
        if (e == BT_OK) node = bt_syntax_call(r->s, rule, 1, 1);
    } else {
        e = bt_reader_bad(r, "no item");
    }
    if (e == BT_OK) bt_reader_item(r, to, node);
    return e;
}

/* All behind ::=, to the end of the rule. */
static bt_err read_rule(uint32_t *ret, gbnf *g)
{
    bt_reader *r = &g->r;
    bt_series stack[BT_READER_GROUPS + 1] = {{0}};
    size_t depth = 0;
    skip_space(r, true);
    while (r->at < r->len && r->text[r->at] != '\n' && r->text[r->at] != '\r') {
        bt_series *at = &stack[depth];
        const char c = r->text[r->at];
        bool is_done = true;
        bt_err e = BT_OK;
        if (c == '(') {
            if (depth == BT_READER_GROUPS)
                return bt_fail(r->f, BT_ELIMIT, "over %d groups in groups in the grammar", BT_READER_GROUPS);
            r->at++;
            stack[++depth] = (bt_series){0};
        } else if (c == ')') {
            if (depth == 0) return bt_reader_bad(r, "a closing parenthesis without its opening one");
            r->at++;
            depth--;
            bt_reader_item(r, &stack[depth], bt_reader_close(r, at));
        } else if (c == '|') {
            r->at++;
            const uint32_t either = bt_reader_close(r, at);
            *at = (bt_series){.either = either, .has_either = true};
        } else {
            e = bt_reader_repeat(&is_done, r, at);
            if (e == BT_OK && !is_done) e = read_item(g, at);
        }
        if (e < 0) return e;
        skip_space(r, depth > 0 || c == '|');
    }
    if (depth > 0) return bt_reader_bad(r, "a group without its end");
    *ret = bt_reader_close(r, &stack[0]);
    return BT_OK;
}

static bt_err read_rules(gbnf *g)
{
    bt_reader *r = &g->r;
    const bt_reader whole = *r;
    uint32_t rule, node = BT_SYNTAX_EMPTY;
    r->text = "root";
    r->len = 4;
    bt_err e = read_name(&rule, g);
    *r = whole;
    for (skip_space(r, true); e == BT_OK && r->at < r->len; skip_space(r, true)) {
        e = read_name(&rule, g);
        if (e < 0) return e;
        if (bt_syntax_is_defined(r->s, rule))
            return bt_fail(r->f, BT_EARG, "'%s' is defined twice", g->name[rule]);
        skip_space(r, false);
        if (!bt_reader_is(r, "::=")) return bt_reader_bad(r, "no ::= behind a name");
        r->at += 3;
        e = read_rule(&node, g);
        if (e == BT_OK) bt_syntax_define(r->s, rule, node);
    }
    return e;
}

bt_err bt_gbnf_compile(bt_buf *ret, const char *text, size_t len, bt_fault *fault)
{
    gbnf g = {.r = {.text = text, .what = "grammar", .len = len, .is_gbnf = true, .f = fault}};
    if (len > BT_READER_BYTES)
        return bt_fail(fault, BT_ELIMIT, "a grammar of %zu bytes (%d is the limit)", len, BT_READER_BYTES);
    bt_err e = bt_syntax_new(&g.r.s, fault);
    if (e < 0) return e;
    g.name = calloc(BT_PROGRAM_RULES, sizeof *g.name);
    if (!g.name) e = bt_fail(fault, BT_ENOMEM, "a grammar");
    if (e == BT_OK) e = read_rules(&g);
    if (e == BT_OK && !bt_syntax_is_defined(g.r.s, 0)) e = bt_fail(fault, BT_EARG, "'root' is not defined");
    if (e == BT_OK) e = bt_syntax_assemble(ret, g.r.s, fault);
    bt_syntax_free(g.r.s);
    bt_auto_map_done(&g.map);
    free(g.name);
    return e;
}
