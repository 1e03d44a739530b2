/* Words, one after the other, each with its column. See faults.h. */
#include "tools/simulate/faults.h"
#include "device/profile_words.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WORD = 24, MOST_HOURS = 1000 };

typedef struct reader {
    const char *text, *at;
    char word[WORD]; /* the next one, "" at the end of a part */
    size_t len;      /* of it in the text */
    bt_fault *fault;
} reader;

static void look(reader *r)
{
    r->at += strspn(r->at, " \t\n");
    r->len = strcspn(r->at, " \t\n;");
    (void)snprintf(r->word, sizeof r->word, "%.*s", r->len < WORD ? (int)r->len : WORD - 1, r->at);
}

static void pass(reader *r)
{
    r->at += r->len;
    look(r);
}

static bt_err wrong(const reader *r, const char *wants, const char *near)
{
    return bt_fail(r->fault, BT_EARG, "--faults, column %zu: %s%.23s%s where %s%s%s%s was expected",
                   (size_t)(r->at - r->text) + 1, r->len ? "'" : "", r->len ? r->word : "the end",
                   r->len ? "'" : "", wants, near ? "; did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
}

static bool is(const reader *r, const char *word) { return r->len < WORD && strcmp(r->word, word) == 0; }

/* One of n words; its index. */
static bt_err one_of(reader *r, size_t *ret, const char *const *words, size_t n, const char *wants)
{
    for (size_t i = 0; i < n; i++)
        if (is(r, words[i])) {
            *ret = i;
            pass(r);
            return BT_OK;
        }
    return wrong(r, wants, r->len ? bt_profile_nearest(r->word, words, n) : NULL);
}

/* Digits, at most `limit`; how many characters they are. 0: none, or too large. */
static size_t digits(uint64_t *ret, const char *c, uint64_t limit)
{
    size_t n = 0;
    uint64_t v = 0;
    for (; c[n] >= '0' && c[n] <= '9'; n++)
        if ((v = v * 10 + (uint64_t)(c[n] - '0')) > limit) return 0;
    *ret = v;
    return n;
}

static bt_err count(reader *r, uint32_t *ret, uint32_t least, const char *behind, const char *wants)
{
    uint64_t v = 0;
    const size_t n = r->len < WORD ? digits(&v, r->word, 1000000) : 0;
    if (!n || v < least || strcmp(r->word + n, behind) != 0) return wrong(r, wants, NULL);
    *ret = (uint32_t)v;
    pass(r);
    return BT_OK;
}

static bt_err duration(reader *r, int64_t *ret_us)
{
    static const struct {
        const char *name;
        int64_t us;
    } units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"h", INT64_C(3600000000)}};
    uint64_t v = 0;
    const size_t n = r->len < WORD ? digits(&v, r->word, UINT64_C(3600000000) * MOST_HOURS) : 0;
    for (size_t i = 0; n && i < sizeof units / sizeof *units; i++) {
        if (strcmp(r->word + n, units[i].name) != 0) continue;
        if (v > (uint64_t)(INT64_C(3600000000) * MOST_HOURS / units[i].us)) break;
        *ret_us = (int64_t)v * units[i].us;
        pass(r);
        return BT_OK;
    }
    return wrong(r, "a time such as 20s, 600ms or 5m, at most 1000h,", NULL);
}

static bt_err times(reader *r, tool_simulate_fault *f)
{
    bool has_at = false, has_for = false;
    bt_err e = BT_OK;
    while (e == BT_OK && r->len) {
        const bool is_at = is(r, "at"), is_for = is(r, "for");
        if ((!is_at && !is_for) || (is_at && has_at) || (is_for && has_for))
            return wrong(r, "'at TIME', 'for TIME' or ';'", NULL);
        pass(r);
        e = duration(r, is_at ? &f->at_us : &f->for_us);
        has_at |= is_at;
        has_for |= is_for;
        if (e == BT_OK && is_for && f->for_us == 0) return wrong(r, "a time above 0", NULL);
    }
    if (e == BT_OK && f->what == TOOL_SIMULATE_STOP && !has_for) return wrong(r, "'for TIME'", NULL);
    return e;
}

static bt_err part(reader *r, tool_simulate_fault *f)
{
    static const char *const verbs[] = {"kill", "stop", "slow"}, *const roles[] = {"prefill", "decode"},
                             *const links[] = {"link"};
    size_t verb = 0, where = 0;
    bt_err e = one_of(r, &verb, verbs, 3, "kill, stop or slow");
    if (e < 0) return e;
    f->what = (tool_simulate_what)(TOOL_SIMULATE_KILL + verb);
    if (f->what == TOOL_SIMULATE_SLOW) {
        e = one_of(r, &where, links, 1, "link");
        f->where = TOOL_SIMULATE_LINK;
    } else {
        e = one_of(r, &where, roles, 2, "prefill or decode");
        f->where = (tool_simulate_where)(TOOL_SIMULATE_PREFILL + where);
    }
    if (e == BT_OK) e = count(r, &f->number, 0, "", "a number from 0");
    if (e == BT_OK && f->what == TOOL_SIMULATE_SLOW)
        e = count(r, &f->times, 2, "x", "how much slower, such as 10x,");
    return e == BT_OK ? times(r, f) : e;
}

bt_err tool_simulate_faults_read(tool_simulate_faults *ret, const char *text, bt_fault *fault)
{
    reader r = {.text = text, .at = text, .fault = fault};
    ret->len = 0;
    for (look(&r); *r.at; look(&r)) {
        tool_simulate_fault f = {0};
        if (*r.at == ';') {
            r.at++;
            continue;
        }
        if (ret->len == TOOL_SIMULATE_FAULTS)
            return bt_fail(fault, BT_EARG, "--faults: more than %d", TOOL_SIMULATE_FAULTS);
        const bt_err e = part(&r, &f);
        if (e < 0) return e;
        ret->fault[ret->len++] = f;
    }
    return BT_OK;
}

bt_err tool_simulate_faults_check(const tool_simulate_faults *f, uint32_t prefills, uint32_t decodes,
                                  bt_fault *fault)
{
    const uint32_t has[] = {0, prefills, decodes, prefills + decodes};
    static const char *const names[] = {"", "prefill", "decode", "link"};
    for (size_t i = 0; i < f->len; i++) {
        const tool_simulate_fault *one = &f->fault[i];
        if (one->number < has[one->where]) continue;
        if (!has[one->where])
            return bt_fail(fault, BT_EARG, "--faults: the cluster has no %s node", names[one->where]);
        return bt_fail(fault, BT_EARG, "--faults: there is no %s %u; the last is %u", names[one->where],
                       one->number, has[one->where] - 1);
    }
    return BT_OK;
}
