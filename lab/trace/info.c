/* Statistics of a trace as JSON and as lines. A figure that the trace has no grounds for is null, and has no
 * line. */
#include "lab/trace/info.h"
#include "tools/tool.h"

#include <stdio.h>

static json_t *number(double v) { return v < 0 ? json_null() : json_real(v); }

static json_t *spread(const bt_trace_hist *h, double unit)
{
    if (h->n == 0) return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "mean", bt_trace_hist_mean(h) * unit, "p50",
                     (double)bt_trace_hist_at(h, 0.5) * unit, "p90", (double)bt_trace_hist_at(h, 0.9) * unit,
                     "p99", (double)bt_trace_hist_at(h, 0.99) * unit, "max", (double)h->largest * unit, "sum",
                     h->sum * unit);
}

static json_t *tokens(const bt_trace_hist *h)
{
    if (h->n == 0) return json_null();
    return json_pack("{s:f, s:I, s:I, s:I, s:I, s:I, s:f}", "mean", bt_trace_hist_mean(h), "p50",
                     (json_int_t)bt_trace_hist_at(h, 0.5), "p90", (json_int_t)bt_trace_hist_at(h, 0.9), "p99",
                     (json_int_t)bt_trace_hist_at(h, 0.99), "min", (json_int_t)h->least, "max",
                     (json_int_t)h->largest, "sum", h->sum);
}

static double rate(const bt_trace_stats *s)
{
    const double span = bt_trace_stats_span_s(s);
    return span > 0 ? (double)s->arrivals / span : -1;
}

json_t *tool_trace_info_json(const bt_trace_stats *s, const bt_trace_facts *f)
{
    const uint32_t block = bt_trace_stats_block(s);
    json_t *o = json_pack("{s:s, s:I, s:I, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I}",
                          "format", bt_trace_format_names[f->format], "requests", (json_int_t)s->requests,
                          "bad_rows", (json_int_t)f->bad, "span_seconds", bt_trace_stats_span_s(s),
                          "requests_per_second", number(rate(s)), "input_tokens", tokens(&s->input),
                          "output_tokens", tokens(&s->output), "interarrival_seconds",
                          spread(&s->gap_us, 1e-6), "interarrival_cv", number(bt_trace_stats_gap_cv(s)),
                          "ideal_prefix_hit_ratio", number(bt_trace_stats_hit_ratio(s)), "block_tokens",
                          block ? json_integer(block) : json_null(), "prefix_blocks", (json_int_t)s->blocks,
                          "prefix_hit_blocks", (json_int_t)s->hit_blocks, "failed", (json_int_t)s->failed,
                          "sessions", (json_int_t)s->sessions, "out_of_order", (json_int_t)s->out_of_order);
    if (!o || f->format != BT_TRACE_BATON) return o;
    json_t *outcomes = json_object();
    for (size_t i = 0; i < BT_TRACE_OUTCOMES; i++)
        if (s->outcome[i])
            json_object_set_new(outcomes, bt_trace_outcome_names[i], json_integer((json_int_t)s->outcome[i]));
    json_object_set_new(o, "outcomes", outcomes);
    json_object_set_new(o, "ttft_ms", spread(&s->ttft_us, 1e-3));
    json_object_set_new(o, "e2e_ms", spread(&s->total_us, 1e-3));
    json_object_set_new(o, "starts", json_integer((json_int_t)f->starts));
    json_object_set_new(o, "dropped", json_integer((json_int_t)f->dropped));
    json_object_set_new(o, "torn_bytes", json_integer((json_int_t)f->torn_bytes));
    return o;
}

static void print_row(const char *name, const bt_trace_hist *h, double unit, int decimals)
{
    if (h->n == 0) return;
    printf("%-14s %12.*f %12.*f %12.*f %12.*f %12.*f\n", name, decimals ? decimals : 1,
           bt_trace_hist_mean(h) * unit, decimals, (double)bt_trace_hist_at(h, 0.5) * unit, decimals,
           (double)bt_trace_hist_at(h, 0.9) * unit, decimals, (double)bt_trace_hist_at(h, 0.99) * unit,
           decimals, (double)h->largest * unit);
}

