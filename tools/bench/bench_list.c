/* See bench_list.h. */
#include "tools/bench/bench_list.h"
#include "base/num.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { WORD_BYTES = 32 };

/* The word at *text, which then stands behind its comma, or is NULL after the last. */
static bool next(char word[WORD_BYTES], const char **text)
{
    const size_t len = strcspn(*text, ",");
    if (len == 0 || len >= WORD_BYTES) return false;
    memcpy(word, *text, len);
    word[len] = '\0';
    *text = (*text)[len] == ',' ? *text + len + 1 : NULL;
    return true;
}

bt_err tool_list_numbers(tool_list *ret, const char *option, const char *text, size_t lo, size_t hi,
                         const char *example, bt_fault *fault)
{
    tool_list list = {.count = 0};
    for (const char *at = text; at;) {
        char word[WORD_BYTES];
        int64_t n;
        if (!next(word, &at) || bt_num_int(&n, word, (int64_t)lo, (int64_t)hi, NULL) < 0)
            return bt_fail(
                fault, BT_EARG,
                "--%s '%s' is not a list of numbers from %zu to %zu with commas between, such as '%s'",
                option, text, lo, hi, example);
        if (list.count == TOOL_LIST_MAX)
            return bt_fail(fault, BT_EARG, "--%s '%s' has more than %d numbers", option, text, TOOL_LIST_MAX);
        list.value[list.count++] = (size_t)n;
    }
    *ret = list;
    return BT_OK;
}

bt_err tool_list_words(tool_list *ret, const char *option, const char *text, const char *const *words,
                       bt_fault *fault)
{
    tool_list list = {.count = 0};
    for (const char *at = text; at;) {
        char word[WORD_BYTES] = "", known[160] = "";
        size_t i = 0, len = 0;
        if (!next(word, &at)) at = NULL;
        while (words[i] && strcmp(words[i], word) != 0) i++;
        for (size_t j = 0; !words[i] && words[j] && len < sizeof known; j++)
            len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", j ? ", " : "", words[j]);
        if (!words[i])
            return bt_fail(fault, BT_EARG, "--%s '%s' is not a list of some of %s with commas between",
                           option, text, known);
        for (size_t j = 0; j < list.count; j++)
            if (list.value[j] == i)
                return bt_fail(fault, BT_EARG, "--%s '%s' has %s twice", option, text, word);
        list.value[list.count++] = i;
    }
    *ret = list;
    return BT_OK;
}
