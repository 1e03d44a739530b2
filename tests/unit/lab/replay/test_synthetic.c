/* Load without a trace: its line is read, and what it draws has the means that it names. */
#include "lab/replay/synthetic.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tool_replay_synthetic read_it(const char *text)
{
    tool_replay_synthetic s;
    bt_fault fault = {""};
    if (tool_replay_synthetic_read(&s, text, &fault) != BT_OK) fail_msg("%s", fault.text);
    return s;
}

static void a_line_names_lengths_arrivals_and_what_is_shared(void **state)
{
    (void)state;
    tool_replay_synthetic s = read_it("in:512,out:128,rate:4,burst:0.5,shared:256");
    assert_true(s.in.kind == TOOL_REPLAY_FIXED && s.in.a == 512 && s.out.a == 128);
    assert_true(s.rate == 4 && s.burst == 0.5 && s.shared_tokens == 256);
    s = read_it("out:1-20,in:300~0.8");
    assert_true(s.in.kind == TOOL_REPLAY_LOGNORMAL && s.in.a == 300 && s.in.b == 0.8);
    assert_true(s.out.kind == TOOL_REPLAY_UNIFORM && s.out.a == 1 && s.out.b == 20);
    assert_true(s.rate == 0 && s.burst == 1 && s.shared_tokens == 0);
}

static void a_wrong_part_is_named(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"", "''"},
        {"in:512", "needs in and out"},
        {"in:0,out:1", "in:0"},
        {"in:9-3,out:1", "in:9-3"},
        {"in:5,out:5,", "''"},
        {"in:5,out:5,rats:4", "rats:4"},
        {"in:5,out:5x", "out:5x"},
        {"in:5,out:5,rate:0", "rate:0"},
        {"in:5~9,out:5", "in:5~9"},
        {"in:5~,out:5", "in:5~"},
        {"in:0x5,out:5", "in:0x5"},
        {"in:1e9,out:5", "in:1e9"},
        {"in:nan,out:5", "in:nan"},
        {"in", "'in'"},
        {"in:5,out:5,burst:0", "burst:0"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tool_replay_synthetic s;
        bt_fault fault = {""};
        assert_int_equal(tool_replay_synthetic_read(&s, wrong[i][0], &fault), BT_EARG);
        if (!strstr(fault.text, wrong[i][1])) fail_msg("'%s' says: %s", wrong[i][0], fault.text);
    }
}

enum { N = 20000 };
static void draw(tool_replay_plan *p, const char *text, uint64_t seed)
{
    const tool_replay_synthetic s = read_it(text);
    assert_int_equal(tool_replay_plan_begin(p, NULL), BT_OK);
    assert_int_equal(tool_replay_synthetic_draw(p, &s, N, seed, NULL), BT_OK);
    assert_int_equal(p->len, N);
}

/* Mean and variation of the gaps. */
static void gaps(double *mean, double *cv, const tool_replay_plan *p)
{
    double sum = 0, squares = 0;
    for (size_t i = 1; i < N; i++) {
        const double g = (double)(p->item[i].due_us - p->item[i - 1].due_us);
        sum += g;
        squares += g * g;
    }
    *mean = sum / (N - 1);
    *cv = sqrt(squares / (N - 1) - *mean * *mean) / *mean;
}

static void gaps_have_the_mean_of_the_rate_and_the_variation_of_the_burst(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double mean_us, cv;
    } c[] = {{"in:5,out:5,rate:4", 250000, 1},
             {"in:5,out:5,rate:4,burst:0.25", 250000, 2},
             {"in:5,out:5,rate:100,burst:4", 10000, 0.5}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        tool_replay_plan p;
        double mean, cv;
        draw(&p, c[i].text, 1);
        gaps(&mean, &cv, &p);
        assert_true(fabs(mean / c[i].mean_us - 1) < 0.05);
        assert_true(fabs(cv / c[i].cv - 1) < 0.05);
        tool_replay_plan_done(&p);
    }
}

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void lengths_have_their_distribution(void **state)
{
    (void)state;
    static uint32_t v[N];
    tool_replay_plan p;
    double sum = 0;
    uint32_t least = UINT32_MAX, most = 0;
    draw(&p, "in:300~0.8,out:10-19", 1);
    for (size_t i = 0; i < N; i++) {
        v[i] = p.item[i].prompt_tokens;
        sum += p.item[i].output_tokens;
        if (p.item[i].output_tokens < least) least = p.item[i].output_tokens;
        if (p.item[i].output_tokens > most) most = p.item[i].output_tokens;
    }
    qsort(v, N, sizeof *v, by_value);
    assert_true(least == 10 && most == 19 && fabs(sum / N - 14.5) < 0.1);
    assert_true(fabs(v[N / 2] / 300.0 - 1) < 0.03);            /* the median */
    assert_true(fabs(v[N * 8413 / 10000] / 667.7 - 1) < 0.04); /* one deviation above: 300 e^0.8 */
    assert_int_equal(p.untimed, N);
    tool_replay_plan_done(&p);
}

static void one_seed_draws_one_load_and_another_another(void **state)
{
    (void)state;
    tool_replay_plan a, b, c;
    draw(&a, "in:10-900,out:5,rate:4,shared:7", 1);
    draw(&b, "in:10-900,out:5,rate:4,shared:7", 1);
    draw(&c, "in:10-900,out:5,rate:4,shared:7", 2);
    size_t other = 0;
    for (size_t i = 0; i < N; i++) {
        assert_true(a.item[i].due_us == b.item[i].due_us &&
                    a.item[i].prompt_tokens == b.item[i].prompt_tokens);
        other += a.item[i].prompt_tokens != c.item[i].prompt_tokens;
        assert_int_equal(a.item[i].shared_tokens, 7);
    }
    assert_true(other > N / 2);
    tool_replay_plan_done(&a);
    tool_replay_plan_done(&b);
    tool_replay_plan_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_names_lengths_arrivals_and_what_is_shared),
        cmocka_unit_test(a_wrong_part_is_named),
        cmocka_unit_test(gaps_have_the_mean_of_the_rate_and_the_variation_of_the_burst),
        cmocka_unit_test(lengths_have_their_distribution),
        cmocka_unit_test(one_seed_draws_one_load_and_another_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
