/* Error bars and draws: what a profile's calibration says of a figure, and what its device may really take.
 */
#include "device/forecast.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { SEED = 7, DRAWS = 2000 };

static bt_profile device(const char *title, const char *stack)
{
    bt_profile p = {.time = {.is_given = true}};
    (void)snprintf(p.name, sizeof p.name, "%s", title);
    (void)snprintf(p.title, sizeof p.title, "%s", title);
    (void)snprintf(p.time.stack, sizeof p.time.stack, "%s", stack);
    return p;
}

static bt_profile calibrated(const char *title)
{
    static const int32_t residuals[] = {-80, -31, 0, 22, 90};
    bt_profile p = device(title, "vllm");
    bt_calibration *c = &p.time.calibration;
    (void)snprintf(c->on, sizeof c->on, "rows of a test");
    c->rows = 40, c->shapes = 3, c->has_prefill = c->has_decode = 1;
    c->error[BT_FIGURE_TTFT].median_permille = 90;
    c->error[BT_FIGURE_TTFT].worst_permille = 310;
    c->error[BT_FIGURE_TTFT].bias_permille = -12;
    c->error[BT_FIGURE_TTFT].rows = 17;
    c->region[BT_AXIS_ROWS].lo = 1, c->region[BT_AXIS_ROWS].hi = 8192;
    c->region[BT_AXIS_CONTEXT].lo = 1, c->region[BT_AXIS_CONTEXT].hi = 32768;
    c->region[BT_AXIS_DEVICES].lo = 1, c->region[BT_AXIS_DEVICES].hi = 2;
    for (int k = 0; k < BT_TERMS; k++) {
        c->residuals[k] = sizeof residuals / sizeof *residuals;
        memcpy(c->residual[k], residuals, sizeof residuals);
    }
    return p;
}

static bt_profile fitted(const char *title)
{
    bt_profile p = device(title, "flm");
    (void)snprintf(p.time.calibration.on, sizeof p.time.calibration.on, "two rows");
    p.time.calibration.rows = 2;
    return p;
}

static const char *said(const bt_profile *p, bt_figure kind, bt_forecast_at at)
{
    static char text[BT_FORECAST_TEXT_BYTES];
    const bt_forecast_error e = bt_forecast_error_of(p, kind, &at);
    return bt_forecast_error_text(text, &e);
}

static void an_error_bar_is_that_of_rows_held_out_a_guess_or_none(void **state)
{
    (void)state;
    bt_profile c = calibrated("c"), f = fitted("f"), b = device("b", "any");
    assert_string_equal(said(&c, BT_FIGURE_TTFT, (bt_forecast_at){0}), "+- 9 %");
    assert_string_equal(said(&c, BT_FIGURE_TPOT, (bt_forecast_at){0}), "+- 35 % (assumed)");
    assert_string_equal(said(&f, BT_FIGURE_TTFT, (bt_forecast_at){0}), "+- 35 % (assumed)");
    assert_string_equal(said(&b, BT_FIGURE_TTFT, (bt_forecast_at){.rows = 5}), "bound");
    c.time.calibration.error[BT_FIGURE_TTFT].median_permille = 4;
    assert_string_equal(said(&c, BT_FIGURE_TTFT, (bt_forecast_at){0}), "+- 0.4 %");
}

