#ifndef BT_TOOLS_BENCH_LIST_H
#define BT_TOOLS_BENCH_LIST_H
#include <stddef.h>
#include "base/err.h"

/* Lists of an option, with commas: "512,2048". */
enum { TOOL_LIST_MAX = 16 };
typedef struct tool_list {
    size_t value[TOOL_LIST_MAX], count;
} tool_list;

/* Numbers of lo .. hi, 1 to TOOL_LIST_MAX of them, in their order. BT_EARG names the option, the word and a good
 * example. */
bt_err tool_list_numbers(tool_list *ret, const char *option, const char *text, size_t lo, size_t hi,
                         const char *example, bt_fault *fault);
/* Indices of words in `words`, which ends with NULL; each at most once. */
bt_err tool_list_words(tool_list *ret, const char *option, const char *text, const char *const *words, bt_fault *fault);
#endif
