/* Sampling against its definition: written again in the plainest form, and facts about distributions. */
#include "sample/sample.h"
#include "base/rng.h"
#include "kernels/kernels.h"

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
    assert_int_equal(bt_sample_new(&s, vocab, NULL), BT_OK);
    return s;
}

static int32_t pick(bt_sample *s, bt_sample_params p, const float *z, uint64_t index)
{
    int32_t id = -1;
    bt_fault f;
    assert_int_equal(bt_sample_params_check(&p, &f), BT_OK);
    assert_int_equal(bt_sample_token(&id, NULL, s, &p, z, &(bt_sample_history){.generated_len = index}, &f), BT_OK);
    return id;
}

/* Without penalties, bias and log probabilities. */
#define PLAIN(t, k, tp, mp, s) {.temperature = t, .top_k = k, .top_p = tp, .min_p = mp, .seed = s}

/* The definition in the header, by insertion sort. */
static int32_t plain(const float *z, size_t vocab, const bt_sample_params *p, uint64_t index)
{
    size_t order[64], n = 0;
    for (size_t i = 0; i < vocab; i++) {
        size_t at = n++;
        for (; at > 0 && z[order[at - 1]] < z[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    if (p->temperature == 0.0f) return (int32_t)order[0];
    if (p->top_k && p->top_k < n) n = p->top_k;
    const float z0 = z[order[0]];
    double all = 0, sum = 0;
    for (size_t i = 0; i < n; i++) all += (double)bt_exp1(z[order[i]] - z0);
    size_t kept = 0;
    while (kept < n) {
        sum += (double)bt_exp1(z[order[kept++]] - z0);
        if (p->top_p < 1.0f && sum >= (double)p->top_p * all) break;
    }
    size_t last = 1;
    while (last < kept && bt_exp1(z[order[last]] - z0) >= p->min_p) last++;
    all = sum = 0;
    for (size_t i = 0; i < last; i++) all += (double)bt_exp1((z[order[i]] - z0) / p->temperature);
    for (size_t i = 0; i < last; i++) {
        sum += (double)bt_exp1((z[order[i]] - z0) / p->temperature);
        if (sum > bt_rng_uniform(p->seed, index) * all) return (int32_t)order[i];
    }
    return -1;
}

static void every_answer_is_that_of_the_definition_in_plain_form(void **state)
{
    (void)state;
    enum { V = 61 };
    const uint64_t seed = 20240601;
    print_message("seed %llu\n", (unsigned long long)seed);
    bt_sample *s = sampler(V);
    float *z = malloc(V * sizeof *z);
    assert_non_null(z);
    static const float temps[] = {0.0f, 0.01f, 0.7f, 1.0f, 3.0f}, top_ps[] = {1.0f, 0.0f, 0.5f, 0.95f},
                       min_ps[] = {0.0f, 0.05f, 1.0f};
    static const uint32_t top_ks[] = {0, 1, 5, 60, 1000};
    for (uint64_t round = 0; round < 2000; round++) {
        for (size_t i = 0; i < V; i++) /* coarse steps, so that ties are common; both zeros occur */
            z[i] = (round & 1 ? 0.5f : -0.5f) * (float)(int)(bt_rng_u64(seed, round * 100 + i) % 17);
        const bt_sample_params p = {.temperature = temps[round % 5], .top_k = top_ks[round / 5 % 5],
                                    .top_p = top_ps[round / 25 % 4], .min_p = min_ps[round / 100 % 3], .seed = round};
        assert_int_equal(pick(s, p, z, round * 3), plain(z, V, &p, round * 3));
    }
    free(z);
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
        {PLAIN(1.0f, 0, 1.0f, 0.0f, 1), 4},  {PLAIN(1.0f, 3, 1.0f, 0.0f, 1), 3}, {PLAIN(1.0f, 0, 0.79f, 0.0f, 1), 2},
        {PLAIN(1.0f, 0, 0.81f, 0.0f, 1), 3}, {PLAIN(1.0f, 0, 0.0f, 0.0f, 1), 1}, {PLAIN(1.0f, 0, 1.0f, 0.29f, 1), 3},
        {PLAIN(1.0f, 0, 1.0f, 0.31f, 1), 2}, {PLAIN(1.0f, 0, 1.0f, 1.0f, 1), 1}, {PLAIN(100.0f, 2, 1.0f, 0.0f, 1), 2},
        {PLAIN(1.0f, 2, 0.7f, 0.0f, 1), 2}, /* of the two kept, 0.625 and 0.375: the first alone is below 0.7 */
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
    bt_sample *s = NULL;
    assert_int_equal(bt_sample_new(&s, 0, NULL), BT_EARG);
    assert_int_equal(bt_sample_new(&s, (size_t)1 << 40, NULL), BT_EARG);
    assert_null(s);
    bt_sample_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_is_that_of_the_definition_in_plain_form),
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
