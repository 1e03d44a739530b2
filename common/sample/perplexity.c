/* Sums for perplexity and for comparing logits; the plan in the header decides what is scored. */
#include "sample/perplexity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bt_perplexity_diff {
    size_t max_rows, rows, same_top;
    double *kl;
};

bt_err bt_perplexity_plan_make(bt_perplexity_plan *ret, size_t text_tokens, size_t ctx_tokens,
                               size_t max_windows, bt_fault *fault)
{
    if (ctx_tokens < 4)
        return bt_fail(fault, BT_EARG, "windows of %zu tokens; at least 4 are needed", ctx_tokens);
    if (text_tokens < ctx_tokens)
        return bt_fail(fault, BT_EARG, "the text has %zu tokens, less than one window of %zu", text_tokens,
                       ctx_tokens);
    const size_t all = text_tokens / ctx_tokens;
    *ret = (bt_perplexity_plan){.ctx_tokens = ctx_tokens,
                                .windows = max_windows && max_windows < all ? max_windows : all,
                                .first_scored = ctx_tokens / 2, .last_scored = ctx_tokens - 2};
    return BT_OK;
}

void bt_perplexity_window(int32_t *ids, const bt_perplexity_plan *p, const int32_t *text, size_t window,
                          int32_t bos)
{
    memcpy(ids, text + window * p->ctx_tokens, p->ctx_tokens * sizeof *ids);
    if (bos >= 0) ids[0] = bos;
}

static double log_sum_exp(const float *z, size_t n)
{
    double max = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        if ((double)z[i] > max) max = (double)z[i];
    for (size_t i = 0; i < n; i++) sum += exp((double)z[i] - max);
    return max + log(sum); /* cppcheck-suppress invalidFunctionArg ; n > 0, so that the sum is at least 1 */
}

double bt_perplexity_nll(const float *logits, size_t vocab, int32_t target)
{
    return log_sum_exp(logits, vocab) - (double)logits[target];
}

void bt_perplexity_add(bt_perplexity *p, double nll)
{
    p->nll_sum += nll;
    p->nll_square_sum += nll * nll;
    p->tokens++;
}

double bt_perplexity_value(const bt_perplexity *p) { return exp(p->nll_sum / (double)p->tokens); }

double bt_perplexity_error(const bt_perplexity *p)
{
    const double n = (double)p->tokens, mean = p->nll_sum / n, variance = p->nll_square_sum / n - mean * mean;
    return p->tokens < 2 ? NAN : exp(mean) * sqrt((variance > 0 ? variance : 0) / (n - 1));
}

bt_err bt_perplexity_diff_new(bt_perplexity_diff **ret, size_t max_rows, bt_fault *fault)
{
    bt_perplexity_diff *d = calloc(1, sizeof *d);
    if (d) {
        d->max_rows = max_rows;
        d->kl = calloc(max_rows ? max_rows : 1, sizeof *d->kl);
    }
    if (!d || !d->kl) {
        bt_perplexity_diff_free(d);
        return bt_fail(fault, BT_ENOMEM, "out of memory comparing %zu rows", max_rows);
    }
    *ret = d;
    return BT_OK;
}

void bt_perplexity_diff_free(bt_perplexity_diff *d)
{
    if (d) free(d->kl);
    free(d);
}

static size_t top(const float *z, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (z[i] > z[best]) best = i;
    return best;
}

bt_err bt_perplexity_diff_add(bt_perplexity_diff *d, const float *base, const float *other, size_t vocab,
                              bt_fault *fault)
{
    if (d->rows == d->max_rows)
        return bt_fail(fault, BT_ELIMIT, "more than the %zu rows announced", d->max_rows);
    const double lb = log_sum_exp(base, vocab), lo = log_sum_exp(other, vocab);
    double kl = 0;
    for (size_t i = 0; i < vocab; i++) {
        const double p = (double)base[i] - lb, q = (double)other[i] - lo;
        kl += exp(p) * (p - q);
    }
    d->kl[d->rows++] = kl < 0 ? 0 : kl; /* below 0 only by rounding */
    d->same_top += top(base, vocab) == top(other, vocab);
    return BT_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bt_perplexity_diff_result bt_perplexity_diff_end(bt_perplexity_diff *d)
{
    bt_perplexity_diff_result r = {0};
    if (d->rows == 0) return r;
    qsort(d->kl, d->rows, sizeof *d->kl, by_value);
    for (size_t i = 0; i < d->rows; i++) r.kl_mean += d->kl[i];
    r.kl_mean /= (double)d->rows;
    r.kl_p99 = d->kl[(d->rows * 99 + 99) / 100 - 1];
    r.kl_max = d->kl[d->rows - 1];
    r.top1_ratio = (double)d->same_top / (double)d->rows;
    r.rows = d->rows;
    return r;
}
