#ifndef BT_SAMPLE_SAMPLE_H
#define BT_SAMPLE_SAMPLE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "kernels/kernels.h"

/* Choosing a token from logits: a pure function of (logits, parameters, tokens so far), with the same answer on
 * every machine. The exact rule, for logits z[0..V) and a history of prompt and generated ids:
 *   0a. penalties and bias, f32, in this order and only where they are not off:
 *        ids in prompt or generated:  z = z > 0 ? z / repetition_penalty : z * repetition_penalty
 *        ids in generated, n times:   z = (z - n * frequency_penalty) - presence_penalty
 *        ids in bias:                 z = z + bias
 *      A value beyond the range of f32 becomes its largest number of that sign. An id outside 0..V-1 changes nothing.
 *   0b. open ids, where there is a program (constraint.h): an id that is not open has z = -FLT_MAX, an open one at
 *      least -2^127. So no id that is not open is drawn, whatever the steps below leave.
 * temperature 0: then the highest logit wins, among equals the lowest id; nothing else matters. otherwise:
 *   1. The rank of an id is by its logit, descending; equal logits (also +0 and -0) by ascending id. z0 is the highest
 *      logit. Each step below leaves a beginning of the ranks.
 *   2. top_k: the first top_k ranks stay (0: all).
 *   3. top_p: m[i] = rint(bt_exp1(z[i] - z0) * 2^30), ties to even, an integer. The shortest beginning stays whose sum
 *      of m is >= top_p * (sum of m over those left by step 2), this product in double; at least one. (1: all) Sums of
 *      integers are exact in any order.
 *   4. min_p: those with z[i] >= z0 + ln(min_p) stay, in double; at least one. (0: all)
 *   5. w[i] = bt_exp1((z[i] - z0) / temperature), f32, +0 for ids that did not stay. Ids come in blocks of
 *      BT_SAMPLE_BLOCK: id i is of block i / BT_SAMPLE_BLOCK and adds to lane i % 16 of its block, in ascending id, in
 *      f32 from +0. The lanes of a block are added by the tree of dot (kernels/kernels.h); sums of blocks are added in
 *      ascending order, in double from 0.
 *      u = bt_rng_uniform(seed, count of generated ids); want = u * (sum of all blocks), in double. The token's block
 *      is the first whose running sum exceeds want. From the running sum before that block on, its w are added one by
 *      one in ascending id, in double; the token is the first whose sum exceeds want, or, where rounding lets none,
 *      the block's last with w > 0.
 * Log probabilities are the model's own, from the logits before step 0; zm is the highest logit:
 *   (f32) ((z[i] - zm) - ln(sum over all ids of bt_exp1(z[j] - zm), blocks, lanes and tree as in step 5)),
 *   in double, never below -FLT_MAX.
 * ln is a fixed series in double (sample.c). A change of this rule raises BT_KERNELS_NUMERIC_VERSION. */
enum { BT_SAMPLE_BLOCK = 256 };
enum { BT_SAMPLE_MAX_BIAS = 300, BT_SAMPLE_MAX_TOP = 20, BT_SAMPLE_MAX_PROGRAM = 262144 };
typedef struct bt_sample_bias {
    int32_t id;
    float bias;
} bt_sample_bias;
typedef struct bt_sample_params {
    float temperature; /* 0..100; 0 is greedy */
    uint32_t top_k;    /* 0: off */
    float top_p;       /* 0..1; 1: off */
    float min_p;       /* 0..1; 0: off */
    uint64_t seed;
    float repetition_penalty; /* 0.01..100; 1 or 0: off */
    float presence_penalty;   /* -2..2; 0: off */
    float frequency_penalty;  /* -2..2; 0: off */
    bool logprobs;            /* return the token's log probability, */
    uint32_t top_logprobs;    /* 0..BT_SAMPLE_MAX_TOP, and those of so many of the likeliest tokens */
    const bt_sample_bias *bias;
    uint32_t bias_len;      /* borrowed; ids ascending, none twice; bias -100..100 */
    const uint8_t *program; /* borrowed: the texts that the answer may be (grammar/program.h); NULL: any */
    uint32_t program_len;   /* 0, or 40..BT_SAMPLE_MAX_PROGRAM bytes; constraint.h checks the rest */
} bt_sample_params;

#define BT_SAMPLE_MAX_TEMPERATURE 100.0f
static inline bt_sample_params bt_sample_greedy(void) { return (bt_sample_params){.top_p = 1.0f}; }

/* BT_EARG naming the parameter, its value and its range. */
bt_err bt_sample_params_check(const bt_sample_params *p, bt_fault *fault);

/* The tokens so far, and which may come; borrowed. Prompt ids matter only to the repetition penalty. generated_len is
 * the index of the token to be drawn, so it counts whatever the parameters are; the ids are read only where a penalty
 * is on. */
typedef struct bt_sample_history {
    const int32_t *prompt;
    size_t prompt_len;
    const int32_t *generated;
    size_t generated_len;
    const uint64_t *open; /* [(V + 63) / 64]: id i may come where bit i % 64 of word i / 64 is set; NULL: all may */
} bt_sample_history;

/* Log probabilities of one token and of the top_len likeliest, descending, among equals the lower id first. */
typedef struct bt_sample_logprob {
    float own;
    uint32_t top_len; /* min(top_logprobs, V) */
    int32_t top_ids[BT_SAMPLE_MAX_TOP];
    float top[BT_SAMPLE_MAX_TOP];
} bt_sample_logprob;

/* Work memory for one vocabulary (25 bytes a token); use it from one thread at a time. `kernels` change no bit; NULL:
 * the best row of this machine. */
typedef struct bt_sample bt_sample;
bt_err bt_sample_new(bt_sample **ret, const bt_kernels *kernels, size_t vocab /* 1 .. 2^20 */, bt_fault *fault);
void bt_sample_free(bt_sample *s); /* NULL is fine */

/* ids[0 .. returned): the min(top, vocab) highest of logits[vocab], descending, among equals the lower id first. 0
 * where a logit is not finite. top <= BT_SAMPLE_MAX_TOP. */
uint32_t bt_sample_top(int32_t *ids, bt_sample *s, uint32_t top, const float *logits);

/* *ret_id = the token for logits[vocab] (read only), *ret_logprob (may be NULL) its log probabilities where
 * p->logprobs asks for them, else untouched. Parameters must have passed bt_sample_params_check. BT_EFORMAT naming
 * the token if a logit is not finite, or if no id is open. No allocation; time O(V + ids of the history that a penalty
 * reads), whatever the parameters leave: nothing is sorted but the top_logprobs. */
bt_err bt_sample_token(int32_t *ret_id, bt_sample_logprob *ret_logprob, bt_sample *s, const bt_sample_params *p,
                       const float *logits, const bt_sample_history *history, bt_fault *fault);
#endif
