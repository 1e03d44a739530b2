/* See faults.h. */
#include "lab/simulate/faults.h"
#include "lab/simulate/words.h"

#include <stdbool.h>

static bt_err times(tool_simulate_words *r, tool_simulate_fault *f)
{
    bool has_at = false, has_for = false;
    bt_err e = BT_OK;
    while (e == BT_OK && r->len) {
        const bool is_at = tool_simulate_is(r, "at"), is_for = tool_simulate_is(r, "for");
        if ((!is_at && !is_for) || (is_at && has_at) || (is_for && has_for))
            return tool_simulate_wrong(r, "'at TIME', 'for TIME' or ';'", NULL);
        tool_simulate_pass(r);
        e = tool_simulate_duration(r, is_at ? &f->at_us : &f->for_us);
        has_at |= is_at;
        has_for |= is_for;
        if (e == BT_OK && is_for && f->for_us == 0) return tool_simulate_wrong(r, "a time above 0", NULL);
    }
    if (e == BT_OK && f->what == TOOL_SIMULATE_STOP && !has_for)
        return tool_simulate_wrong(r, "'for TIME'", NULL);
    return e;
}

static bt_err part(tool_simulate_words *r, tool_simulate_fault *f)
{
    static const char *const verbs[] = {"kill", "stop", "slow"}, *const roles[] = {"prefill", "decode"},
                             *const links[] = {"link"};
    size_t verb = 0, where = 0;
    bt_err e = tool_simulate_one_of(r, &verb, verbs, 3, "kill, stop or slow");
    if (e < 0) return e;
    f->what = (tool_simulate_what)(TOOL_SIMULATE_KILL + verb);
    if (f->what == TOOL_SIMULATE_SLOW) {
        e = tool_simulate_one_of(r, &where, links, 1, "link");
        f->where = TOOL_SIMULATE_LINK;
    } else {
        e = tool_simulate_one_of(r, &where, roles, 2, "prefill or decode");
        f->where = (tool_simulate_where)(TOOL_SIMULATE_PREFILL + where);
    }
    if (e == BT_OK) e = tool_simulate_count(r, &f->number, 0, "", "a number from 0");
    if (e == BT_OK && f->what == TOOL_SIMULATE_SLOW)
        e = tool_simulate_count(r, &f->times, 2, "x", "how much slower, such as 10x,");
    return e == BT_OK ? times(r, f) : e;
}

bt_err tool_simulate_faults_read(tool_simulate_faults *ret, const char *text, bt_fault *fault)
{
    tool_simulate_words r = {.option = "faults", .text = text, .at = text, .fault = fault};
    ret->len = 0;
    for (tool_simulate_look(&r); *r.at; tool_simulate_look(&r)) {
        tool_simulate_fault f = {0};
        if (*r.at == ';') {
            r.at++;
            continue;
        }
        if (ret->len == TOOL_SIMULATE_FAULTS)
            return bt_fail(fault, BT_EARG, "--faults: has more than %d faults", TOOL_SIMULATE_FAULTS);
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