static void a_figure_is_a_bound_where_a_field_that_is_left_out_makes_it_one(void **state)
{
    (void)state;
    const bt_profile c = calibrated("c"), b = device("b", "uncalibrated");
    const struct {
        const char *model, *said;
    } all[] = {{"llama-3.1-8b", "+- 9 %"},
               {"gpt-oss-20b", "bound"},
               {"qwen3-30b-a3b", "bound"},
               {"llama-3.2-11b", "bound"},
               {"deepseek-v3", "bound"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const bt_forecast_at at = {.model = bt_dims_find(all[i].model)};
        assert_non_null(at.model);
        assert_string_equal(said(&c, BT_FIGURE_TTFT, at), all[i].said);
        const bt_forecast_error e = bt_forecast_error_of(&c, BT_FIGURE_TTFT, &at);
        assert_int_equal(e.standing == BT_STANDING_CALIBRATED, i == 0);
        assert_string_equal(said(&b, BT_FIGURE_TTFT, at), "bound");
    }
    /* no row beyond a window calibrates; one within it is as of any model */
    const bt_dims *window = bt_dims_find("gemma-3-4b");
    static const char *const by_context[] = {"+- 35 % (assumed)", "+- 9 %",
                                             "+- 35 % (assumed) (outside: context)"};
    static const uint64_t contexts[] = {0, 1024, 1025};
    for (size_t i = 0; i < 3; i++) {
        const bt_forecast_at at = {.model = window, .context = contexts[i]};
        assert_string_equal(said(&c, BT_FIGURE_TTFT, at), by_context[i]);
        assert_string_equal(said(&b, BT_FIGURE_TTFT, at), "bound");
        assert_int_equal(bt_forecast_is_beyond_window(&at), i == 2);
    }
    /* too long for a prompt and too short for a step: no bound, and how wrong nobody knows */
    bt_dims latent = *bt_dims_find("llama-3.1-8b");
    latent.latent_rank = 512;
    assert_string_equal(said(&c, BT_FIGURE_TTFT, (bt_forecast_at){.model = &latent}), "+- 35 % (assumed)");
}

static void a_figure_beyond_what_was_calibrated_says_in_what(void **state)
{
    (void)state;
    bt_profile c = calibrated("c");
    assert_string_equal(
        said(&c, BT_FIGURE_TTFT, (bt_forecast_at){.rows = 8192, .batch = 9999, .context = 32768}), "+- 9 %");
    assert_string_equal(said(&c, BT_FIGURE_TTFT,
                             (bt_forecast_at){.rows = 8193, .batch = 1, .context = 32769}),
                        "+- 9 % (outside: rows, context)");
    c.time.devices = 4;
    assert_string_equal(said(&c, BT_FIGURE_TTFT, (bt_forecast_at){0}), "+- 9 % (outside: group)");
}

static void of_two_errors_the_worse_one_counts_and_both_regions(void **state)
{
    (void)state;
    const bt_forecast_error good = {BT_STANDING_CALIBRATED, 90, 310, 0, 12, 1u << BT_AXIS_ROWS},
                            worse = {BT_STANDING_CALIBRATED, 120, 200, 0, 12, 1u << BT_AXIS_BATCH},
                            bound = {.standing = BT_STANDING_BOUND};
    bt_forecast_error e = bt_forecast_error_worse(&good, &worse);
    assert_int_equal(e.median_permille, 120);
    assert_int_equal(e.outside, 1u << BT_AXIS_ROWS | 1u << BT_AXIS_BATCH);
    e = bt_forecast_error_worse(&good, &bound);
    assert_int_equal(e.standing, BT_STANDING_BOUND);
    assert_int_equal(e.outside, 1u << BT_AXIS_ROWS);
}

static void an_error_in_json_has_null_for_what_is_not_known(void **state)
{
    (void)state;
    const bt_profile c = calibrated("c"), b = device("b", "any");
    json_t *o = bt_forecast_errors_json(&c);
    char *text = json_dumps(o, JSON_COMPACT);
    assert_string_equal(
        text, "{\"ttft\":{\"text\":\"+- 9 "
              "%\",\"median_permille\":90,\"worst_permille\":310,\"bias_permille\":-12,\"rows\":17,"
              "\"is_calibrated\":true,\"outside\":[]},"
              "\"tpot\":{\"text\":\"+- 35 % "
              "(assumed)\",\"median_permille\":350,\"worst_permille\":null,\"bias_permille\":null,\"rows\":0,"
              "\"is_calibrated\":false,\"outside\":[]},"
              "\"joules\":{\"text\":\"+- 35 % "
              "(assumed)\",\"median_permille\":350,\"worst_permille\":null,\"bias_permille\":null,\"rows\":0,"
              "\"is_calibrated\":false,\"outside\":[]}}");
    free(text);
    json_decref(o);
    o = bt_forecast_errors_json(&b);
    assert_true(json_is_null(json_object_get(json_object_get(o, "ttft"), "median_permille")));
    json_decref(o);
}

static void draws_are_those_of_seed_and_number_and_of_the_device_and_stack(void **state)
{
    (void)state;
    const bt_profile p = calibrated("c"), other = calibrated("d");
    bt_profile group = p, stack = p;
    uint32_t alike = 0;
    group.time.devices = 4;
    (void)snprintf(group.name, sizeof group.name, "cx4");
    (void)snprintf(stack.time.stack, sizeof stack.time.stack, "torch");
    for (uint64_t i = 0; i < DRAWS; i++) {
        const bt_forecast_draw d = bt_forecast_draw_of(&p, BT_STANDING_CALIBRATED, SEED, i),
                               again = bt_forecast_draw_of(&p, BT_STANDING_CALIBRATED, SEED, i),
                               g = bt_forecast_draw_of(&group, BT_STANDING_CALIBRATED, SEED, i),
                               o = bt_forecast_draw_of(&other, BT_STANDING_CALIBRATED, SEED, i),
                               s = bt_forecast_draw_of(&stack, BT_STANDING_CALIBRATED, SEED, i),
                               t = bt_forecast_draw_of(&p, BT_STANDING_CALIBRATED, SEED + 1, i);
        assert_memory_equal(&d, &again, sizeof d);
        assert_memory_equal(&d, &g, sizeof d);
        alike += !memcmp(&d, &o, sizeof d) + !memcmp(&d, &s, sizeof d) + !memcmp(&d, &t, sizeof d);
    }
    assert_true(alike < 3);
}

/* The share of draws whose factor of products is below a number. */
static double below(const bt_profile *p, uint32_t permille, uint32_t *least, uint32_t *most)
{
    uint32_t n = 0;
    *least = UINT32_MAX;
    *most = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        const uint32_t f = bt_forecast_draw_of(p, BT_STANDING_CALIBRATED, SEED, i).permille[BT_TERM_PRODUCTS];
        n += f < permille;
        if (f < *least) *least = f;
        if (f > *most) *most = f;
    }
    return (double)n / DRAWS;
}

