/* Sampling against its definition: written again in the plainest form, and facts about distributions. */
#include "sample/sample.h"
#include "base/rng.h"
#include "kernels/kernels.h"
#include "tests/helpers/rows.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static bt_sample *sampler(size_t vocab)
{
    bt_sample *s = NULL;
    assert_int_equal(bt_sample_new(&s, NULL, vocab, NULL), BT_OK);
    return s;
}

static int32_t pick(bt_sample *s, bt_sample_params p, const float *z, uint64_t index)
{
    int32_t id = -1;
    bt_fault f;
    assert_int_equal(bt_sample_params_check(&p, &f), BT_OK);
    assert_int_equal(bt_sample_token(&id, NULL, s, &p, z, &(bt_sample_history){.generated_len = index}, &f),
                     BT_OK);
    return id;
}

/* Without penalties, bias and log probabilities. */
#define PLAIN(t, k, tp, mp, s) \
    { \
        .temperature = t, .top_k = k, .top_p = tp, .min_p = mp, .seed = s \
    }

/* ---- the definition in the header, in the plainest form ---- */
enum { MOST_IDS = 3000 };
static const float *ranked; /* the logits that by_rank compares */

static int by_rank(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (ranked[x] != ranked[y]) return ranked[x] < ranked[y] ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* Steps 2 to 4: how many ranks stay. */
static size_t plain_kept(const float *z, const uint32_t *order, size_t vocab, const bt_sample_params *p)
{
    static uint64_t mass[MOST_IDS];
    const size_t n = p->top_k && p->top_k < vocab ? p->top_k : vocab;
    const float z0 = z[order[0]];
    uint64_t all = 0, sum = 0;
    size_t kept = 0, last = 1;
    for (size_t i = 0; i < n; i++)
        all += mass[i] = (uint64_t)llrint((double)bt_exp1(z[order[i]] - z0) * 0x1p30);
    do sum += mass[kept++];
    while (kept < n && (p->top_p == 1.0f || (double)sum < (double)p->top_p * (double)all));
    if (p->min_p == 0.0f) return kept;
    while (last < kept && (double)z[order[last]] >= (double)z0 + log((double)p->min_p)) last++;
    return last;
}

static int32_t plain(const float *z, size_t vocab, const bt_sample_params *p, uint64_t index)
{
    static uint32_t order[MOST_IDS];
    static float w[MOST_IDS];
    double block[MOST_IDS / BT_SAMPLE_BLOCK + 1] = {0}, all = 0, sum = 0;
    for (size_t i = 0; i < vocab; i++) order[i] = (uint32_t)i, w[i] = 0;
    ranked = z;
    qsort(order, vocab, sizeof *order, by_rank);
    if (p->temperature == 0.0f) return (int32_t)order[0];
    const size_t kept = plain_kept(z, order, vocab, p);
    for (size_t i = 0; i < kept; i++) w[order[i]] = bt_exp1((z[order[i]] - z[order[0]]) / p->temperature);
    for (size_t b = 0; b * BT_SAMPLE_BLOCK < vocab; b++) {
        float lane[16] = {0};
        for (size_t i = b * BT_SAMPLE_BLOCK; i < vocab && i < (b + 1) * BT_SAMPLE_BLOCK; i++)
            lane[i % 16] += w[i];
        for (size_t half = 8; half; half /= 2)
            for (size_t j = 0; j < half; j++) lane[j] += lane[j + half];
        all += block[b] = (double)lane[0];
    }
    const double want = bt_rng_uniform(p->seed, index) * all;
    size_t b = 0, last = 0;
    while (sum + block[b] <= want) sum += block[b++];
    for (size_t i = b * BT_SAMPLE_BLOCK; i < vocab && i < (b + 1) * BT_SAMPLE_BLOCK && sum <= want; i++)
        if (w[i] > 0) sum += (double)w[last = i];
    return (int32_t)last;
}

/* Logits of some shape: coarse steps, so that ties are common and both zeros occur; normal; nearly equal; far
 * apart; a few high ones over many low ones. */
static void fill(float *z, size_t vocab, uint64_t seed)
{
    for (size_t i = 0; i < vocab; i++) {
        const double u = bt_rng_uniform(seed, 2 * i), v = bt_rng_uniform(seed, 2 * i + 1);
        switch (seed % 6) {
        case 0: z[i] = (seed & 8 ? 0.5f : -0.5f) * (float)(int)(u * 17); break;
        case 1: z[i] = (float)(3 * sqrt(-2 * log(1 - u)) * cos(6.28318530718 * v)); break;
        case 2: z[i] = 7.0f + (float)u * 1e-5f; break;
        case 3: z[i] = (float)((v - 0.5) * pow(10, 60 * u - 22)); break;
        case 4: z[i] = u < 0.01 ? 20.0f + (float)v : (float)v * -1e-3f; break;
        default: z[i] = -2.5f; break;
        }
    }
}

static bt_sample_params some_params(uint64_t round)
{
    static const float temps[] = {0.7f, 0.01f, 1.0f, 3.0f}, top_ps[] = {1.0f, 0.0f, 0.5f, 0.95f, 0.999f},
                       min_ps[] = {0.0f, 0.05f, 1.0f, 1e-6f};
    static const uint32_t top_ks[] = {0, 1, 5, 40, 1000};
    const uint64_t r = bt_rng_u64(77, round);
    return (bt_sample_params){.temperature = temps[r % 4], .top_k = top_ks[r / 4 % 5],
                              .top_p = top_ps[r / 20 % 5], .min_p = min_ps[r / 100 % 4], .seed = round};
}

static void every_answer_is_that_of_the_definition_in_plain_form(void **state)
{
    (void)state;
    static const size_t vocabs[] = {1, 2, 15, 61, 255, 256, 257, 271, 512, 1000, 2999};
    static float z[MOST_IDS];
    for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++) {
        const size_t vocab = vocabs[v];
        bt_sample *s = sampler(vocab);
        for (uint64_t round = 0; round < (vocab < 100 ? 2000 : 300); round++) {
            const bt_sample_params p = some_params(round + 10000 * v);
            fill(z, vocab, round);
            const int32_t got = pick(s, p, z, round * 3), want = plain(z, vocab, &p, round * 3);
            if (got != want)
                fail_msg("%zu ids, round %llu: %d, not %d", vocab, (unsigned long long)round, got, want);
        }
        bt_sample_free(s);
    }
}