static void print_prefixes(const bt_trace_stats *s)
{
    const uint32_t block = bt_trace_stats_block(s);
    if (!s->blocks) return;
    printf("prefixes       ");
    if (s->is_over_limit) printf("more ids than are counted");
    else
        printf("%.1f%% of %llu blocks come again", 100 * bt_trace_stats_hit_ratio(s),
               (unsigned long long)s->blocks);
    if (block) printf(", of %u tokens", block);
    printf("\n");
}

void tool_trace_info_print(const bt_trace_stats *s, const bt_trace_facts *f)
{
    printf("%s trace, %llu requests", bt_trace_format_names[f->format], (unsigned long long)s->requests);
    if (s->arrivals) printf(" in %.0f s", bt_trace_stats_span_s(s));
    if (rate(s) > 0) printf(", %.3g a second", rate(s));
    if (s->failed) printf(", %llu of them failed", (unsigned long long)s->failed);
    if (s->sessions) printf(", %llu sessions", (unsigned long long)s->sessions);
    printf("\n\n%-14s %12s %12s %12s %12s %12s\n", "", "mean", "p50", "p90", "p99", "max");
    print_row("prompt tokens", &s->input, 1, 0);
    print_row("answer tokens", &s->output, 1, 0);
    print_row("gap, s", &s->gap_us, 1e-6, 3);
    print_row("TTFT, ms", &s->ttft_us, 1e-3, 1);
    print_row("all, ms", &s->total_us, 1e-3, 1);
    printf("\n");
    if (bt_trace_stats_gap_cv(s) >= 0)
        printf("arrivals       variation of gaps %.3g (1: Poisson)%s\n", bt_trace_stats_gap_cv(s),
               s->out_of_order ? "; some are out of order" : "");
    print_prefixes(s);
    if (f->format != BT_TRACE_BATON) return;
    printf("outcomes      ");
    for (size_t i = 0; i < BT_TRACE_OUTCOMES; i++)
        if (s->outcome[i]) printf(" %s %llu", bt_trace_outcome_names[i], (unsigned long long)s->outcome[i]);
    printf("\nrecorded       %llu times begun, %llu requests dropped\n", (unsigned long long)f->starts,
           (unsigned long long)f->dropped);
}

bt_err tool_trace_rates(tool_trace_source *s, const char *path, bool is_json, bt_fault *fault)
{
    bt_trace_rate r;
    bool is_end;
    bt_fault why = {""};
    uint64_t windows = 0, busy = 0;
    double requests = 0, highest = 0, end_s = 0;
    bt_err e;
    while ((e = bt_trace_next_rate(&r, &is_end, s->t, &why)) == BT_OK && !is_end) {
        windows++;
        end_s = r.end_s;
        if (r.family == BT_TRACE_NO_GAPS) continue;
        busy++;
        requests += r.rate * (r.end_s - r.start_s);
        if (r.rate > highest) highest = r.rate;
    }
    if (e < 0) return bt_fail(fault, e, "'%.60s', %.180s", path, why.text);
    const bt_trace_facts f = bt_trace_look(s->t);
    if (!is_json) {
        printf("servegen rates, %llu windows to %.0f s, %llu with requests: about %.0f requests, at most "
               "%.3g a second\n",
               (unsigned long long)windows, end_s, (unsigned long long)busy, requests, highest);
        return BT_OK;
    }
    json_t *o =
        json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f}", "format", "servegen", "windows", (json_int_t)windows,
                  "busy_windows", (json_int_t)busy, "bad_rows", (json_int_t)f.bad, "span_seconds", end_s,
                  "expected_requests", requests, "requests_per_second_max", highest);
    return tool_print_json("trace", o) ? BT_EIO : BT_OK;
}
