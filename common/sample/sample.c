/* Sampling as defined in the header. The full order comes from a radix sort, whose cost does not depend on
 * the logits. */
#include "sample/sample.h"

#include "base/rng.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, PASSES = 3, MAX_VOCAB = 1 << 20 };

typedef struct cell {
    uint32_t key;
    int32_t id;
} cell;

struct bt_sample {
    size_t vocab;
    cell *a, *b;
};

bt_err bt_sample_params_check(const bt_sample_params *p, bt_fault *fault)
{
    if (!(p->temperature >= 0.0f && p->temperature <= BT_SAMPLE_MAX_TEMPERATURE))
        return bt_fail(fault, BT_EARG, "temperature is %g; 0 to %g is allowed", (double)p->temperature,
                       (double)BT_SAMPLE_MAX_TEMPERATURE);
    if (!(p->top_p >= 0.0f && p->top_p <= 1.0f))
        return bt_fail(fault, BT_EARG, "top_p is %g; 0 to 1 is allowed", (double)p->top_p);
    if (!(p->min_p >= 0.0f && p->min_p <= 1.0f))
        return bt_fail(fault, BT_EARG, "min_p is %g; 0 to 1 is allowed", (double)p->min_p);
    return BT_OK;
}

bt_err bt_sample_new(bt_sample **ret, size_t vocab, bt_fault *fault)
{
    if (vocab == 0 || vocab > MAX_VOCAB)
        return bt_fail(fault, BT_EARG, "a vocabulary of %zu; 1 to %d is allowed", vocab, MAX_VOCAB);
    bt_sample *s = calloc(1, sizeof *s);
    if (s) {
        s->vocab = vocab;
        s->a = calloc(vocab, sizeof *s->a);
        s->b = calloc(vocab, sizeof *s->b);
    }
    if (!s || !s->a || !s->b) {
        bt_sample_free(s);
        return bt_fail(fault, BT_ENOMEM, "out of memory for sampling from %zu tokens", vocab);
    }
    *ret = s;
    return BT_OK;
}

void bt_sample_free(bt_sample *s)
{
    if (!s) return;
    free(s->a);
    free(s->b);
    free(s);
}

/* Ascending keys are descending logits; -0 counts as +0. */
static uint32_t key_of(float z)
{
    uint32_t u;
    z += 0.0f;
    memcpy(&u, &z, sizeof u);
    return u & 0x80000000u ? u : ~u & 0x7fffffffu;
}

/* Sorts s->a by key; stable, so equal keys stay in ascending id. */
static void sort_cells(bt_sample *s)
{
    uint32_t start[PASSES][DIGITS] = {0};
    for (size_t i = 0; i < s->vocab; i++)
        for (int p = 0; p < PASSES; p++) start[p][s->a[i].key >> (p * DIGIT_BITS) & (DIGITS - 1)]++;
    for (int p = 0; p < PASSES; p++) {
        uint32_t sum = 0;
        for (int d = 0; d < DIGITS; d++) {
            const uint32_t n = start[p][d];
            start[p][d] = sum;
            sum += n;
        }
        for (size_t i = 0; i < s->vocab; i++)
            s->b[start[p][s->a[i].key >> (p * DIGIT_BITS) & (DIGITS - 1)]++] = s->a[i];
        cell *t = s->a;
        s->a = s->b;
        s->b = t;
    }
}

/* Steps 2 to 4: how many of the sorted tokens stay. */
static size_t keep(const bt_sample *s, const bt_sample_params *p, const float *z)
{
    size_t n = p->top_k && p->top_k < s->vocab ? p->top_k : s->vocab;
    const float z0 = z[s->a[0].id];
    if (p->top_p < 1.0f) {
        double all = 0, sum = 0;
        for (size_t i = 0; i < n; i++) all += (double)bt_exp1(z[s->a[i].id] - z0);
        const double want = (double)p->top_p * all;
        size_t i = 0;
        do {
            sum += (double)bt_exp1(z[s->a[i].id] - z0);
            i++;
        } while (i < n && sum < want);
        n = i;
    }
    if (p->min_p > 0.0f)
        while (n > 1 && bt_exp1(z[s->a[n - 1].id] - z0) < p->min_p) n--;
    return n;
}

static int32_t draw(const bt_sample *s, const bt_sample_params *p, const float *z, size_t n,
                    uint64_t token_index)
{
    const float z0 = z[s->a[0].id];
    double all = 0, sum = 0;
    for (size_t i = 0; i < n; i++) all += (double)bt_exp1((z[s->a[i].id] - z0) / p->temperature);
    const double want = bt_rng_uniform(p->seed, token_index) * all;
    for (size_t i = 0; i < n; i++) {
        sum += (double)bt_exp1((z[s->a[i].id] - z0) / p->temperature);
        if (sum > want) return s->a[i].id;
    }
    return s->a[0].id; /* not reached: want < all, and the two sums are the same additions */
}

bt_err bt_sample_token(int32_t *ret_id, bt_sample *s, const bt_sample_params *p, const float *logits,
                       uint64_t token_index, bt_fault *fault)
{
    size_t best = 0;
    for (size_t i = 0; i < s->vocab; i++) {
        if (!isfinite(logits[i]))
            return bt_fail(fault, BT_EFORMAT, "the logit of token %zu is not finite", i);
        if (logits[i] > logits[best]) best = i;
    }
    if (p->temperature == 0.0f) {
        *ret_id = (int32_t)best;
        return BT_OK;
    }
    for (size_t i = 0; i < s->vocab; i++) s->a[i] = (cell){key_of(logits[i]), (int32_t)i};
    sort_cells(s);
    *ret_id = draw(s, p, logits, keep(s, p, logits), token_index);
    return BT_OK;
}
