/* See bench_time.h. */
#include "tools/bench/bench_time.h"
#include "base/clock.h"
#include "base/wait.h"
#include "graph/graph.h"
#include "kv/kv_dtype.h"
#include "tools/tool.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void tool_bench_test_name(char ret[64], const tool_bench_row *r)
{
    int n = snprintf(ret, 64, r->batch > 1 ? "%s%zu x %zu" : "%s%zu", r->prefill ? "pp" : "tg", r->tokens,
                     r->batch);
    if (r->depth) n += snprintf(ret + n, 64 - (size_t)n, " @ %zu", r->depth);
    if (r->schedule && strcmp(r->schedule, bt_engine_schedules[BT_SCHEDULE_SERIAL]))
        snprintf(ret + n, 64 - (size_t)n, " %s", r->schedule);
}

static bool has_integers(const tool_bench_row *r)
{
    return (r->prefill ? bt_engine_prefill(r->engine) : bt_engine_decode(r->engine))->has_integers;
}

double tool_bench_roofline(const tool_bench_row *r, double int8_ops, double fma_flops, double read_bytes,
                           const char **ret_limit)
{
    const bool integers = has_integers(r);
    const double peak = integers ? int8_ops : fma_flops;
    if (r->prefill) {
        const double linear = peak > 0 ? r->linear_ops / peak : 0,
                     attention = fma_flops > 0 ? r->attention_ops / fma_flops : 0;
        *ret_limit = integers && linear > attention ? "int8" : "fp32";
        return peak > 0 && fma_flops > 0 ? linear + attention : 0;
    }
    const double memory = read_bytes > 0 ? r->bytes * (double)r->tokens / read_bytes : 0,
                 compute = peak > 0 ? r->linear_ops / peak : 0;
    *ret_limit = memory > compute ? "read" : integers ? "int8" : "fp32";
    return memory > compute ? memory : compute;
}

/* Multiply-accumulates of the linears for so many rows, one of which gives logits. */
static bt_err linear_macs(double *ret, const bt_model *m, size_t rows, bt_fault *fault)
{
    const bt_bind bind = {
        .value = {[BT_SYM_BATCH] = 1, [BT_SYM_SEQ] = rows, [BT_SYM_CTX] = 0, [BT_SYM_OUT] = 1}};
    bt_graph *g = NULL;
    uint64_t macs = 0;
    bt_err e = bt_graph_build(&g, &m->hp, NULL, fault);
    if (e == BT_OK) e = bt_graph_macs(&macs, g, &bind, fault);
    bt_graph_free(g);
    *ret = (double)macs;
    return e;
}

/* The pairs of a row and a position that it sees, over all layers: n rows behind `depth` positions. */
static double pairs_of(const bt_hparams *hp, size_t depth, size_t n)
{
    double pairs = 0;
    for (uint32_t l = 0; l < hp->layers; l++) {
        const size_t window = bt_hparams_window(hp, l);
        for (size_t i = 1; i <= n; i++) pairs += (double)(window && depth + i > window ? window : depth + i);
    }
    return pairs;
}

/* Operations and bytes of a repetition; a step reads weight_bytes, and rows of elem_bytes. */
static bt_err count(tool_bench_row *r, const tool_bench_setup *s, uint64_t weight_bytes, uint32_t elem_bytes,
                    bt_fault *fault)
{
    const bt_hparams *hp = &s->model->hp;
    const double n = (double)r->tokens, pairs = pairs_of(hp, r->depth, r->tokens) * (double)r->batch;
    double macs;
    const bt_err e = linear_macs(&macs, s->model, r->prefill ? r->tokens : 1, fault);
    if (e < 0) return e;
    r->linear_ops = (r->prefill ? 2 * macs : 2 * macs * n) * (double)r->batch;
    r->attention_ops = 4.0 * hp->heads * hp->head_dim * pairs;
    r->kv = bt_kv_dtype_name(bt_kv_dtype_of(elem_bytes));
    if (r->prefill) return BT_OK;
    r->bytes = (double)weight_bytes +
               2.0 * hp->kv_heads * (double)bt_kv_head_bytes(elem_bytes, hp->head_dim) * pairs / n;
    return BT_OK;
}

/* The job that is repeated: an engine over its sequences. */
typedef struct job {
    bt_prefill *prefill;
    bt_decode *decode;
    tool_sequences rows;
} job;

/* One repetition. */
static bt_err repeat(job *j, const tool_bench_row *r, size_t tokens, bt_fault *fault)
{
    if (r->prefill) return tool_bench_prompt(j->prefill, &j->rows, r->depth, tokens, fault);
    bt_err e = BT_OK;
    for (size_t i = 0; e == BT_OK && i < tokens; i++)
        e = tool_bench_step(j->decode, &j->rows, r->depth + i, fault);
    return e;
}

typedef struct moment {
    double int8_ops, fma_flops, read_bytes;
} moment;

/* Measures only the limits that the row is held against, so that the machine does not cool down and caches
 * stay filled. */
static moment look(const tool_bench_row *r, const tool_machine *m)
{
    const bool integers = has_integers(r);
    return (moment){integers ? tool_peak_once(m, TOOL_INT8) : 0, tool_peak_once(m, TOOL_FP32),
                    r->prefill ? 0 : tool_read_once(m)};
}

