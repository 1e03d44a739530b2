/* Error bars from what a profile says of its calibration, and draws over the residuals. */
#include "device/forecast.h"
#include "base/hash.h"
#include "base/rng.h"
#include "device/time.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* ---- error bars ---- */

uint32_t bt_forecast_outside(const uint32_t region[BT_AXES][2], const uint64_t where[BT_AXES])
{
    uint32_t outside = 0;
    for (uint32_t k = 0; k < BT_AXES; k++)
        if (where[k] && region[k][1] && (where[k] < region[k][0] || where[k] > region[k][1]))
            outside |= 1u << k;
    return outside;
}

bool bt_forecast_is_beyond_window(const bt_forecast_at *at)
{
    return at->model && at->model->windowed && at->context > at->model->window;
}

static bt_standing standing_of(const bt_calibration *c, const bt_forecast_at *at)
{
    bt_dims_ignored left_out[BT_DIMS_IGNORED];
    const size_t n = at->model ? bt_dims_ignored_of(left_out, at->model) : 0;
    const bool may_be_beyond =
        at->model && at->model->windowed && (!at->context || bt_forecast_is_beyond_window(at));
    bt_standing standing = bt_calibration_standing(c);
    if (may_be_beyond && standing > BT_STANDING_FITTED) standing = BT_STANDING_FITTED;
    for (size_t i = 0; i < n; i++) {
        const bool is_bound = strcmp(left_out[i].bound, "none") != 0;
        const bt_standing most = is_bound ? BT_STANDING_BOUND : BT_STANDING_FITTED;
        if (most < standing) standing = most;
    }
    return standing;
}

bt_forecast_error bt_forecast_error_of(const bt_profile *p, bt_figure kind, const bt_forecast_at *at)
{
    const bt_calibration *c = &p->time.calibration;
    const uint64_t where[BT_AXES] = {[BT_AXIS_ROWS] = at->rows,
                                     [BT_AXIS_BATCH] = at->batch,
                                     [BT_AXIS_CONTEXT] = at->context,
                                     [BT_AXIS_DEVICES] = bt_profile_devices(&p->time)};
    bt_forecast_error e = {.standing = standing_of(c, at)};
    if (e.standing == BT_STANDING_BOUND) return e;
    if (e.standing == BT_STANDING_CALIBRATED && !c->error[kind].rows) e.standing = BT_STANDING_FITTED;
    e.median_permille = BT_CALIBRATION_UNKNOWN_PERMILLE;
    if (e.standing == BT_STANDING_CALIBRATED) {
        e.median_permille = c->error[kind].median_permille;
        e.worst_permille = c->error[kind].worst_permille;
        e.bias_permille = c->error[kind].bias_permille;
        e.rows = c->error[kind].rows;
    }
    uint32_t region[BT_AXES][2];
    for (uint32_t k = 0; k < BT_AXES; k++) {
        region[k][0] = c->region[k].lo;
        region[k][1] = c->region[k].hi;
    }
    e.outside = bt_forecast_outside(region, where);
    if (bt_forecast_is_beyond_window(at)) e.outside |= 1u << BT_AXIS_CONTEXT;
    return e;
}

bt_forecast_error bt_forecast_error_worse(const bt_forecast_error *a, const bt_forecast_error *b)
{
    const bool is_b =
        b->standing != a->standing ? b->standing < a->standing : b->median_permille > a->median_permille;
    bt_forecast_error e = is_b ? *b : *a;
    e.outside = a->outside | b->outside;
    return e;
}

static const char *const outside_names[BT_AXES] = {"rows", "batch", "context", "group"};

char *bt_forecast_error_text(char ret[BT_FORECAST_TEXT_BYTES], const bt_forecast_error *e)
{
    size_t n = 0;
    if (e->standing == BT_STANDING_BOUND) {
        (void)snprintf(ret, BT_FORECAST_TEXT_BYTES, "bound");
        return ret;
    }
    const uint32_t permille = e->median_permille;
    if (permille < 10 && permille)
        n = (size_t)snprintf(ret, BT_FORECAST_TEXT_BYTES, "+- 0.%u %%", (unsigned)permille);
    else n = (size_t)snprintf(ret, BT_FORECAST_TEXT_BYTES, "+- %u %%", (unsigned)((permille + 5) / 10));
    if (e->standing == BT_STANDING_FITTED)
        n += (size_t)snprintf(ret + n, BT_FORECAST_TEXT_BYTES - n, " (assumed)");
    for (uint32_t k = 0, any = 0; k < BT_AXES; k++)
        if (e->outside >> k & 1)
            n += (size_t)snprintf(ret + n, BT_FORECAST_TEXT_BYTES - n, "%s%s",
                                  any++ ? ", " : " (outside: ", outside_names[k]);
    if (e->outside) (void)snprintf(ret + n, BT_FORECAST_TEXT_BYTES - n, ")");
    return ret;
}

char *bt_forecast_standing_text(char ret[BT_FORECAST_LINE_BYTES], const bt_profile *p)
{
    const bt_calibration *c = &p->time.calibration;
    int n = snprintf(ret, BT_FORECAST_LINE_BYTES, "%.63s (%.31s) ", p->name, p->time.stack);
    char *rest = ret + n;
    const size_t room = BT_FORECAST_LINE_BYTES - (size_t)n;
    switch (bt_calibration_standing(c)) {
    case BT_STANDING_BOUND:
        (void)snprintf(rest, room, "is a bound: its figures are the best that its data sheet allows");
        break;
    case BT_STANDING_FITTED:
        (void)snprintf(
            rest, room,
            "is fitted on %u rows (%s), too few prompts and steps to judge it: an error of %u %% is assumed",
            (unsigned)c->rows, c->on, BT_CALIBRATION_UNKNOWN_PERMILLE / 10u);
        break;
    case BT_STANDING_CALIBRATED:
        (void)snprintf(rest, room,
                       "is calibrated on %u rows (%s): half of the rows held out are within the error",
                       (unsigned)c->rows, c->on);
        break;
    }
    return ret;
}