/* FNV-1a of the ids, and of the bits of log probabilities, that one row of kernels draws. */
static uint64_t drawn(const bt_kernels *kernels)
{
    enum { V = 2999 };
    static float z[V];
    uint64_t h = 0xcbf29ce484222325u;
    bt_sample *s = NULL;
    assert_int_equal(bt_sample_new(&s, kernels, V, NULL), BT_OK);
    for (uint64_t round = 0; round < 600; round++) {
        bt_sample_params p = some_params(round);
        bt_sample_logprob l = {0};
        int32_t id;
        p.logprobs = round % 4 == 0;
        p.top_logprobs = p.logprobs ? (uint32_t)(round % 21) : 0;
        for (size_t i = 0; i < V; i++) /* exact in any compiler */
            z[i] = (float)(int32_t)(bt_rng_u64(round, i) >> 40) * (round % 3 ? 0x1p-20f : 0x1p-34f);
        assert_int_equal(
            bt_sample_token(&id, &l, s, &p, z, &(bt_sample_history){.generated_len = round}, NULL), BT_OK);
        const unsigned char *parts[] = {(unsigned char *)&id, (unsigned char *)&l.own,
                                        (unsigned char *)l.top_ids, (unsigned char *)l.top};
        const size_t sizes[] = {sizeof id, sizeof l.own, l.top_len * sizeof *l.top_ids,
                                l.top_len * sizeof *l.top};
        for (size_t i = 0; i < 4; i++)
            for (size_t j = 0; j < sizes[i]; j++) h = (h ^ parts[i][j]) * 0x100000001b3u;
    }
    bt_sample_free(s);
    return h;
}

static void every_row_of_kernels_draws_the_answers_written_down_here(void **state)
{
    (void)state;
    const uint64_t want = 0x54f8c9d1fc7448a3;
    size_t wrong = 0;
    for (size_t i = 0; i < bt_kernels_table_len; i++) {
        if (!rows_usable(&bt_kernels_table[i])) continue;
        const uint64_t got = drawn(&bt_kernels_table[i]);
        print_message("drawn: %s %016llx\n", bt_kernels_table[i].isa, (unsigned long long)got);
        wrong += got != want;
    }
    assert_int_equal(wrong, 0);
}

