#ifndef BT_GRAMMAR_SYNTAX_H
#define BT_GRAMMAR_SYNTAX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

/* Rules, each a tree over bytes: the compilers write them, and assemble.c makes a program of them. Rule 0 is the whole.
 *
 * A node is a number. Making one never fails by itself: past a limit or out of memory every call returns
 * BT_SYNTAX_EMPTY, and bt_syntax_assemble returns the first error. A node may stand in several places. */
enum {
    BT_SYNTAX_NODES = 1 << 18,
    BT_SYNTAX_STEPS = 20000000, /* of one assembly: at most 0.2 s of a slow core */
    BT_SYNTAX_EMPTY = 0,        /* the empty text */
};
#define BT_SYNTAX_NO_END UINT32_MAX

typedef struct bt_syntax bt_syntax;
bt_err bt_syntax_new(bt_syntax **ret, bt_fault *fault); /* with rule 0, not yet defined */
void bt_syntax_free(bt_syntax *s);                      /* NULL is fine */

uint32_t bt_syntax_never(bt_syntax *s); /* no text at all */
uint32_t bt_syntax_range(bt_syntax *s, uint8_t first, uint8_t last);
uint32_t bt_syntax_text(bt_syntax *s, const void *bytes, size_t len);
uint32_t bt_syntax_join(bt_syntax *s, uint32_t a, uint32_t b);
uint32_t bt_syntax_either(bt_syntax *s, uint32_t a, uint32_t b);
uint32_t bt_syntax_repeat(bt_syntax *s, uint32_t a, uint32_t min, uint32_t max); /* copied max times; or NO_END */
/* True only before the first byte of the rule, or behind its last. A rule that holds one is never part of another. */
uint32_t bt_syntax_at_begin(bt_syntax *s);
uint32_t bt_syntax_at_end(bt_syntax *s);
/* min to max times a rule, counted by the program instead of copied; NO_END or at most BT_PROGRAM_NO_END - 1. */
uint32_t bt_syntax_call(bt_syntax *s, uint32_t rule, uint32_t min, uint32_t max);

/* A new rule, undefined; `name` is borrowed, for errors. */
uint32_t bt_syntax_rule(bt_syntax *s, const char *name);
void bt_syntax_define(bt_syntax *s, uint32_t rule, uint32_t node);
bool bt_syntax_is_defined(const bt_syntax *s, uint32_t rule);
/* The rule's texts must be those of `node` too, or with is_out none of them; neither tree may recurse. Once a rule. */
void bt_syntax_restrict(bt_syntax *s, uint32_t rule, uint32_t node, bool is_out);

/* The rule is one of several that begin alike: it is copied into those that call it unless it is very large, so that
 * one state stands for all of them. Small rules are anyway. */
void bt_syntax_spread(bt_syntax *s, uint32_t rule);
/* The rule's texts stand between two '"', which none of them holds. at_begin, at_end and restrict mean what is between.
 */
void bt_syntax_quote(bt_syntax *s, uint32_t rule);

typedef struct bt_syntax_span {
    const char *ptr;
    size_t len;
} bt_syntax_span;

/* One character of a set: ranges of code points, ascending, not touching. In UTF-8; with is_json as it stands in a JSON
 * string, where control characters, '"' and '\' are escaped in their shortest form, others never. */
typedef struct bt_syntax_chars {
    uint32_t first, last;
} bt_syntax_chars;
uint32_t bt_syntax_char(bt_syntax *s, const bt_syntax_chars *set, size_t n, bool is_json);
/* The character at the beginning of text[0 .. len) and its bytes; 0: no whole character of UTF-8 stands there. */
size_t bt_syntax_next_char(uint32_t *ret, const char *text, size_t len);
/* Sorts and joins ranges; returns how many are left. */
size_t bt_syntax_chars_sort(bt_syntax_chars *set, size_t n);
/* All characters that are not in a sorted set; ret has room for n + 1. Surrogates count, and bt_syntax_char drops them.
 */
size_t bt_syntax_chars_invert(bt_syntax_chars *ret, const bt_syntax_chars *set, size_t n);

/* Appends the program. BT_ELIMIT names the limit (nodes, steps, states, bytes), BT_EARG what cannot be: left recursion,
 * a rule that matches nothing at all; BT_ENOMEM. The bytes pass bt_program_new. */
bt_err bt_syntax_assemble(bt_buf *ret, bt_syntax *s, bt_fault *fault);
#endif
