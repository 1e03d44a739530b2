/* Distributions of gaps between requests. */
#include "trace/draw.h"
#include "base/rng.h"

#include <math.h>

static const double TWO_PI = 6.283185307179586;

double bt_trace_draw_uniform(bt_trace_draw *d) { return bt_rng_uniform(d->seed, d->index++); }

/* In (0, 1]: its logarithm is finite. */
static double above_zero(bt_trace_draw *d) { return 1 - bt_trace_draw_uniform(d); }

double bt_trace_draw_normal(bt_trace_draw *d)
{
    const double r = sqrt(-2 * log(above_zero(d)));
    return r * cos(TWO_PI * bt_trace_draw_uniform(d));
}

double bt_trace_draw_gamma(bt_trace_draw *d, double shape, double scale)
{
    const double grown = shape < 1 ? shape + 1 : shape, a = grown - 1.0 / 3, b = 1 / sqrt(9 * a);
    for (;;) {
        const double x = bt_trace_draw_normal(d), t = 1 + b * x, v = t * t * t;
        if (v <= 0 || log(above_zero(d)) >= x * x / 2 + a - a * v + a * log(v)) continue;
        return scale * a * v * (shape < 1 ? pow(above_zero(d), 1 / shape) : 1);
    }
}

double bt_trace_draw_weibull(bt_trace_draw *d, double shape, double scale)
{
    return scale * pow(-log(above_zero(d)), 1 / shape);
}