static void draws_have_the_residuals_of_a_calibration_and_the_prior_of_a_bound(void **state)
{
    (void)state;
    bt_profile c = calibrated("c"), f = fitted("f"), b = device("b", "any");
    uint32_t least, most;
    double half = below(&c, 1000, &least, &most); /* the third of five */
    assert_true(half > .46 && half < .54);
    assert_true(least >= 920 && least < 925 && most <= 1090 && most > 1085);
    half = below(&b, 1690, &least, &most); /* 0.35 ^ -1/2 */
    assert_true(half > .46 && half < .54);
    assert_true(least >= 1000 && least < 1010 && most <= 2857 && most > 2830);
    half = below(&f, 1350, &least, &most) - below(&f, 741, &least, &most); /* within 35 %, up and down */
    assert_true(half > .46 && half < .54);
    c.time.calibration.residuals[BT_TERM_PRODUCTS] = 0; /* twice the median of 9 % */
    half = below(&c, 1000, &least, &most);
    assert_true(half > .46 && half < .54);
    assert_true(least >= 820 && least < 825 && most <= 1180 && most > 1175);
}

static void the_band_of_a_fitted_device_holds_its_own_figure_whatever_its_rows_left(void **state)
{
    (void)state;
    bt_profile f = fitted("f");
    uint32_t least, most;
    f.time.calibration.residuals[BT_TERM_PRODUCTS] = 1; /* all draws would be 1.5 times the figure */
    f.time.calibration.residual[BT_TERM_PRODUCTS][0] = 500;
    const double half = below(&f, 1000, &least, &most);
    assert_true(half > .46 && half < .54);
    assert_true(least < 560 && most > 1800);
}

static void a_draw_scales_each_term_by_itself(void **state)
{
    (void)state;
    const bt_forecast_draw d = {{1100, 2000, 500, 1000}};
    const uint64_t terms[BT_TERMS] = {1000, 100, 10, 1};
    assert_int_equal(bt_forecast_ns(&d, terms), 1100 + 200 + 5 + 1);
    const uint64_t large[BT_TERMS] = {INT64_MAX, INT64_MAX, 0, 0};
    assert_int_equal(bt_forecast_ns(&d, large), INT64_MAX);
}