/* Step 0a of the definition, by counting each id of the vocabulary in the lists. */
static void plain_adjust(float *z, size_t vocab, const bt_sample_params *p, const bt_sample_history *h)
{
    for (size_t id = 0; id < vocab; id++) {
        size_t n = 0, in_prompt = 0;
        for (size_t i = 0; i < h->generated_len; i++) n += h->generated[i] == (int32_t)id;
        for (size_t i = 0; i < h->prompt_len; i++) in_prompt += h->prompt[i] == (int32_t)id;
        volatile float v = z[id]; /* one rounding an operation */
        if (p->repetition_penalty != 0.0f && (n || in_prompt))
            v = v > 0.0f ? v / p->repetition_penalty : v * p->repetition_penalty;
        if (n) {
            volatile float f = (float)n * p->frequency_penalty;
            v = v - f;
            v = v - p->presence_penalty;
        }
        for (uint32_t i = 0; i < p->bias_len; i++)
            if (p->bias[i].id == (int32_t)id) v = v + p->bias[i].bias;
        z[id] = v;
    }
}

static void penalties_and_bias_are_those_of_the_definition_in_plain_form(void **state)
{
    (void)state;
    enum { V = 61, MOST = 200 };
    const uint64_t seed = 20261121;
    print_message("seed %llu\n", (unsigned long long)seed);
    static const float reps[] = {0.0f, 1.0f, 1.3f, 0.01f, 100.0f}, pres[] = {0.0f, 0.7f, -2.0f},
                       freqs[] = {0.0f, 0.1f, -0.3f};
    bt_sample *s = sampler(V);
    float *z = malloc(V * sizeof *z), *adjusted = malloc(V * sizeof *z);
    int32_t *ids = malloc(2 * MOST * sizeof *ids);
    assert_true(z && adjusted && ids);
    for (uint64_t round = 0; round < 3000; round++) {
        uint64_t draw = round * 1000;
        const size_t prompt_len = bt_rng_u64(seed, draw++) % MOST,
                     generated_len = bt_rng_u64(seed, draw++) % MOST;
        /* some outside: they change nothing */
        for (size_t i = 0; i < prompt_len + generated_len; i++)
            ids[i] = (int32_t)(bt_rng_u64(seed, draw++) % (V + 8)) - 4;
        for (size_t i = 0; i < V; i++) z[i] = 0.25f * (float)((int)(bt_rng_u64(seed, draw++) % 41) - 20);
        bt_sample_bias bias[3] = {
            {(int32_t)(round % 20), 1.5f}, {(int32_t)(20 + round % 20), -0.1f}, {V + 5, 100.0f}};
        const bt_sample_params p = {.temperature = round % 2 ? 0.8f : 0.0f,
                                    .top_p = round % 3 ? 1.0f : 0.9f,
                                    .seed = round,
                                    .repetition_penalty = reps[round % 5],
                                    .presence_penalty = pres[round / 5 % 3],
                                    .frequency_penalty = freqs[round / 15 % 3],
                                    .bias = bias,
                                    .bias_len = (uint32_t)(round % 4)};
        const bt_sample_history h = {.prompt = ids, .prompt_len = prompt_len, .generated = ids + prompt_len,
                                     .generated_len = generated_len};
        memcpy(adjusted, z, V * sizeof *z);
        plain_adjust(adjusted, V, &p, &h);
        int32_t id = -1;
        assert_int_equal(bt_sample_params_check(&p, NULL), BT_OK);
        assert_int_equal(bt_sample_token(&id, NULL, s, &p, z, &h, NULL), BT_OK);
        assert_int_equal(id, plain(adjusted, V, &p, generated_len));
    }
    free(z);
    free(adjusted);
    free(ids);
    bt_sample_free(s);
}

