/* Sampling as defined in the header. The full order comes from a radix sort, whose cost does not depend on
 * the logits. */
#include "sample/sample.h"

#include "base/rng.h"
#include "kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, PASSES = 3, MAX_VOCAB = 1 << 20 };

typedef struct cell {
    uint32_t key;
    int32_t id;
} cell;

/* A call's notes on an id: valid only where `call` is the call's own number, so nothing is ever cleared. */
typedef struct mark {
    uint32_t call, count;
} mark;

struct bt_sample {
    size_t vocab;
    cell *a, *b;
    float *z; /* logits after penalties and bias */
    mark *seen;
    uint32_t call;
};

static bt_err check_range(const char *name, float v, float lo, float hi, bt_fault *fault)
{
    if (v >= lo && v <= hi) return BT_OK;
    return bt_fail(fault, BT_EARG, "%s is %g; %g to %g is allowed", name, (double)v, (double)lo, (double)hi);
}

static bt_err check_bias(const bt_sample_params *p, bt_fault *fault)
{
    if (p->bias_len > BT_SAMPLE_MAX_BIAS)
        return bt_fail(fault, BT_EARG, "logit_bias has %u entries; at most %d are allowed", p->bias_len,
                       BT_SAMPLE_MAX_BIAS);
    for (uint32_t i = 0; i < p->bias_len; i++) {
        if (p->bias[i].id < 0)
            return bt_fail(fault, BT_EARG, "logit_bias names token %d; it must not be negative",
                           p->bias[i].id);
        if (i > 0 && p->bias[i].id <= p->bias[i - 1].id)
            return bt_fail(fault, BT_EARG, "logit_bias names token %d after token %d; ids must rise",
                           p->bias[i].id, p->bias[i - 1].id);
        bt_err e = check_range("logit_bias", p->bias[i].bias, -100.0f, 100.0f, fault);
        if (e < 0) return e;
    }
    return BT_OK;
}