/* How often a's time is less than b's. */
static uint32_t wins(const bt_profile *a, const uint64_t *a_ns, const bt_profile *b, const uint64_t *b_ns)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        const bt_forecast_draw x = bt_forecast_draw_of(a, BT_STANDING_CALIBRATED, SEED, i),
                               y = bt_forecast_draw_of(b, BT_STANDING_CALIBRATED, SEED, i);
        n += bt_forecast_ns(&x, a_ns) < bt_forecast_ns(&y, b_ns);
    }
    return n;
}

static void a_common_error_cancels_on_one_device_and_not_on_two(void **state)
{
    (void)state;
    const uint64_t fast[BT_TERMS] = {900000, 90000, 9000, 9000}, slow[BT_TERMS] = {910000, 91000, 9100, 9100};
    const bt_profile c = calibrated("c"), d = calibrated("d"), b = device("b", "any");
    assert_int_equal(wins(&c, fast, &c, slow), DRAWS);
    assert_int_equal(wins(&b, fast, &b, slow), DRAWS); /* a bound, too */
    assert_in_range(wins(&c, fast, &d, slow), DRAWS / 2, DRAWS * 7 / 10);
}

static void a_bound_never_wins_for_certain_against_a_calibrated_device_within_its_prior(void **state)
{
    (void)state;
    const bt_profile c = calibrated("c"), b = device("b", "any");
    const uint64_t calibrated_ns[BT_TERMS] = {1000000, 0, 0, 0};
    for (uint64_t ns = 400000; ns <= 1000000; ns += 100000)
        assert_true(wins(&b, (const uint64_t[BT_TERMS]){ns, 0, 0, 0}, &c, calibrated_ns) < DRAWS * 9 / 10);
    /* beyond it, it does */
    assert_int_equal(wins(&b, (const uint64_t[BT_TERMS]){300000, 0, 0, 0}, &c, calibrated_ns), DRAWS);
}

static void a_calibrated_device_beside_a_bound_is_refused_with_both_names(void **state)
{
    (void)state;
    const bt_profile c = calibrated("one"), b = device("two", "any"), f = fitted("three");
    bt_fault fault = {""};
    assert_int_equal(bt_forecast_check_pair(&c, &c, "--bounds", &fault), BT_OK);
    assert_int_equal(bt_forecast_check_pair(&b, &b, "--bounds", &fault), BT_OK);
    assert_int_equal(bt_forecast_check_pair(&c, &f, "--bounds", &fault), BT_OK);
    assert_int_equal(bt_forecast_check_pair(&c, &b, "--bounds", &fault), BT_EARG);
    assert_non_null(strstr(fault.text, "'two' is a bound by a data sheet, and 'one' is calibrated"));
    assert_non_null(strstr(fault.text, "--bounds"));
    assert_int_equal(bt_forecast_check_pair(&b, &c, "--bounds", &fault), BT_EARG);
    assert_non_null(strstr(fault.text, "'two' is a bound"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_bar_is_that_of_rows_held_out_a_guess_or_none),
        cmocka_unit_test(a_figure_is_a_bound_where_a_field_that_is_left_out_makes_it_one),
        cmocka_unit_test(a_figure_beyond_what_was_calibrated_says_in_what),
        cmocka_unit_test(of_two_errors_the_worse_one_counts_and_both_regions),
        cmocka_unit_test(an_error_in_json_has_null_for_what_is_not_known),
        cmocka_unit_test(draws_are_those_of_seed_and_number_and_of_the_device_and_stack),
        cmocka_unit_test(draws_have_the_residuals_of_a_calibration_and_the_prior_of_a_bound),
        cmocka_unit_test(the_band_of_a_fitted_device_holds_its_own_figure_whatever_its_rows_left),
        cmocka_unit_test(a_draw_scales_each_term_by_itself),
        cmocka_unit_test(a_common_error_cancels_on_one_device_and_not_on_two),
        cmocka_unit_test(a_bound_never_wins_for_certain_against_a_calibrated_device_within_its_prior),
        cmocka_unit_test(a_calibrated_device_beside_a_bound_is_refused_with_both_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