/* One in three ids is open, or one alone, or the first or the last; with penalties and bias before. */
static void no_token_comes_that_is_not_open_and_the_others_as_if_there_were_no_more(void **state)
{
    (void)state;
    enum { V = 700, WORDS = (V + 63) / 64 };
    static float z[V], adjusted[V];
    bt_sample *s = sampler(V);
    for (uint64_t round = 0; round < 1500; round++) {
        bt_sample_params p = some_params(round);
        const bt_sample_bias bias = {(int32_t)(round % V), round % 2 ? 50.0f : -50.0f};
        uint64_t open[WORDS] = {0};
        p.bias = &bias;
        p.bias_len = round % 2;
        if (round % 5 == 0) p.temperature = 0;
        p.logprobs = round % 3 == 0;
        p.top_logprobs = p.logprobs ? 3 : 0;
        fill(z, V, round);
        if (round % 7 == 0) z[3] = -FLT_MAX, z[4] = FLT_MAX;
        for (size_t id = 0; id < V; id++) {
            const bool is_open = round % 4 == 0   ? id == round % V
                                 : round % 4 == 1 ? id == 0 || id + 1 == V
                                                  : bt_rng_u64(round, id) % 3 == 0;
            open[id / 64] |= (uint64_t)is_open << id % 64;
        }
        if (round % 4 == 2) open[0] |= 8; /* the least logit that there is */
        memcpy(adjusted, z, sizeof z);
        if (p.bias_len) adjusted[bias.id] += bias.bias;
        for (size_t id = 0; id < V; id++)
            adjusted[id] = !(open[id / 64] >> id % 64 & 1) ? -FLT_MAX
                           : adjusted[id] < -0x1p127f      ? -0x1p127f
                                                           : adjusted[id];
        int32_t id = -1;
        bt_sample_logprob got = {0}, free_of_it = {0};
        const bt_sample_history h = {.generated_len = round, .open = open};
        assert_int_equal(bt_sample_token(&id, &got, s, &p, z, &h, NULL), BT_OK);
        if (id != plain(adjusted, V, &p, round)) fail_msg("round %llu: %d", (unsigned long long)round, id);
        assert_true(open[id / 64] >> id % 64 & 1);
        int32_t other;
        const bt_sample_history all = {.generated_len = round};
        assert_int_equal(bt_sample_token(&other, &free_of_it, s, &p, z, &all, NULL), BT_OK);
        assert_memory_equal(got.top, free_of_it.top, sizeof got.top); /* the model's own */
        assert_memory_equal(got.top_ids, free_of_it.top_ids, sizeof got.top_ids);
    }
    const bt_sample_params greedy = bt_sample_greedy();
    const uint64_t none[WORDS] = {0};
    int32_t id = -1;
    bt_fault f = {""};
    const bt_sample_history h = {.open = none};
    assert_int_equal(bt_sample_token(&id, NULL, s, &greedy, z, &h, &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "no token is open"));
    bt_sample_free(s);
}

/* A block's sum in f32 is more than its weights added one by one: 15 weights are rounded up to twice their
 * size. */
static void where_rounding_lets_no_sum_exceed_the_last_of_the_block_is_drawn(void **state)
{
    (void)state;
    enum { V = 300 };
    float z[V];
    bt_sample_params p = PLAIN(1.0f, 0, 1.0f, 0.0f, 0);
    const double all = 1 + 15 * 0x1p-23, added = 1 + 15 * 0x1.1p-24;
    for (size_t i = 0; i < V; i++) z[i] = i < 256 && i % 16 == 0 ? -16.6f : -200.0f;
    z[0] = 0;
    assert_true(bt_exp1(-16.6f) > 0x1p-24f && bt_exp1(-16.6f) < 0x1.1p-24f);
    while (bt_rng_uniform(p.seed, 0) * all <= added) p.seed++;
    bt_sample *s = sampler(V);
    assert_int_equal(pick(s, p, z, 0), 240);
    assert_int_equal(plain(z, V, &p, 0), 240);
    bt_sample_free(s);
}

static int32_t pick_after(bt_sample *s, bt_sample_params p, const float *z, const int32_t *prompt,
                          size_t prompt_len, const int32_t *generated, size_t generated_len)
{
    int32_t id = -1;
    const bt_sample_history h = {.prompt = prompt, .prompt_len = prompt_len, .generated = generated,
                                 .generated_len = generated_len};
    assert_int_equal(bt_sample_token(&id, NULL, s, &p, z, &h, NULL), BT_OK);
    return id;
}

