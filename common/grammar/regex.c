/* The parser of regular expressions: one pass, groups on a stack of its own. */
#include "grammar/compile.h"

#include "grammar/reader.h"

#include <string.h>

static const bt_syntax_chars line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

/* Behind an opening parenthesis: (?: and (?<name> are plain groups. */
static bt_err open_group(bt_reader *p)
{
    if (!bt_reader_is(p, "?")) return BT_OK;
    if (bt_reader_is(p, "?:")) {
        p->at += 2;
        return BT_OK;
    }
    if (bt_reader_is(p, "?=") || bt_reader_is(p, "?!") || bt_reader_is(p, "?<=") || bt_reader_is(p, "?<!"))
        return bt_reader_bad(p, "look-around, which is not supported,");
    if (!bt_reader_is(p, "?<")) return bt_reader_bad(p, "an inline flag, which is not supported,");
    const char *end = memchr(p->text + p->at, '>', p->len - p->at);
    if (!end) return bt_reader_bad(p, "the name of a group without its end");
    p->at = (size_t)(end - p->text) + 1;
    return BT_OK;
}

/* Any item but groups and alternatives. */
static bt_err read_item(bt_reader *p, bt_series *g)
{
    bt_err e = BT_OK;
    uint32_t c, node = BT_SYNTAX_EMPTY;
    const char b = p->text[p->at];
    if (b == '^' || b == '$') {
        p->at++;
        bt_reader_take(p, g);
        node = b == '^' ? bt_syntax_at_begin(p->s) : bt_syntax_at_end(p->s);
        g->sequence = bt_syntax_join(p->s, g->sequence, node);
        return BT_OK;
    }
    if (b == '.') {
        p->at++;
        const size_t n = bt_syntax_chars_invert(p->other, line_ends, 3);
        node = bt_syntax_char(p->s, p->other, n, p->is_json);
    } else if (b == '[') {
        p->at++;
        e = bt_reader_class(&node, p);
    } else if (b == '\\') {
        p->at++;
        p->sets = 0;
        if (p->at < p->len && bt_reader_named(p, p->text[p->at], &e)) {
            p->at++;
            node = bt_syntax_char(p->s, p->set, p->sets, p->is_json);
        } else {
            e = bt_reader_escape(&c, p);
            node = e == BT_OK ? bt_reader_char(p, c) : BT_SYNTAX_EMPTY;
        }
    } else {
        const size_t n = bt_syntax_next_char(&c, p->text + p->at, p->len - p->at);
        if (n == 0) return bt_reader_bad(p, "no UTF-8");
        p->at += n;
        node = bt_reader_char(p, c);
    }
    if (e == BT_OK) bt_reader_item(p, g, node);
    return e;
}

bt_err bt_regex_parse(uint32_t *ret, bt_syntax *s, const char *text, size_t len, bt_regex_form form,
                      bt_fault *fault)
{
    bt_series stack[BT_READER_GROUPS + 1] = {{0}};
    size_t depth = 0;
    bt_reader p = {.s = s,    .what = "pattern", .text = text, .len = len, .is_json = form == BT_REGEX_SEARCH,
                   .f = fault};
    if (len > BT_READER_BYTES)
        return bt_fail(fault, BT_ELIMIT, "a pattern of %zu bytes (%d is the limit)", len, BT_READER_BYTES);
    while (p.at < len) {
        bt_series *g = &stack[depth];
        bool is_done = true;
        bt_err e = BT_OK;
        if (text[p.at] == '(') {
            p.at++;
            if (depth == BT_READER_GROUPS)
                return bt_fail(fault, BT_ELIMIT, "over %d groups in groups in the pattern", BT_READER_GROUPS);
            e = open_group(&p);
            stack[++depth] = (bt_series){0};
        } else if (text[p.at] == ')') {
            if (depth == 0) return bt_reader_bad(&p, "a closing parenthesis without its opening one");
            p.at++;
            depth--;
            bt_reader_item(&p, &stack[depth], bt_reader_close(&p, g));
        } else if (text[p.at] == '|') {
            p.at++;
            const uint32_t either = bt_reader_close(&p, g);
            *g = (bt_series){.either = either, .has_either = true};
        } else {
            e = bt_reader_repeat(&is_done, &p, g);
            if (e == BT_OK && !is_done) e = read_item(&p, g);
        }
        if (e < 0) return e;
    }
    if (depth > 0) return bt_reader_bad(&p, "a group without its end");
    *ret = bt_reader_close(&p, &stack[0]);
    if (form == BT_REGEX_SEARCH) {
        const uint32_t any = bt_syntax_char(s, &(bt_syntax_chars){0, BT_READER_LAST_CHAR}, 1, true);
        const uint32_t around = bt_syntax_repeat(s, any, 0, BT_SYNTAX_NO_END);
        *ret = bt_syntax_join(s, around, bt_syntax_join(s, *ret, around));
    }
    return BT_OK;
}

bt_err bt_regex_compile(bt_buf *ret, const char *text, size_t len, bt_fault *fault)
{
    bt_syntax *s;
    uint32_t node;
    bt_err e = bt_syntax_new(&s, fault);
    if (e < 0) return e;
    e = bt_regex_parse(&node, s, text, len, BT_REGEX_WHOLE, fault);
    if (e == BT_OK) {
        bt_syntax_define(s, 0, node);
        e = bt_syntax_assemble(ret, s, fault);
    }
    bt_syntax_free(s);
    return e;
}

bt_err bt_regex_choices(bt_buf *ret, const bt_syntax_span *word, size_t n, bt_fault *fault)
{
    bt_syntax *s;
    bt_err e = bt_syntax_new(&s, fault);
    if (e < 0) return e;
    uint32_t node = bt_syntax_never(s);
    for (size_t i = 0; i < n; i++)
        node = bt_syntax_either(s, node, bt_syntax_text(s, word[i].ptr, word[i].len));
    bt_syntax_define(s, 0, node);
    e = bt_syntax_assemble(ret, s, fault);
    bt_syntax_free(s);
    return e;
}
