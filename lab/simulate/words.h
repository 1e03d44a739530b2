#ifndef BT_LAB_SIMULATE_WORDS_H
#define BT_LAB_SIMULATE_WORDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* The reader of --faults and --scale: words between spaces, in parts that semicolons end. A comma is a word. Any text
 * is safe. */
enum { TOOL_SIMULATE_WORD = 24, TOOL_SIMULATE_HOURS = 1000 };
typedef struct tool_simulate_words {
    const char *option; /* its name, for errors */
    const char *text, *at;
    char word[TOOL_SIMULATE_WORD]; /* the next one, "" at the end of a part */
    size_t len;                    /* of it in the text */
    bt_fault *fault;
} tool_simulate_words;

void tool_simulate_look(tool_simulate_words *r); /* at the word that begins here or behind spaces */
void tool_simulate_pass(tool_simulate_words *r);
bool tool_simulate_is(const tool_simulate_words *r, const char *word);
/* BT_EARG with the column, the word there, what was expected, and the nearest valid word (NULL: none is near). */
bt_err tool_simulate_wrong(const tool_simulate_words *r, const char *wants, const char *near);

/* Each of these steps over its word in success, and is BT_EARG with tool_simulate_wrong's words otherwise. */
bt_err tool_simulate_one_of(tool_simulate_words *r, size_t *ret, const char *const *words, size_t n, const char *wants);
/* A number, at most 1,000,000, and `behind` in one word. */
bt_err tool_simulate_count(tool_simulate_words *r, uint32_t *ret, uint32_t least, const char *behind,
                           const char *wants);
bt_err tool_simulate_duration(tool_simulate_words *r, int64_t *ret_us);
/* Digits at c, at most `limit`; how many characters they are. 0: none, or too large. */
size_t tool_simulate_digits(uint64_t *ret, const char *c, uint64_t limit);
#endif
