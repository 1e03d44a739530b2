/* See load.h. */
#include "lab/simulate/load.h"
#include "trace/reader.h"

static bt_err read_rows(tool_replay_plan *p, uint64_t *ret_bad, const tool_simulate_load *l, bt_fault *fault)
{
    const bt_trace_options how = {.format = (bt_trace_format)l->format, .skips_bad = l->skips_bad};
    bt_trace *t = NULL;
    bt_fault why = {""};
    bt_trace_row row;
    bool is_end = false;
    bt_err e = bt_trace_open(&t, l->trace, &how, fault);
    if (e < 0) return e;
    while (e == BT_OK && !(l->limit && p->len == l->limit)) {
        e = bt_trace_next(&row, &is_end, t, &why);
        if (is_end) break;
        if (e == BT_OK) e = tool_replay_plan_add(p, &row, &l->how, &why);
    }
    *ret_bad = bt_trace_look(t).bad;
    if (e < 0) e = bt_fail(fault, e, "'%.100s', %.160s", l->trace, why.text);
    bt_trace_close(t);
    return e;
}

bt_err tool_simulate_load_read(tool_replay_plan *ret, uint64_t *ret_bad, const tool_simulate_load *l,
                               bt_fault *fault)
{
    enum { SYNTHETIC_REQUESTS = 200 };
    bt_err e = tool_replay_plan_begin(ret, fault);
    *ret_bad = 0;
    if (e == BT_OK && l->trace) e = read_rows(ret, ret_bad, l, fault);
    else if (e == BT_OK)
        e = tool_replay_synthetic_draw(ret, l->synthetic, l->limit ? l->limit : SYNTHETIC_REQUESTS,
                                       l->how.seed, fault);
    return e == BT_OK ? tool_replay_plan_end(ret, &l->how, fault) : e;
}
