#ifndef BT_TRACE_DRAW_H
#define BT_TRACE_DRAW_H
#include <stdint.h>

/* Random numbers of a few distributions, each a function of the seed and of how many were drawn before. */
typedef struct bt_trace_draw {
    uint64_t seed, index;
} bt_trace_draw;

double bt_trace_draw_uniform(bt_trace_draw *d); /* in [0, 1) */
double bt_trace_draw_normal(bt_trace_draw *d);  /* Box and Muller */
/* Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). shape > 0; the mean is shape * scale.
 * A gap of mean m and variation c has shape 1 / c^2 and scale m * c^2; with c = 1 it is exponential. */
double bt_trace_draw_gamma(bt_trace_draw *d, double shape, double scale);
double bt_trace_draw_weibull(bt_trace_draw *d, double shape, double scale);
#endif