/* Worked by hand: any other order of the operations gives another token. */
static void operations_come_in_the_order_of_the_header(void **state)
{
    (void)state;
    static const int32_t zero[] = {0}, twice[] = {0, 0}, one[] = {1};
    bt_sample *s = sampler(3);
    const float z[3] = {4.0f, 2.5f, -9.0f};
    bt_sample_params p = bt_sample_greedy();
    /* 4 / 2 - 1 = 1 is below 1.2, (4 - 1) / 2 = 1.5 would not be. */
    const float tight[3] = {4.0f, 1.2f, -9.0f};
    p.repetition_penalty = 2.0f;
    p.presence_penalty = 1.0f;
    assert_int_equal(pick_after(s, p, tight, NULL, 0, zero, 1), 1);
    /* Repetition looks at the sign of the logit itself: -1 * 2 = -2, not of one that was pushed below 0. */
    const float negative[3] = {-1.0f, -1.9f, -9.0f};
    p.presence_penalty = 0.0f;
    assert_int_equal(pick_after(s, p, negative, NULL, 0, zero, 1), 1); /* -2.0 < -1.9 */
    /* Once, however often it occurs, and in prompt and answer alike. */
    assert_int_equal(pick_after(s, p, z, zero, 1, NULL, 0), 1); /* 4 / 2 = 2 < 2.5 */
    const float once[3] = {4.0f, 1.5f, -9.0f};
    assert_int_equal(pick_after(s, p, once, zero, 1, twice, 2), 0); /* 2 > 1.5; twice it would be 1 */
    /* Frequency counts the answer only, presence not even how often. */
    p = bt_sample_greedy();
    p.frequency_penalty = 0.75f;
    assert_int_equal(pick_after(s, p, z, twice, 2, zero, 1), 0); /* 3.25 */
    assert_int_equal(pick_after(s, p, z, NULL, 0, twice, 2), 0); /* 2.5, equal: the lower id */
    p.presence_penalty = 0.25f;
    assert_int_equal(pick_after(s, p, z, NULL, 0, twice, 2), 1); /* 2.25 */
    /* The bias comes last: 2.5 / 2 + 1 = 2.25 > 2, where (2.5 + 1) / 2 = 1.75 would not be. */
    const float biased[3] = {2.0f, 2.5f, -9.0f};
    const bt_sample_bias more = {1, 1.0f};
    p = bt_sample_greedy();
    p.repetition_penalty = 2.0f;
    p.bias = &more;
    p.bias_len = 1;
    assert_int_equal(pick_after(s, p, biased, NULL, 0, one, 1), 1);
    /* 1 and 0 are both off. */
    p = bt_sample_greedy();
    p.repetition_penalty = 1.0f;
    assert_int_equal(pick_after(s, p, z, zero, 1, twice, 2), 0);
    bt_sample_free(s);
}

static void what_leaves_the_range_of_f32_is_its_largest_number(void **state)
{
    (void)state;
    static const int32_t both[] = {0, 1};
    bt_sample *s = sampler(3);
    const float up[3] = {3e38f, 3.2e38f, 0.0f}, down[3] = {-3e38f, -3.2e38f, -3.4e38f};
    bt_sample_params p = bt_sample_greedy();
    p.repetition_penalty = 0.01f;
    assert_int_equal(pick_after(s, p, up, both, 2, NULL, 0), 0); /* both at the top: the lower id */
    p.temperature = 1.0f;
    (void)pick_after(s, p, up, both, 2, NULL, 0);
    p = bt_sample_greedy();
    p.repetition_penalty = 100.0f;
    assert_int_equal(pick_after(s, p, down, both, 2, NULL, 0), 2);
    bt_sample_free(s);
}

