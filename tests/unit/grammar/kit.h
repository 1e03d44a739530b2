#ifndef TESTS_UNIT_GRAMMAR_KIT_H
#define TESTS_UNIT_GRAMMAR_KIT_H
#include "grammar/compile.h"
#include "grammar/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Grammars by their form, and what they say of a text. */
typedef enum grammar_form { GRAMMAR_REGEX, GRAMMAR_GBNF, GRAMMAR_SCHEMA } grammar_form;

static inline bt_err grammar_bytes(bt_buf *out, grammar_form form, const char *text, bt_fault *f)
{
    bt_buf_init(out, BT_PROGRAM_BYTES);
    if (form == GRAMMAR_REGEX) return bt_regex_compile(out, text, strlen(text), f);
    if (form == GRAMMAR_GBNF) return bt_gbnf_compile(out, text, strlen(text), f);
    json_t *schema = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(schema);
    const bt_err e = bt_schema_compile(out, schema, f);
    json_decref(schema);
    return e;
}

static inline bt_program *grammar(grammar_form form, const char *text)
{
    bt_buf bytes;
    bt_fault f = {""};
    bt_program *p = NULL;
    if (grammar_bytes(&bytes, form, text, &f) < 0 || bt_program_new(&p, bytes.data, bytes.len, &f) < 0)
        fail_msg("%s: %s", text, f.text);
    bt_buf_done(&bytes);
    return p;
}

/* 'y': a whole text, 'p': the beginning of one, 'n': none. */
static inline char grammar_says(const bt_program *p, const char *text)
{
    bt_program_state s;
    bt_program_begin(&s, p);
    if (bt_program_accept(&s, p, text, strlen(text), NULL) < 0) return 'n';
    return bt_program_may_end(&s, p) ? 'y' : 'p';
}

/* The texts that follow, up to NULL, are what is asked for: "y text", "p text" or "n text". */
static inline void grammar_is(grammar_form form, const char *source, ...)
{
    va_list list;
    bt_program *p = grammar(form, source);
    va_start(list, source);
    for (const char *want; (want = va_arg(list, const char *)) != NULL;)
        if (grammar_says(p, want + 2) != want[0]) fail_msg("%s: '%s' is %c", source, want, grammar_says(p, want + 2));
    va_end(list);
    bt_program_free(p);
}

static inline void grammar_refuses(grammar_form form, const char *source, bt_err want, const char *words)
{
    bt_buf bytes;
    bt_fault f = {""};
    assert_int_equal(grammar_bytes(&bytes, form, source, &f), want);
    if (!strstr(f.text, words)) fail_msg("%s: '%s' has no '%s'", source, f.text, words);
    bt_buf_done(&bytes);
}
#endif
