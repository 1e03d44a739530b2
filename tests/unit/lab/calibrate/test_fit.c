/* Times that are known exactly come back from the fitted profile, at points that were fitted and at others.
 */
#include "lab/calibrate/fit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bt_price_model model(void)
{
    const bt_price_recipe f16 = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16};
    return bt_price_model_of(bt_dims_find("llama-3.2-1b"), &f16);
}

/* A made-up server: T(n) and t(batch, context) in milliseconds. */
typedef struct server {
    double fixed, token, square;
    double step, row, position; /* of a step; for each further row; for each position of each row */
} server;
static double prompt_ms(const server *s, double n) { return s->fixed + s->token * n + s->square * n * n; }
static double step_ms(const server *s, double batch, double ctx)
{
    return s->step + s->row * (batch - 1) + s->position * batch * ctx;
}

static tool_calibrate_points asked(const server *s)
{
    static const uint32_t lengths[] = {16, 45, 128, 362, 1024}, batches[] = {2, 4, 8};
    tool_calibrate_points p = {.prompts = 0};
    for (size_t i = 0; i < 5; i++) {
        p.prompt[p.prompts++] = (tool_calibrate_prompt){lengths[i], 1e6 * prompt_ms(s, lengths[i])};
        p.step[p.steps++] = (tool_calibrate_step){1, lengths[i] + 12, 1e6 * step_ms(s, 1, lengths[i] + 12)};
    }
    for (size_t i = 0; i < 3; i++)
        p.step[p.steps++] = (tool_calibrate_step){batches[i], 76, 1e6 * step_ms(s, batches[i], 76)};
    return p;
}

static void near(double got, double want, double share, const char *what, unsigned n)
{
    if (fabs(got / want - 1) > share) fail_msg("%s %u: %.4f ms, not %.4f", what, n, got / 1e6, want / 1e6);
}

static void known_times_come_back(void **state)
{
    (void)state;
    static const server servers[] = {
        {25, 0.5, 0, 20, 1, 0},              /* a straight line, and steps that hardly feel a context */
        {0, 12, 0.0002, 30, 10, 0.004},      /* a CPU: each row costs, long contexts too */
        {40, 0.05, 0.00001, 8, 0.1, 0.0005}, /* a GPU far away: mostly fixed */
        {70, 1, 0, 60, 2, 0.003},            /* quick prompts, slow steps */
    };
    static const uint32_t others[] = {20, 80, 200, 500, 700}, batches[] = {1, 3, 6};
    const bt_price_model m = model();
    for (size_t k = 0; k < sizeof servers / sizeof *servers; k++) {
        const server *s = &servers[k];
        const tool_calibrate_points p = asked(s);
        bt_profile_time t;
        bt_fault f = {""};
        if (tool_calibrate_fit(&t, &m, &p, &f) < 0) fail_msg("%s", f.text);
        if (bt_profile_time_check(&t, &f) < 0) fail_msg("%s", f.text);
        for (size_t i = 0; i < p.prompts; i++)
            near(tool_calibrate_prompt_ns(&t, &m, p.prompt[i].tokens), p.prompt[i].ns, 0.03, "prompt",
                 p.prompt[i].tokens);
        for (size_t i = 0; i < 5; i++)
            near(tool_calibrate_prompt_ns(&t, &m, others[i]), 1e6 * prompt_ms(s, others[i]), 0.05, "between",
                 others[i]);
        for (size_t i = 0; i < p.steps; i++)
            near(tool_calibrate_step_ns(&t, &m, p.step[i].batch, p.step[i].ctx), p.step[i].ns, 0.06, "batch",
                 p.step[i].batch);
        for (size_t i = 0; i < 3; i++)
            near(tool_calibrate_step_ns(&t, &m, batches[i], 90), 1e6 * step_ms(s, batches[i], 90), 0.08,
                 "other batch", batches[i]);
    }
}

static void the_fixed_time_of_a_request_is_found(void **state)
{
    (void)state;
    const server s = {40, 0.5, 0, 10, 0.5, 0};
    const bt_price_model m = model();
    const tool_calibrate_points p = asked(&s);
    bt_profile_time t;
    assert_int_equal(tool_calibrate_fit(&t, &m, &p, NULL), BT_OK);
    near((double)t.first_launch_ns * m.operators + t.dispatch_ns, 40e6, 0.01, "fixed", 0);
}

static void too_little_is_refused_with_what_is_missing(void **state)
{
    (void)state;
    const server s = {40, 0.5, 0, 10, 0.5, 0};
    const bt_price_model m = model();
    tool_calibrate_points p = asked(&s);
    bt_profile_time t;
    bt_fault f = {""};
    p.prompts = 2;
    assert_int_equal(tool_calibrate_fit(&t, &m, &p, &f), BT_EARG);
    assert_non_null(strstr(f.text, "2 different lengths"));
    p = asked(&s);
    p.prompt[1] = p.prompt[2] = p.prompt[3] = p.prompt[0];
    assert_int_equal(tool_calibrate_fit(&t, &m, &p, &f), BT_EARG);
    p = asked(&s);
    for (size_t i = 0; i < p.steps; i++) p.step[i].batch++;
    assert_int_equal(tool_calibrate_fit(&t, &m, &p, &f), BT_EARG);
    assert_non_null(strstr(f.text, "alone"));
    p = asked(&s);
    p.step[3].ns = 0;
    assert_int_equal(tool_calibrate_fit(&t, &m, &p, &f), BT_EARG);
    p = asked(&s);
    p.prompt[3].ns = NAN;
    assert_int_equal(tool_calibrate_fit(&t, &m, &p, &f), BT_EARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_times_come_back),
        cmocka_unit_test(the_fixed_time_of_a_request_is_found),
        cmocka_unit_test(too_little_is_refused_with_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
