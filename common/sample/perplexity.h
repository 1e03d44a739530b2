#ifndef BT_SAMPLE_PERPLEXITY_H
#define BT_SAMPLE_PERPLEXITY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Perplexity as llama-perplexity defines it, and the comparison of two engines' logits. Pure accumulation:
 * the caller runs the model.
 *
 * The ids of the whole text (with the BOS that the tokeniser adds in front, if it does) are cut into windows of ctx
 * tokens without overlap; a rest shorter than ctx is not used. Where the tokeniser adds BOS, BOS replaces the first
 * token of every window. Positions ctx/2 .. ctx-2 of each window are scored: their logits against the token that
 * follows. */
typedef struct bt_perplexity_plan {
    size_t ctx_tokens, windows, first_scored, last_scored;
} bt_perplexity_plan;

/* BT_EARG: ctx_tokens below 4, or a text shorter than one window (both numbers). max_windows 0: all. */
bt_err bt_perplexity_plan_make(bt_perplexity_plan *ret, size_t text_tokens, size_t ctx_tokens, size_t max_windows,
                               bt_fault *fault);
/* ids[ctx_tokens] of one window; bos < 0: the tokeniser adds none. */
void bt_perplexity_window(int32_t *ids, const bt_perplexity_plan *p, const int32_t *text, size_t window, int32_t bos);

/* -log softmax(logits)[target], in double; logits[vocab], 0 <= target < vocab. NaN where a logit is NaN. */
double bt_perplexity_nll(const float *logits, size_t vocab, int32_t target);

typedef struct bt_perplexity {
    double nll_sum, nll_square_sum;
    uint64_t tokens;
} bt_perplexity; /* start from zeros */
void bt_perplexity_add(bt_perplexity *p, double nll);
double bt_perplexity_value(const bt_perplexity *p); /* exp of the mean; 0 tokens give NaN */
double bt_perplexity_error(const bt_perplexity *p); /* standard error of the value; NaN below 2 tokens */

/* Another engine's logits against a base's, row by row: KL(base || other), and whether both have the same
 * first token. */
typedef struct bt_perplexity_diff bt_perplexity_diff;
typedef struct bt_perplexity_diff_result {
    double kl_mean, kl_p99, kl_max, top1_ratio;
    uint64_t rows;
} bt_perplexity_diff_result;
bt_err bt_perplexity_diff_new(bt_perplexity_diff **ret, size_t max_rows, bt_fault *fault); /* 8 bytes a row */
void bt_perplexity_diff_free(bt_perplexity_diff *d);                                       /* NULL is fine */
bt_err bt_perplexity_diff_add(bt_perplexity_diff *d, const float *base, const float *other, size_t vocab,
                              bt_fault *fault); /* BT_ELIMIT past max_rows */
/* kl_p99: the smallest row such that 99 % of all rows are not larger. Zeros for no rows. */
bt_perplexity_diff_result bt_perplexity_diff_end(bt_perplexity_diff *d);
#endif