void *bt_forecast_error_json(const bt_forecast_error *e)
{
    const bool is_bound = e->standing == BT_STANDING_BOUND;
    char text[BT_FORECAST_TEXT_BYTES];
    json_t *outside = json_array();
    for (uint32_t k = 0; k < BT_AXES; k++)
        if (e->outside >> k & 1) (void)json_array_append_new(outside, json_string(outside_names[k]));
    return json_pack("{s:s, s:o, s:o, s:o, s:I, s:b, s:o}", "text", bt_forecast_error_text(text, e),
                     "median_permille", is_bound ? json_null() : json_integer(e->median_permille),
                     "worst_permille", e->rows ? json_integer(e->worst_permille) : json_null(),
                     "bias_permille", e->rows ? json_integer(e->bias_permille) : json_null(), "rows",
                     (json_int_t)e->rows, "is_calibrated", e->standing == BT_STANDING_CALIBRATED, "outside",
                     outside);
}

void *bt_forecast_errors_json(const bt_profile *p)
{
    static const char *const names[BT_FIGURES] = {BT_FIGURE_NAMES};
    const bt_forecast_at nowhere = {0};
    json_t *o = json_object();
    for (int k = 0; k < BT_FIGURES; k++) {
        const bt_forecast_error e = bt_forecast_error_of(p, (bt_figure)k, &nowhere);
        (void)json_object_set_new(o, names[k], bt_forecast_error_json(&e));
    }
    return o;
}

bt_err bt_forecast_check_pair(const bt_profile *a, const bt_profile *b, const char *option, bt_fault *fault)
{
    const bt_standing x = bt_calibration_standing(&a->time.calibration),
                      y = bt_calibration_standing(&b->time.calibration);
    const bool is_first = x == BT_STANDING_BOUND;
    if ((x == BT_STANDING_BOUND) == (y == BT_STANDING_BOUND)) return BT_OK;
    if (x != BT_STANDING_CALIBRATED && y != BT_STANDING_CALIBRATED) return BT_OK;
    return bt_fail(
        fault, BT_EARG,
        "'%s' is a bound by a data sheet, and '%s' is calibrated: the bound seems better than it is; "
        "%s compares them all the same",
        (is_first ? a : b)->name, (is_first ? b : a)->name, option);
}

/* ---- draws ---- */

/* Fifteen points of (1 / 0.35)^u - 1, and of 1.35^(4 u - 2) - 1, u from 0 to 1. */
static const int32_t of_a_bound[BT_CALIBRATION_MAX_RESIDUALS] = {0,   78,  162,  252,  350,  455,  568, 690,
                                                                 822, 964, 1117, 1282, 1459, 1651, 1857},
                     of_a_guess[BT_CALIBRATION_MAX_RESIDUALS] = {-451, -402, -349, -290, -227, -158, -82, 0,
                                                                 90,   187,  293,  409,  535,  673,  823};

/* The point of a list at `draw` by 2^32 of its length. */
static uint32_t at(const int32_t *list, uint32_t n, uint32_t draw)
{
    const uint64_t place = (uint64_t)draw * (n - 1), i = place >> 32, part = place & UINT32_MAX;
    const int64_t low = list[i], high = i + 1 < n ? list[i + 1] : low;
    return (uint32_t)(1000 + low + (int64_t)((uint64_t)(high - low) * part >> 32));
}

static uint32_t factor_of(const bt_calibration *c, bt_standing standing, bt_term term, uint32_t draw)
{
    enum { ALL = BT_CALIBRATION_MAX_RESIDUALS };
    if (standing == BT_STANDING_BOUND) return at(of_a_bound, ALL, draw);
    /* a fit meets its own few rows, so their residuals say nothing of others */
    if (standing == BT_STANDING_FITTED) return at(of_a_guess, ALL, draw);
    if (c->residuals[term]) return at(c->residual[term], c->residuals[term], draw);
    const int32_t ttft = (int32_t)c->error[BT_FIGURE_TTFT].median_permille,
                  tpot = (int32_t)c->error[BT_FIGURE_TPOT].median_permille, most = ttft > tpot ? ttft : tpot,
                  ends[2] = {most < 450 ? -2 * most : -900, 2 * most};
    return at(ends, 2, draw);
}

bt_forecast_draw bt_forecast_draw_of(const bt_profile *p, bt_standing most, uint64_t seed, uint64_t number)
{
    const bt_calibration *c = &p->time.calibration;
    const uint64_t device = bt_hash64(p->title, strlen(p->title)) ^
                            bt_rng_u64(1, bt_hash64(p->time.stack, strlen(p->time.stack)));
    const bt_standing own = bt_calibration_standing(c), standing = own < most ? own : most;
    bt_forecast_draw d;
    for (uint32_t k = 0; k < BT_TERMS; k++) {
        const uint32_t draw = (uint32_t)(bt_rng_u64(seed ^ device, number * BT_TERMS + k) >> 32);
        d.permille[k] = factor_of(c, standing, (bt_term)k, draw);
    }
    return d;
}

uint64_t bt_forecast_ns(const bt_forecast_draw *d, const uint64_t term_ns[BT_TERMS])
{
    uint64_t ns = 0;
    for (int k = 0; k < BT_TERMS; k++) ns = bt_time_plus(ns, bt_time_scale(term_ns[k], d->permille[k], 1000));
    return ns;
}
