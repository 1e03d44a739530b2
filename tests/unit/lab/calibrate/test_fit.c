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

static tool_calibrate_model model(void)
{
    tool_calibrate_model m = {.dims = *bt_dims_find("llama-3.2-1b"),
                              .recipe = {.weight_bits = 16, .input_bits = 16, .kv_elem_bits = 16}};
    m.price = bt_price_model_of(&m.dims, &m.recipe);
    return m;
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
    const tool_calibrate_model m = model();
    for (size_t k = 0; k < sizeof servers / sizeof *servers; k++) {
        const server *s = &servers[k];
        const tool_calibrate_points p = asked(s);
        bt_profile t;
        uint32_t constants;
        bt_fault f = {""};
        if (tool_calibrate_fit(&t, &constants, &m, &p, &f) < 0) fail_msg("%s", f.text);
        if (bt_profile_time_check(&t.time, &f) < 0) fail_msg("%s", f.text);
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
    const tool_calibrate_model m = model();
    const tool_calibrate_points p = asked(&s);
    bt_profile t;
    uint32_t constants;
    assert_int_equal(tool_calibrate_fit(&t, &constants, &m, &p, NULL), BT_OK);
    near((double)t.time.first_launch_ns * m.price.operators + t.time.dispatch_ns, 40e6, 0.01, "fixed", 0);
}

static void too_little_is_refused_with_what_is_missing(void **state)
{
    (void)state;
    const server s = {40, 0.5, 0, 10, 0.5, 0};
    const tool_calibrate_model m = model();
    tool_calibrate_points p = asked(&s);
    bt_profile t;
    uint32_t constants;
    bt_fault f = {""};
    p.prompts = 1;
    assert_int_equal(tool_calibrate_fit(&t, &constants, &m, &p, &f), BT_EARG);
    assert_non_null(strstr(f.text, "different lengths of prompts: 1;"));
    p = asked(&s);
    p.prompt[1] = p.prompt[2] = p.prompt[3] = p.prompt[4] = p.prompt[0];
    assert_int_equal(tool_calibrate_fit(&t, &constants, &m, &p, &f), BT_EARG);
    p = asked(&s);
    for (size_t i = 1; i < p.steps; i++) p.step[i].batch++;
    assert_int_equal(tool_calibrate_fit(&t, &constants, &m, &p, &f), BT_EARG);
    assert_non_null(strstr(f.text, "contexts of steps of one sequence: 1; at least 2 of each are needed"));
    p = asked(&s);
    p.step[3].ns = 0;
    assert_int_equal(tool_calibrate_fit(&t, &constants, &m, &p, &f), BT_EARG);
    p = asked(&s);
    p.prompt[3].ns = NAN;
    assert_int_equal(tool_calibrate_fit(&t, &constants, &m, &p, &f), BT_EARG);
}

/* ---- programs ---- */

/* A server that pads prompts to programs of these rows. */
static tool_calibrate_points padded(const uint32_t *rows, uint32_t n, bool is_edges)
{
    static const uint32_t line[] = {16, 45, 128, 362, 1000};
    bt_profile_time t = {.programs = n};
    tool_calibrate_points p = {.prompts = 0};
    memcpy(t.program_rows, rows, n * sizeof *rows);
    for (size_t i = 0; i < 5; i++) p.prompt[p.prompts++].tokens = line[i];
    for (uint32_t edge = 16; is_edges && edge < 1000; edge *= 2) {
        p.prompt[p.prompts++].tokens = edge;
        p.prompt[p.prompts++].tokens = edge + 1;
    }
    for (size_t i = 0; i < p.prompts; i++)
        p.prompt[i].ns = 1e6 * (3 + 0.5 * (double)bt_time_program_rows(&t, p.prompt[i].tokens)) *
                         (1 + 0.01 * (double)((int)(i % 3) - 1)); /* nothing is measured exactly */
    for (uint32_t i = 0; i < 5; i++) p.step[p.steps++] = (tool_calibrate_step){1, line[i] + 12, 20e6};
    return p;
}

static void prompts_that_are_padded_show_their_programs(void **state)
{
    (void)state;
    static const struct {
        uint32_t n, rows[6];
    } servers[] = {{5, {16, 32, 64, 128, 256}}, {1, {128}}, {2, {32, 256}}, {3, {64, 256, 1024}}};
    const tool_calibrate_model m = model();
    for (size_t k = 0; k < sizeof servers / sizeof *servers; k++) {
        const tool_calibrate_points p = padded(servers[k].rows, servers[k].n, true);
        bt_profile t;
        uint32_t constants;
        assert_true(tool_calibrate_is_uneven(&p));
        assert_int_equal(tool_calibrate_fit(&t, &constants, &m, &p, NULL), BT_OK);
        if (t.time.programs != servers[k].n) fail_msg("server %zu: %u programs", k, t.time.programs);
        for (uint32_t i = 0; i < t.time.programs; i++)
            assert_int_equal(t.time.program_rows[i], servers[k].rows[i]);
        assert_true(constants >= servers[k].n);
        /* the prompt of the issue: 140 tokens in a program of 256 */
        const double want = 1e6 * (3 + 0.5 * (double)bt_time_program_rows(&t.time, 140));
        near(tool_calibrate_prompt_ns(&t, &m, 140), want, 0.05, "padded", 140);
    }
}

static void smooth_prompts_have_no_programs(void **state)
{
    (void)state;
    static const uint32_t one[] = {1};
    const tool_calibrate_model m = model();
    for (int is_edges = 0; is_edges < 2; is_edges++) {
        const tool_calibrate_points p = padded(one, 1, is_edges);
        bt_profile t;
        uint32_t constants;
        assert_false(tool_calibrate_is_uneven(&p));
        assert_int_equal(tool_calibrate_fit(&t, &constants, &m, &p, NULL), BT_OK);
        assert_int_equal(t.time.programs, 0);
    }
}

/* ---- over a known device ---- */

static bt_profile device(const char *name)
{
    bt_profile p;
    assert_int_equal(bt_profile_load(&p, name, NULL), BT_OK);
    return p;
}

/* Prices of a device that is known, under other constants. */
static tool_calibrate_points priced(const bt_profile *p, const tool_calibrate_model *m)
{
    static const uint32_t lengths[] = {128, 700, 3000};
    tool_calibrate_points r = {.prompts = 0};
    for (size_t i = 0; i < 3; i++) {
        r.prompt[r.prompts++] =
            (tool_calibrate_prompt){lengths[i], tool_calibrate_prompt_ns(p, m, lengths[i])};
        r.step[r.steps++] = (tool_calibrate_step){1, lengths[i], tool_calibrate_step_ns(p, m, 1, lengths[i])};
    }
    return r;
}

static void fitted_constants_come_back_and_others_are_kept(void **state)
{
    (void)state;
    static const char *const names[] = {"rtx-4090", "hexagon-v75"}; /* prompts wait for products; for weights
                                                                     */
    const tool_calibrate_model m = model();
    for (size_t k = 0; k < 2; k++) {
        const bt_profile like = device(names[k]);
        bt_profile is = like, got;
        uint32_t fitted;
        is.time.decode_bytes_per_us = is.time.memory_bytes_per_us * 2 / 5;
        is.time.first_launch_ns = 90000;
        if (k) is.time.weight_bytes_per_us = is.time.weight_bytes_per_us * 2 / 3;
        else is.time.points = 1, is.time.efficiency[0].rows = 1, is.time.efficiency[0].permille = 400;
        const tool_calibrate_points p = priced(&is, &m);
        bt_fault f = {""};
        if (tool_calibrate_fit_like(&got, &fitted, &like, &m, &p, 0, &f) < 0) fail_msg("%s", f.text);
        for (size_t i = 0; i < p.prompts; i++) {
            near(tool_calibrate_prompt_ns(&got, &m, p.prompt[i].tokens), p.prompt[i].ns, 0.08, names[k],
                 p.prompt[i].tokens);
            near(tool_calibrate_step_ns(&got, &m, 1, p.step[i].ctx), p.step[i].ns, 0.03, names[k],
                 p.step[i].ctx);
        }
        assert_int_equal(fitted, (k ? TOOL_CALIBRATE_WEIGHT_RATE : TOOL_CALIBRATE_EFFICIENCY) |
                                     TOOL_CALIBRATE_FIRST_LAUNCH | TOOL_CALIBRATE_DECODE_RATE |
                                     TOOL_CALIBRATE_DISPATCH);
        assert_int_equal(got.time.f16_ops_per_us, like.time.f16_ops_per_us);
        assert_int_equal(got.time.memory_bytes_per_us, like.time.memory_bytes_per_us);
        assert_int_equal(got.time.activation_bytes_per_us, like.time.activation_bytes_per_us);
        assert_int_equal(got.time.tdp_mw, like.time.tdp_mw);
        assert_int_equal(bt_profile_time_check(&got.time, NULL), BT_OK);
    }
}

static void what_no_peak_allows_and_what_is_too_little_is_refused(void **state)
{
    (void)state;
    const tool_calibrate_model m = model();
    const bt_profile like = device("h100"), host = device("host");
    tool_calibrate_points p = {.prompt = {{512, 20e6}}, .prompts = 1, .step = {{1, 1024, 3e6}}, .steps = 1};
    const tool_calibrate_points good = p;
    bt_profile got;
    uint32_t fitted;
    bt_fault f = {""};
    assert_int_equal(tool_calibrate_fit_like(&got, &fitted, &like, &m, &p, 0, NULL), BT_OK);
    assert_int_equal(fitted, TOOL_CALIBRATE_EFFICIENCY | TOOL_CALIBRATE_DECODE_RATE);
    p.prompt[0].ns = 0.5e6;
    assert_int_equal(tool_calibrate_fit_like(&got, &fitted, &like, &m, &p, 0, &f), BT_EARG);
    assert_non_null(strstr(f.text, "a prompt of 512 tokens in 0.5 ms: the peaks of 'h100' allow"));
    p = good;
    p.step[0].ns = 0.2e6;
    assert_int_equal(tool_calibrate_fit_like(&got, &fitted, &like, &m, &p, 0, &f), BT_EARG);
    assert_non_null(strstr(f.text, "a step of 1 at 1024 positions"));
    p.step[0].ns = -1;
    assert_int_equal(tool_calibrate_fit_like(&got, &fitted, &like, &m, &p, 0, NULL), BT_EARG);
    const uint32_t two = TOOL_CALIBRATE_DECODE_RATE | TOOL_CALIBRATE_DISPATCH;
    assert_int_equal(tool_calibrate_fit_like(&got, &fitted, &like, &m, &good, two, &f), BT_EARG);
    assert_non_null(
        strstr(f.text, "constants that are asked for: 2 (decode_bytes_per_us, dispatch_ns); kinds of steps: "
                       "1; at least 2 needed"));
    p = (tool_calibrate_points){.prompts = 0};
    assert_int_equal(tool_calibrate_fit_like(&got, &fitted, &like, &m, &p, 0, NULL), BT_EARG);
    assert_int_equal(tool_calibrate_fit_like(&got, &fitted, &host, &m, &good, 0, NULL), BT_EARG);
}

static void a_time_that_no_profile_has_a_rate_for_is_refused(void **state)
{
    (void)state;
    const tool_calibrate_model m = model();
    const server s = {.fixed = 12, .token = 0.05, .step = 10, .row = 1};
    tool_calibrate_points p = asked(&s);
    bt_profile got;
    uint32_t constants;
    bt_fault f = {""};
    assert_int_equal(tool_calibrate_fit(&got, &constants, &m, &p, &f), BT_OK);
    p.prompt[4].ns = 1;
    assert_int_equal(tool_calibrate_fit(&got, &constants, &m, &p, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "a prompt of 1024 tokens in 1e-06 ms"));
    p = asked(&s);
    p.step[0].ns = 1;
    assert_int_equal(tool_calibrate_fit(&got, &constants, &m, &p, &f), BT_ELIMIT);
    assert_non_null(strstr(f.text, "a step of 1 in 1e-06 ms"));
}

/* Programs that the other profile has are its own; those that prompts show are fitted. */
static void only_programs_that_prompts_show_are_fitted(void **state)
{
    (void)state;
    const tool_calibrate_model m = model();
    bt_profile like = device("rtx-4090"), padded = like, got;
    padded.time.programs = 2;
    padded.time.program_rows[0] = 64;
    padded.time.program_rows[1] = 256;
    tool_calibrate_points p = {.prompts = 0};
    static const uint32_t lengths[] = {16, 40, 63, 64, 65, 100, 140, 255, 256};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        p.prompt[p.prompts++] = (tool_calibrate_prompt){lengths[i], lengths[i] <= 64 ? 94e6 : 286e6};
    uint32_t fitted;
    assert_int_equal(tool_calibrate_fit_like(&got, &fitted, &like, &m, &p, 0, NULL), BT_OK);
    assert_int_equal(got.time.programs, 2);
    assert_true(fitted & TOOL_CALIBRATE_PROGRAMS);
    p.prompts = 2;
    assert_int_equal(tool_calibrate_fit_like(&got, &fitted, &padded, &m, &p, 0, NULL), BT_OK);
    assert_int_equal(got.time.programs, 2);
    assert_false(fitted & TOOL_CALIBRATE_PROGRAMS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_times_come_back),
        cmocka_unit_test(the_fixed_time_of_a_request_is_found),
        cmocka_unit_test(too_little_is_refused_with_what_is_missing),
        cmocka_unit_test(prompts_that_are_padded_show_their_programs),
        cmocka_unit_test(smooth_prompts_have_no_programs),
        cmocka_unit_test(fitted_constants_come_back_and_others_are_kept),
        cmocka_unit_test(what_no_peak_allows_and_what_is_too_little_is_refused),
        cmocka_unit_test(a_time_that_no_profile_has_a_rate_for_is_refused),
        cmocka_unit_test(only_programs_that_prompts_show_are_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
