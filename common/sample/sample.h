#ifndef BT_SAMPLE_SAMPLE_H
#define BT_SAMPLE_SAMPLE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Choosing a token from logits: a pure function of (logits, parameters, tokens so far, token index), with the same
 * answer on every machine. The exact rule, for logits z[0..V), prompt and generated ids:
 *   0. penalties and bias, f32, in this order and only where they are not off:
 *        ids in prompt or generated:  z = z > 0 ? z / repetition_penalty : z * repetition_penalty
 *        ids in generated, n times:   z = (z - n * frequency_penalty) - presence_penalty
 *        ids in bias:                 z = z + bias
 * temperature 0: then the highest logit wins, of equal ones the lowest id; nothing else matters. otherwise:
 *   1. sort by logit, descending; equal logits (also +0 and -0) by ascending id. z0 is the first.
 *   2. top_k: keep the first top_k (0: all).
 *   3. p[i] = bt_exp1(z[i] - z0), f32, over those left; the sums below add p in that order in double,
 * starting from 0. top_p: keep the shortest prefix whose sum is >= top_p * (sum of all); at least one. (1:
 * all)
 *   4. min_p: keep those with p[i] >= min_p; at least one. (0: all)
 *   5. w[i] = bt_exp1((z[i] - z0) / temperature); u = bt_rng_uniform(seed, token_index);
 *      the token is the first i at which the running sum of w exceeds u * (sum of w).
 * Log probabilities are those of the model: log softmax of the logits as they came, before step 0. */
enum { BT_SAMPLE_MAX_BIAS = 300, BT_SAMPLE_MAX_TOP = 20 };
typedef struct bt_sample_bias { int32_t id; float bias; } bt_sample_bias;
typedef struct bt_sample_params {
    float temperature; /* 0..100; 0 is greedy */
    uint32_t top_k;    /* 0: off */
    float top_p;       /* 0..1; 1: off */
    float min_p;       /* 0..1; 0: off */
    uint64_t seed;
    float repetition_penalty; /* 0.01..100; 1 or 0: off */
    float presence_penalty;   /* -2..2; 0: off */
    float frequency_penalty;  /* -2..2; 0: off */
    bool logprobs;            /* tell the log probability of the token, */
    uint32_t top_logprobs;    /* 0..BT_SAMPLE_MAX_TOP, and of so many of the likeliest */
    const bt_sample_bias *bias; uint32_t bias_len; /* borrowed; ids ascending, none twice; bias -100..100 */
} bt_sample_params;

#define BT_SAMPLE_MAX_TEMPERATURE 100.0f
static inline bt_sample_params bt_sample_greedy(void) { return (bt_sample_params){.top_p = 1.0f}; }

/* BT_EARG naming the parameter, its value and its range. */
bt_err bt_sample_params_check(const bt_sample_params *p, bt_fault *fault);

/* Work memory for one vocabulary (16 bytes a token); use it from one thread at a time. */
typedef struct bt_sample bt_sample;
bt_err bt_sample_new(bt_sample **ret, size_t vocab /* 1 .. 2^20 */, bt_fault *fault);
void bt_sample_free(bt_sample *s); /* NULL is fine */

/* *ret_id = the token for logits[vocab] (read only). token_index: how many tokens of this request were
 * generated before. Parameters must have passed bt_sample_params_check. BT_EFORMAT naming the token if a
 * logit is not finite. No allocation. */
bt_err bt_sample_token(int32_t *ret_id, bt_sample *s, const bt_sample_params *p, const float *logits,
                       uint64_t token_index, bt_fault *fault);
#endif