static void summarise(tool_bench_row *r, const moment *seen)
{
    double a[TOOL_BENCH_MAX_REPETITIONS], sum = 0, squares = 0;
    const size_t n = r->repetitions;
    const double made = (double)r->tokens * (double)r->batch;
    const char *limit = "";
    for (size_t i = 0; i < n; i++)
        a[i] = r->seconds[i], sum += made / a[i], squares += made / a[i] * (made / a[i]);
    r->rate = made / tool_median(a, n);
    r->deviation = n > 1 ? sqrt(fmax(0, squares - sum * sum / (double)n) / (double)(n - 1)) : 0;
    for (size_t i = 0; i < n; i++)
        a[i] = tool_bench_roofline(r, seen[i].int8_ops, seen[i].fma_flops, seen[i].read_bytes, &limit) /
               r->seconds[i];
    r->ratio = tool_median(a, n);
    r->limit = r->ratio > 0 ? limit : "";
    for (size_t i = 0; i < n; i++) a[i] = seen[i].int8_ops;
    r->int8_ops = tool_median(a, n);
    for (size_t i = 0; i < n; i++) a[i] = seen[i].fma_flops;
    r->fma_flops = tool_median(a, n);
    for (size_t i = 0; i < n; i++) a[i] = seen[i].read_bytes;
    r->read_bytes = tool_median(a, n);
}

/* A step of several rows reads the experts that any of them chose. */
static void count_read(tool_bench_row *r, const bt_decode *d, const bt_decode_stats *before)
{
    const bt_decode_stats now = bt_decode_stats_of(d);
    if (now.steps > before->steps)
        r->bytes += (double)(now.read_bytes - before->read_bytes) / (double)(now.steps - before->steps) -
                    (double)now.weight_bytes;
}

static bt_err time_row(tool_bench_row *r, job *j, const tool_machine *m, bt_fault *fault)
{
    enum { WARM_STEPS = 3 };
    moment seen[TOOL_BENCH_MAX_REPETITIONS];
    char name[64], words[160];
    r->threads = m->threads;
    tool_bench_test_name(name, r);
    snprintf(words, sizeof words, "timing %s, %.48s, %zu thread%s", name, r->weights, r->threads,
             r->threads == 1 ? "" : "s");
    bt_wait_tell(NULL, words, 0, r->repetitions);
    bt_err e = repeat(j, r, r->prefill || r->tokens < WARM_STEPS ? r->tokens : WARM_STEPS, fault);
    const bt_decode_stats warm = j->decode ? bt_decode_stats_of(j->decode) : (bt_decode_stats){0};
    for (size_t i = 0; e == BT_OK && i < r->repetitions; i++) {
        bt_wait_tell(NULL, words, i, r->repetitions);
        const moment before = look(r, m);
        const int64_t begin = bt_clock_us();
        e = repeat(j, r, r->tokens, fault);
        const int64_t us = bt_clock_us() - begin;
        const moment after = look(r, m);
        r->seconds[i] = (double)(us > 0 ? us : 1) * 1e-6;
        seen[i] = (moment){(before.int8_ops + after.int8_ops) / 2, (before.fma_flops + after.fma_flops) / 2,
                           (before.read_bytes + after.read_bytes) / 2};
    }
    bt_wait_end();
    if (e == BT_OK && j->decode) count_read(r, j->decode, &warm);
    if (e == BT_OK) summarise(r, seen);
    return e;
}

static double padding_between(const bt_report_work *before, const bt_report_work *after)
{
    bt_report_work sum = {0};
    bt_report_work_add(&sum, before, after);
    return bt_report_expert_padding(sum.expert_rows, sum.expert_padding_rows);
}

bt_err tool_bench_time_prefill(tool_bench_row *r, bt_prefill *p, const tool_bench_setup *s,
                               const tool_machine *m, bt_fault *fault)
{
    const bt_report_engine about = bt_prefill_about(p);
    const uint32_t elem_bytes = bt_prefill_kv_elem_bytes(p);
    job j = {.prefill = p};
    r->engine = about.name;
    snprintf(r->weights, sizeof r->weights, "%s", about.quant);
    bt_err e =
        tool_sequences_open(&j.rows, s->model, elem_bytes, r->batch, r->depth + r->tokens, r->batch, fault);
    if (e == BT_OK) e = count(r, s, 0, elem_bytes, fault);
    if (e == BT_OK && r->depth) e = tool_bench_prompt(p, &j.rows, 0, r->depth, fault);
    const bt_report_work before = bt_prefill_work(p);
    if (e == BT_OK) e = time_row(r, &j, m, fault);
    const bt_report_work after = bt_prefill_work(p);
    r->expert_padding = padding_between(&before, &after);
    tool_sequences_close(&j.rows);
    return e;
}

bt_err tool_bench_time_decode(tool_bench_row *r, bt_decode *d, const tool_bench_setup *s,
                              const tool_machine *m, bt_fault *fault)
{
    const uint32_t elem_bytes = bt_decode_kv_elem_bytes(d);
    job j = {.decode = d};
    r->engine = bt_decode_name(d);
    r->expert_padding = -1;
    snprintf(r->weights, sizeof r->weights, "%s", bt_decode_quant(d));
    bt_err e =
        tool_sequences_open(&j.rows, s->model, elem_bytes, r->batch, r->depth + r->tokens, r->batch, fault);
    if (e == BT_OK) e = count(r, s, bt_decode_stats_of(d).weight_bytes, elem_bytes, fault);
    if (e == BT_OK && r->depth) e = tool_bench_fill(d, &j.rows, r->depth, fault);
    if (e == BT_OK) e = time_row(r, &j, m, fault);
    tool_sequences_close(&j.rows);
    return e;
}