static void log_probabilities_are_those_of_the_logits_before_any_penalty(void **state)
{
    (void)state;
    enum { V = 1000 };
    static const int32_t gone[] = {7};
    static const bt_sample_bias bias = {7, -100.0f};
    bt_sample *s = sampler(V);
    float *z = malloc(V * sizeof *z);
    assert_non_null(z);
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < V; i++)
            z[i] = (float)(int)(bt_rng_u64(5, (uint64_t)round * V + i) % 200) * 0.1f - 10.0f;
        z[7] = z[8] = 30.0f; /* the two likeliest, equal */
        const bt_sample_params p = {
            .temperature = 0.7f,      .top_p = 1.0f, .seed = 1,     .repetition_penalty = 1.5f,
            .presence_penalty = 1.0f, .bias = &bias, .bias_len = 1, .logprobs = true,
            .top_logprobs = 20};
        const bt_sample_history h = {.generated = gone, .generated_len = 1};
        bt_sample_logprob l;
        int32_t id = -1;
        assert_int_equal(bt_sample_token(&id, &l, s, &p, z, &h, NULL), BT_OK);
        double sum = 0;
        for (size_t i = 0; i < V; i++) sum += exp((double)z[i] - 30.0);
        assert_float_equal(l.own, (double)z[id] - 30.0 - log(sum), 2e-5);
        assert_int_equal(l.top_len, 20);
        assert_int_equal(l.top_ids[0], 7);
        assert_int_equal(l.top_ids[1], 8);
        for (uint32_t i = 0; i < 20; i++) {
            assert_float_equal(l.top[i], (double)z[l.top_ids[i]] - 30.0 - log(sum), 2e-5);
            if (i > 0 && l.top[i] == l.top[i - 1]) assert_true(l.top_ids[i] > l.top_ids[i - 1]);
            else if (i > 0) assert_true(l.top[i] < l.top[i - 1]);
        }
        size_t higher = 0;
        for (size_t i = 0; i < V; i++) higher += z[i] > z[l.top_ids[19]];
        assert_true(higher <= 19);
    }
    free(z);
    bt_sample_free(s);
}

static void log_probabilities_of_few_and_far_logits_stay_in_range(void **state)
{
    (void)state;
    const float one[1] = {-5.0f}, far[3] = {3e38f, -3e38f, 3e38f};
    bt_sample_params p = bt_sample_greedy();
    bt_sample_logprob l;
    int32_t id;
    p.logprobs = true;
    p.top_logprobs = 20;
    bt_sample *s = sampler(1);
    assert_int_equal(bt_sample_token(&id, &l, s, &p, one, &(bt_sample_history){0}, NULL), BT_OK);
    assert_true(l.own == 0.0f && l.top_len == 1 && l.top[0] == 0.0f); /* certain */
    bt_sample_free(s);
    s = sampler(3);
    assert_int_equal(bt_sample_token(&id, &l, s, &p, far, &(bt_sample_history){0}, NULL), BT_OK);
    assert_int_equal(id, 0);
    assert_float_equal(l.own, -log(2.0), 1e-6);
    assert_int_equal(l.top_ids[1], 2);
    assert_true(l.top[2] == -FLT_MAX);
    p.logprobs = false;
    p.top_logprobs = 0;
    memset(&l, 0x5a, sizeof l);
    bt_sample_logprob before = l;
    assert_int_equal(bt_sample_token(&id, &l, s, &p, far, &(bt_sample_history){0}, NULL), BT_OK);
    assert_memory_equal(&l, &before, sizeof l); /* nobody asked */
    bt_sample_free(s);
}

static void greedy_takes_the_lowest_of_equal_ids(void **state)
{
    (void)state;
    bt_sample *s = sampler(4);
    const float z[4] = {-1.0f, 3.0f, 3.0f, 2.0f}, zeros[4] = {-0.0f, 0.0f, -0.0f, 0.0f};
    assert_int_equal(pick(s, bt_sample_greedy(), z, 0), 1);
    assert_int_equal(pick(s, bt_sample_greedy(), zeros, 0), 0);
    const bt_sample_params one = PLAIN(1.0f, 1, 1.0f, 0.0f, 9);
    assert_int_equal(pick(s, one, z, 5), 1);
    assert_int_equal(pick(s, one, zeros, 5), 0);
    bt_sample_free(s);
}