bt_err bt_sample_params_check(const bt_sample_params *p, bt_fault *fault)
{
    bt_err e = check_range("temperature", p->temperature, 0.0f, BT_SAMPLE_MAX_TEMPERATURE, fault);
    if (e == BT_OK) e = check_range("top_p", p->top_p, 0.0f, 1.0f, fault);
    if (e == BT_OK) e = check_range("min_p", p->min_p, 0.0f, 1.0f, fault);
    if (e == BT_OK && p->repetition_penalty != 0.0f)
        e = check_range("repetition_penalty", p->repetition_penalty, 0.01f, 100.0f, fault);
    if (e == BT_OK) e = check_range("presence_penalty", p->presence_penalty, -2.0f, 2.0f, fault);
    if (e == BT_OK) e = check_range("frequency_penalty", p->frequency_penalty, -2.0f, 2.0f, fault);
    if (e < 0) return e;
    if (p->top_logprobs > (p->logprobs ? (uint32_t)BT_SAMPLE_MAX_TOP : 0u))
        return bt_fail(fault, BT_EARG, "top_logprobs is %u; 0 to %d is allowed%s", p->top_logprobs,
                       BT_SAMPLE_MAX_TOP, p->logprobs ? "" : ", and only with logprobs");
    return check_bias(p, fault);
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
        s->z = calloc(vocab, sizeof *s->z);
        s->seen = calloc(vocab, sizeof *s->seen);
    }
    if (!s || !s->a || !s->b || !s->z || !s->seen) {
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
    free(s->z);
    free(s->seen);
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

/* Step 0. Each id of the history is met once, in s->b, which sorting does not need yet. */
static void note(bt_sample *s, size_t *ids, const int32_t *from, size_t n, uint32_t add)
{
    for (size_t i = 0; i < n; i++) {
        if (from[i] < 0 || (size_t)from[i] >= s->vocab) continue;
        mark *m = &s->seen[from[i]];
        if (m->call != s->call) {
            *m = (mark){s->call, 0};
            s->b[(*ids)++].id = from[i];
        }
        m->count += add;
    }
}

static float into_range(float z) { return z > FLT_MAX ? FLT_MAX : z < -FLT_MAX ? -FLT_MAX : z; }

static void penalise(bt_sample *s, const bt_sample_params *p, const bt_sample_history *h, bool repetition)
{
    if (++s->call == 0) { /* marks of 2^32 calls ago would look new */
        memset(s->seen, 0, s->vocab * sizeof *s->seen);
        s->call = 1;
    }
    size_t ids = 0;
    note(s, &ids, h->generated, h->generated_len, 1);
    if (repetition) note(s, &ids, h->prompt, h->prompt_len, 0);
    for (size_t i = 0; i < ids; i++) {
        const int32_t id = s->b[i].id;
        float z = s->z[id];
        if (repetition) z = z > 0.0f ? z / p->repetition_penalty : z * p->repetition_penalty;
        if (s->seen[id].count)
            z = (z - (float)s->seen[id].count * p->frequency_penalty) - p->presence_penalty;
        s->z[id] = into_range(z);
    }
}

/* The logits to choose from: those given where nothing changes them, else s->z. */
static const float *adjust(bt_sample *s, const bt_sample_params *p, const float *logits,
                           const bt_sample_history *h)
{
    const bool repetition = p->repetition_penalty != 0.0f && p->repetition_penalty != 1.0f;
    const bool penalties = repetition || p->presence_penalty != 0.0f || p->frequency_penalty != 0.0f;
    if (!penalties && p->bias_len == 0) return logits;
    memcpy(s->z, logits, s->vocab * sizeof *s->z);
    if (penalties) penalise(s, p, h, repetition);
    for (uint32_t i = 0; i < p->bias_len; i++)
        if ((size_t)p->bias[i].id < s->vocab) {
            float *z = &s->z[p->bias[i].id];
            *z = into_range(*z + p->bias[i].bias);
        }
    return s->z;
}

/* ln of x >= 1, by additions, multiplications and divisions in one order, so that it is the same on every
 * machine: x = m 2^e, m in [1/sqrt 2, sqrt 2), ln m = 2 atanh((m - 1) / (m + 1)) by its series. The error is
 * a few units in the last place of a double. */
static double ln(double x)
{
    int e = 0;
    while (x >= 1.4142135623730951) {
        x *= 0.5;
        e++;
    }
    const double t = (x - 1.0) / (x + 1.0), tt = t * t;
    double sum = 0;
    for (int k = 25; k >= 1; k -= 2) sum = sum * tt + 1.0 / k;
    return (double)e * 0.69314718055994531 + 2.0 * t * sum;
}

uint32_t bt_sample_top(int32_t *ids, uint32_t top, const float *logits, size_t vocab)
{
    uint32_t len = 0;
    for (size_t i = 0; i < vocab && top > 0; i++) {
        uint32_t at = len;
        if (at == top && logits[i] <= logits[ids[at - 1]]) continue;
        if (at == top) at--;
        else len++;
        for (; at > 0 && logits[i] > logits[ids[at - 1]]; at--) ids[at] = ids[at - 1];
        ids[at] = (int32_t)i;
    }
    return len;
}

/* As in the header; `best` has the highest logit. */
static void find_logprobs(bt_sample_logprob *ret, const bt_sample *s, uint32_t top, const float *logits,
                          size_t best, int32_t id)
{
    const float zm = logits[best];
    double sum = 0;
    for (size_t i = 0; i < s->vocab; i++) sum += (double)bt_exp1(logits[i] - zm);
    const double log_sum = ln(sum);
    ret->top_len = bt_sample_top(ret->top_ids, top, logits, s->vocab);
    for (uint32_t i = 0; i < ret->top_len; i++) {
        const double l = ((double)logits[ret->top_ids[i]] - (double)zm) - log_sum;
        ret->top[i] = l < -(double)FLT_MAX ? -FLT_MAX : (float)l;
    }
    const double l = ((double)logits[id] - (double)zm) - log_sum;
    ret->own = l < -(double)FLT_MAX ? -FLT_MAX : (float)l;
}

bt_err bt_sample_token(int32_t *ret_id, bt_sample_logprob *ret_logprob, bt_sample *s,
                       const bt_sample_params *p, const float *logits, const bt_sample_history *history,
                       bt_fault *fault)
{
    size_t best = 0;
    for (size_t i = 0; i < s->vocab; i++) {
        if (!isfinite(logits[i]))
            return bt_fail(fault, BT_EFORMAT, "the logit of token %zu is not finite", i);
        if (logits[i] > logits[best]) best = i;
    }
    const float *z = adjust(s, p, logits, history);
    size_t first = best;
    if (z != logits) {
        first = 0;
        for (size_t i = 1; i < s->vocab; i++)
            if (z[i] > z[first]) first = i;
    }
    int32_t id = (int32_t)first;
    if (p->temperature != 0.0f) {
        for (size_t i = 0; i < s->vocab; i++) s->a[i] = (cell){key_of(z[i]), (int32_t)i};
        sort_cells(s);
        id = draw(s, p, z, keep(s, p, z), history->generated_len);
    }
    if (p->logprobs && ret_logprob) find_logprobs(ret_logprob, s, p->top_logprobs, logits, best, id);
    *ret_id = id;
    return BT_OK;
}
