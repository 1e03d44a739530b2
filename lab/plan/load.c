/* Requests are kept one by one, because they queue in the order in which they came; all else is by length. */
#include "lab/plan/load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bt_err tool_plan_load_add(tool_plan_load *l, const tool_plan_request *r, bt_fault *fault)
{
    if (l->n == l->room) {
        const size_t room = l->room ? 2 * l->room : 1024;
        tool_plan_request *more = reallocarray(l->at, room, sizeof *more);
        if (!more) return bt_fail(fault, BT_ENOMEM, "out of memory reading a trace of %zu requests", l->n);
        l->at = more;
        l->room = room;
    }
    l->at[l->n++] = *r;
    return BT_OK;
}

static uint64_t length_of(const tool_plan_request *r) { return (uint64_t)r->input + r->output; }

uint64_t tool_plan_load_longest(const tool_plan_load *l)
{
    uint64_t most = 0;
    for (size_t i = 0; i < l->n; i++)
        if (length_of(&l->at[i]) > most) most = length_of(&l->at[i]);
    return most;
}

static int by_arrival(const void *a, const void *b)
{
    const tool_plan_request *x = a, *y = b;
    if (x->arrival_us != y->arrival_us) return x->arrival_us < y->arrival_us ? -1 : 1;
    if (x->input != y->input) return x->input < y->input ? -1 : 1;
    return (x->output > y->output) - (x->output < y->output);
}

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void leave_out(tool_plan_load *l, uint64_t ctx_tokens)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++)
        if (length_of(&l->at[i]) <= ctx_tokens) l->at[kept++] = l->at[i];
    l->too_long = l->n - kept;
    l->n = kept;
}

static void sum_up(tool_plan_load *l)
{
    double seen = 0;
    for (size_t i = 0; i < l->n; i++) {
        const tool_plan_request *r = &l->at[i];
        const uint64_t steps = r->output > 1 ? r->output - 1 : 0;
        l->input_tokens += r->input;
        l->steps += steps;
        seen += (double)steps * (double)r->input + (double)steps * ((double)steps + 1) / 2;
        if (length_of(r) > l->longest) l->longest = length_of(r);
    }
    l->step_ctx = l->steps ? (uint64_t)ceil(seen / (double)l->steps) : 0;
}

static void find_lengths(tool_plan_load *l)
{
    for (size_t i = 0; i < l->n; i++) l->length[i] = l->at[i].input;
    qsort(l->length, l->n, sizeof *l->length, by_value);
    for (size_t i = 0; i < l->n; i++) {
        if (!l->lengths || l->length[l->lengths - 1] != l->length[i]) l->length[l->lengths++] = l->length[i];
        l->count[l->lengths - 1]++;
    }
    for (size_t i = 0; i < l->n; i++) {
        const uint32_t *found = bsearch(&l->at[i].input, l->length, l->lengths, sizeof *l->length, by_value);
        l->of[i] = (uint32_t)(found - l->length);
    }
}

/* Arrivals that are years apart, and slower still, stay a number. */
static int64_t slower(int64_t us, double speed)
{
    const double at = (double)us / speed;
    return at < (double)((int64_t)1 << 62) ? (int64_t)at : (int64_t)1 << 62;
}

bt_err tool_plan_load_end(tool_plan_load *l, uint64_t ctx_tokens, double speed, bt_fault *fault)
{
    const size_t all = l->n;
    const uint64_t most = tool_plan_load_longest(l);
    leave_out(l, ctx_tokens);
    if (!l->n)
        return bt_fail(fault, BT_EARG,
                       all ? "none of %zu requests fits a context of %llu tokens; the longest has %llu"
                           : "the trace has no request",
                       all, (unsigned long long)ctx_tokens, (unsigned long long)most);
    qsort(l->at, l->n, sizeof *l->at, by_arrival);
    const int64_t first = l->at[0].arrival_us;
    for (size_t i = 0; i < l->n; i++) l->at[i].arrival_us = slower(l->at[i].arrival_us - first, speed);
    l->span_s = (double)l->at[l->n - 1].arrival_us / 1e6;
    if (!(l->span_s > 0)) l->has_arrivals = false;
    l->length = calloc(l->n, sizeof *l->length);
    l->count = calloc(l->n, sizeof *l->count);
    l->of = calloc(l->n, sizeof *l->of);
    if (!l->length || !l->count || !l->of)
        return bt_fail(fault, BT_ENOMEM, "out of memory planning for %zu requests", l->n);
    find_lengths(l);
    sum_up(l);
    return BT_OK;
}

void tool_plan_load_done(tool_plan_load *l)
{
    free(l->at);
    free(l->length);
    free(l->count);
    free(l->of);
    *l = (tool_plan_load){0};
}

typedef struct weighted {
    uint64_t value, count;
} weighted;

static int by_weighted(const void *a, const void *b)
{
    const uint64_t x = ((const weighted *)a)->value, y = ((const weighted *)b)->value;
    return (x > y) - (x < y);
}

uint64_t tool_plan_load_at(const tool_plan_load *l, const uint64_t *v, double share)
{
    weighted *w = malloc(l->lengths * sizeof *w);
    uint64_t rank = (uint64_t)ceil((double)l->n * share), value = 0;
    if (!w) return 0;
    for (size_t i = 0; i < l->lengths; i++) w[i] = (weighted){v[i], l->count[i]};
    qsort(w, l->lengths, sizeof *w, by_weighted);
    for (size_t i = 0; i < l->lengths; i++) {
        value = w[i].value;
        if (rank <= w[i].count) break;
        rank -= w[i].count;
    }
    free(w);
    return value;
}