static void the_same_seed_and_index_give_the_same_token_in_any_order_of_calls(void **state)
{
    (void)state;
    enum { V = 1000 };
    bt_sample *a = sampler(V), *b = sampler(V);
    float z[V];
    for (size_t i = 0; i < V; i++) z[i] = (float)bt_rng_uniform(3, i) * 4.0f;
    const bt_sample_params p = PLAIN(0.9f, 0, 0.9f, 0.01f, 77);
    int32_t first[50];
    for (uint64_t i = 0; i < 50; i++) first[i] = pick(a, p, z, i);
    for (uint64_t i = 50; i-- > 0;) assert_int_equal(pick(b, p, z, i), first[i]);
    bt_sample_free(a);
    bt_sample_free(b);
}

static void frequencies_follow_the_softmax(void **state)
{
    (void)state;
    enum { V = 5, N = 40000 };
    const float z[V] = {0.0f, 1.0f, 2.0f, -1.0f, 0.5f};
    const double t = 0.8;
    double want[V], all = 0, count[V] = {0}, chi2 = 0;
    for (int i = 0; i < V; i++) all += want[i] = exp((double)z[i] / t);
    bt_sample *s = sampler(V);
    const bt_sample_params p = PLAIN((float)t, 0, 1.0f, 0.0f, 4242);
    for (uint64_t i = 0; i < N; i++) count[pick(s, p, z, i)]++;
    for (int i = 0; i < V; i++) chi2 += pow(count[i] - N * want[i] / all, 2) / (N * want[i] / all);
    assert_true(chi2 < 18.47); /* 4 degrees of freedom, 0.1 % */
    bt_sample_free(s);
}

static void filters_leave_exactly_the_tokens_they_promise(void **state)
{
    (void)state;
    const float z[4] = {logf(0.5f), logf(0.3f), logf(0.15f), logf(0.05f)};
    const struct {
        bt_sample_params p;
        int kept;
    } cases[] = {
        {PLAIN(1.0f, 0, 1.0f, 0.0f, 1), 4},
        {PLAIN(1.0f, 3, 1.0f, 0.0f, 1), 3},
        {PLAIN(1.0f, 0, 0.79f, 0.0f, 1), 2},
        {PLAIN(1.0f, 0, 0.81f, 0.0f, 1), 3},
        {PLAIN(1.0f, 0, 0.0f, 0.0f, 1), 1},
        {PLAIN(1.0f, 0, 1.0f, 0.29f, 1), 3},
        {PLAIN(1.0f, 0, 1.0f, 0.31f, 1), 2},
        {PLAIN(1.0f, 0, 1.0f, 1.0f, 1), 1},
        {PLAIN(100.0f, 2, 1.0f, 0.0f, 1), 2},
        /* of the two kept, 0.625 and 0.375: the first alone is below 0.7 */
        {PLAIN(1.0f, 2, 0.7f, 0.0f, 1), 2},
    };
    bt_sample *s = sampler(4);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bool seen[4] = {false};
        for (uint64_t i = 0; i < 2000; i++) seen[pick(s, cases[c].p, z, i)] = true;
        for (int i = 0; i < 4; i++) assert_int_equal(seen[i], i < cases[c].kept);
    }
    bt_sample_free(s);
}

static void a_logit_that_is_not_finite_is_an_error_that_names_it(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    bt_sample *s = sampler(4);
    for (size_t i = 0; i < 3; i++) {
        const float z[4] = {0.0f, 1.0f, bad[i], 2.0f};
        const bt_sample_params p = bt_sample_greedy();
        int32_t id = 99;
        bt_fault f;
        assert_int_equal(bt_sample_token(&id, NULL, s, &p, z, &(bt_sample_history){0}, &f), BT_EFORMAT);
        assert_non_null(strstr(f.text, "token 2"));
        assert_int_equal(id, 99);
    }
    bt_sample_free(s);
}

static void extreme_logits_and_temperatures_still_give_a_token(void **state)
{
    (void)state;
    const float z[3] = {-3e38f, 3e38f, 0.0f};
    bt_sample *s = sampler(3);
    assert_int_equal(pick(s, (bt_sample_params)PLAIN(1e-38f, 0, 1.0f, 0.0f, 1), z, 0), 1);
    assert_int_equal(pick(s, (bt_sample_params)PLAIN(100.0f, 0, 1.0f, 0.0f, 1), z, 0), 1);
    bt_sample_free(s);
}

