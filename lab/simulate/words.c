/* Words, one after the other, each with its column. See words.h. */
#include "lab/simulate/words.h"
#include "device/profile_words.h"

#include <stdio.h>
#include <string.h>

void tool_simulate_look(tool_simulate_words *r)
{
    r->at += strspn(r->at, " \t\n");
    r->len = *r->at == ',' ? 1 : strcspn(r->at, " \t\n;,");
    (void)snprintf(r->word, sizeof r->word, "%.*s",
                   r->len < TOOL_SIMULATE_WORD ? (int)r->len : TOOL_SIMULATE_WORD - 1, r->at);
}

void tool_simulate_pass(tool_simulate_words *r)
{
    r->at += r->len;
    tool_simulate_look(r);
}

bt_err tool_simulate_wrong(const tool_simulate_words *r, const char *wants, const char *near)
{
    return bt_fail(r->fault, BT_EARG, "--%s, column %zu: %s%.23s%s where %s%s%s%s was expected", r->option,
                   (size_t)(r->at - r->text) + 1, r->len ? "'" : "", r->len ? r->word : "the end",
                   r->len ? "'" : "", wants, near ? "; did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
}

bool tool_simulate_is(const tool_simulate_words *r, const char *word)
{
    return r->len < TOOL_SIMULATE_WORD && strcmp(r->word, word) == 0;
}

/* One of n words; its index. */
bt_err tool_simulate_one_of(tool_simulate_words *r, size_t *ret, const char *const *words, size_t n,
                            const char *wants)
{
    for (size_t i = 0; i < n; i++)
        if (tool_simulate_is(r, words[i])) {
            *ret = i;
            tool_simulate_pass(r);
            return BT_OK;
        }
    return tool_simulate_wrong(r, wants, r->len ? bt_profile_nearest(r->word, words, n) : NULL);
}

/* Digits, at most `limit`; how many characters they are. 0: none, or too large. */
size_t tool_simulate_digits(uint64_t *ret, const char *c, uint64_t limit)
{
    size_t n = 0;
    uint64_t v = 0;
    for (; c[n] >= '0' && c[n] <= '9'; n++)
        if ((v = v * 10 + (uint64_t)(c[n] - '0')) > limit) return 0;
    *ret = v;
    return n;
}

bt_err tool_simulate_count(tool_simulate_words *r, uint32_t *ret, uint32_t least, const char *behind,
                           const char *wants)
{
    uint64_t v = 0;
    const size_t n = r->len < TOOL_SIMULATE_WORD ? tool_simulate_digits(&v, r->word, 1000000) : 0;
    if (!n || v < least || strcmp(r->word + n, behind) != 0) return tool_simulate_wrong(r, wants, NULL);
    *ret = (uint32_t)v;
    tool_simulate_pass(r);
    return BT_OK;
}

bt_err tool_simulate_duration(tool_simulate_words *r, int64_t *ret_us)
{
    static const struct {
        const char *name;
        int64_t us;
    } units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"h", INT64_C(3600000000)}};
    uint64_t v = 0;
    const size_t n = r->len < TOOL_SIMULATE_WORD
                         ? tool_simulate_digits(&v, r->word, UINT64_C(3600000000) * TOOL_SIMULATE_HOURS)
                         : 0;
    for (size_t i = 0; n && i < sizeof units / sizeof *units; i++) {
        if (strcmp(r->word + n, units[i].name) != 0) continue;
        if (v > (uint64_t)(INT64_C(3600000000) * TOOL_SIMULATE_HOURS / units[i].us)) break;
        *ret_us = (int64_t)v * units[i].us;
        tool_simulate_pass(r);
        return BT_OK;
    }
    return tool_simulate_wrong(r, "a time such as 20s, 600ms or 5m, at most 1000h,", NULL);
}
