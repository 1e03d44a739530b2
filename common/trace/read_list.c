/* The plain forms: a list of prompt lengths, and ServeGen's rates. */
#include "trace/private.h"

#include <string.h>

bt_err bt_trace_list_next(bt_trace_row *ret, bool *is_end, bt_trace *t, bt_fault *fault)
{
    for (;;) {
        while (t->list.at && t->list.at < t->list.end && strchr(" \t,", *t->list.at)) t->list.at++;
        if (t->list.at && t->list.at < t->list.end) break;
        char *line;
        size_t len;
        const bt_err e = bt_trace_input_line(&line, &len, &t->in, fault);
        if (e < 0) return e;
        *is_end = !line;
        if (!line) return BT_OK;
        t->list.at = line;
        t->list.end = line + len;
    }
    const char *to = t->list.at;
    while (to < t->list.end && !(*to && strchr(" \t,", *to))) to++;
    const size_t n = (size_t)(to - t->list.at);
    *ret = (bt_trace_row){.line = t->in.line};
    *is_end = false;
    const bool is_quoted = n > 2 && *t->list.at == '"' && to[-1] == '"';
    const bt_err e = bt_trace_tokens(&ret->input_tokens, (bt_trace_place){t->in.line, "length"},
                                     t->list.at + is_quoted, n - 2 * is_quoted, fault);
    t->list.at = to;
    return e;
}

static bt_err take_family(bt_trace_rate *r, bt_trace_place at, const char *text, size_t len, bt_fault *fault)
{
    if (len == 0) r->family = BT_TRACE_NO_GAPS;
    else if (len == 7 && memcmp(text, "Weibull", 7) == 0) r->family = BT_TRACE_WEIBULL;
    else if (len == 5 && memcmp(text, "Gamma", 5) == 0) r->family = BT_TRACE_GAMMA;
    else return bt_trace_bad(fault, at, text, len, "is neither Weibull nor Gamma nor empty");
    return BT_OK;
}

bt_err bt_trace_rate_line(bt_trace_rate *ret, bool *is_end, bt_trace *t, bt_fault *fault)
{
    static const char *const names[] = {"time", "rate", "cv", "family", "shape", "scale"};
    bt_trace_rate r = {.end_s = 0};
    double *const into[] = {&r.start_s, &r.rate, &r.cv, NULL, &r.shape, &r.scale};
    char *line;
    size_t len, i = 0;
    bt_trace_cell c;
    bt_err e = bt_trace_input_line(&line, &len, &t->in, fault);
    if (e < 0) return e;
    *is_end = !line;
    if (!line) return BT_OK;
    const char *at = line;
    for (; e == BT_OK && i < 6 && bt_trace_cell_next(&c, &at, line + len); i++) {
        const bt_trace_place place = {t->in.line, names[i]};
        e = into[i] ? bt_trace_real(into[i], place, c.text, c.len, fault)
                    : take_family(&r, place, c.text, c.len, fault);
    }
    if (e < 0) return e;
    if (i != 6 || at)
        return bt_fail(fault, BT_EFORMAT,
                       "line %llu: must have the six columns time,rate,cv,family,shape,scale",
                       (unsigned long long)t->in.line);
    if (r.family != BT_TRACE_NO_GAPS && (r.shape < 1e-3 || r.shape > 1e9))
        return bt_fail(fault, BT_EFORMAT, "line %llu, column 'shape': %g is not from 0.001 to 1e9",
                       (unsigned long long)t->in.line, r.shape);
    *ret = r;
    return BT_OK;
}