static void parameters_out_of_range_are_refused_by_name(void **state)
{
    (void)state;
    const struct {
        bt_sample_params p;
        const char *name;
    } cases[] = {
        {PLAIN(-0.1f, 0, 1.0f, 0.0f, 1), "temperature"}, {PLAIN(101.0f, 0, 1.0f, 0.0f, 1), "temperature"},
        {PLAIN(NAN, 0, 1.0f, 0.0f, 1), "temperature"},   {PLAIN(1.0f, 0, 1.1f, 0.0f, 1), "top_p"},
        {PLAIN(1.0f, 0, NAN, 0.0f, 1), "top_p"},         {PLAIN(1.0f, 0, 1.0f, -1.0f, 1), "min_p"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bt_fault f;
        assert_int_equal(bt_sample_params_check(&cases[i].p, &f), BT_EARG);
        assert_non_null(strstr(f.text, cases[i].name));
    }
    static const bt_sample_bias twice[] = {{5, 0.0f}, {5, 0.0f}}, falling[] = {{6, 0.0f}, {5, 0.0f}},
                                large[] = {{5, 100.5f}}, negative[] = {{-1, 0.0f}}, nan[] = {{5, NAN}};
    const struct {
        bt_sample_params p;
        const char *words;
    } more[] = {
        {{.repetition_penalty = 0.009f}, "repetition_penalty is 0.009; 0.01 to 100"},
        {{.repetition_penalty = -1.0f}, "repetition_penalty"},
        {{.repetition_penalty = NAN}, "repetition_penalty"},
        {{.presence_penalty = 2.1f}, "presence_penalty is 2.1; -2 to 2"},
        {{.frequency_penalty = -2.1f}, "frequency_penalty is -2.1"},
        {{.logprobs = true, .top_logprobs = 21}, "top_logprobs is 21; 0 to 20"},
        {{.top_logprobs = 1}, "only with logprobs"},
        {{.bias = twice, .bias_len = 2}, "token 5 after token 5"},
        {{.bias = falling, .bias_len = 2}, "ids must rise"},
        {{.bias = large, .bias_len = 1}, "logit_bias is 100.5; -100 to 100"},
        {{.bias = negative, .bias_len = 1}, "token -1"},
        {{.bias = nan, .bias_len = 1}, "logit_bias is"},
        {{.bias = twice, .bias_len = 301}, "301 entries; at most 300"},
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        bt_fault f;
        assert_int_equal(bt_sample_params_check(&more[i].p, &f), BT_EARG);
        if (!strstr(f.text, more[i].words)) fail_msg("says '%s', not '%s'", f.text, more[i].words);
    }
    bt_sample *s = NULL;
    assert_int_equal(bt_sample_new(&s, NULL, 0, NULL), BT_EARG);
    assert_int_equal(bt_sample_new(&s, NULL, SIZE_MAX, NULL), BT_EARG);
    assert_null(s);
    bt_sample_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_is_that_of_the_definition_in_plain_form),
        cmocka_unit_test(every_row_of_kernels_draws_the_answers_written_down_here),
        cmocka_unit_test(where_rounding_lets_no_sum_exceed_the_last_of_the_block_is_drawn),
        cmocka_unit_test(penalties_and_bias_are_those_of_the_definition_in_plain_form),
        cmocka_unit_test(no_token_comes_that_is_not_open_and_the_others_as_if_there_were_no_more),
        cmocka_unit_test(operations_come_in_the_order_of_the_header),
        cmocka_unit_test(what_leaves_the_range_of_f32_is_its_largest_number),
        cmocka_unit_test(log_probabilities_are_those_of_the_logits_before_any_penalty),
        cmocka_unit_test(log_probabilities_of_few_and_far_logits_stay_in_range),
        cmocka_unit_test(greedy_takes_the_lowest_of_equal_ids),
        cmocka_unit_test(the_same_seed_and_index_give_the_same_token_in_any_order_of_calls),
        cmocka_unit_test(frequencies_follow_the_softmax),
        cmocka_unit_test(filters_leave_exactly_the_tokens_they_promise),
        cmocka_unit_test(a_logit_that_is_not_finite_is_an_error_that_names_it),
        cmocka_unit_test(extreme_logits_and_temperatures_still_give_a_token),
        cmocka_unit_test(parameters_out_of_range_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
