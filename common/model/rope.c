/* See rope.h. In double, so that tables are rounded once, where they become f32. */
#include "model/rope.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const bt_rope_names[BT_ROPE_KINDS] = {"none", "linear", "yarn", "longrope"};

double bt_rope_yarn_magnitude(double s) { return s <= 1.0 ? 1.0 : 1.0 + 0.1 * log(s); }

/* The pair that turns `turns` times within the original context. */
static double pair_of(const bt_rope *r, size_t dims, double base, double turns)
{
    const double two_pi = 6.283185307179586;
    return (double)dims * log((double)r->original_ctx / (turns * two_pi)) / (2.0 * log(base));
}

void bt_rope_frequencies(double *ret, const bt_rope *r, size_t dims, double base, double scale,
                         const float *factor)
{
    double low = 0, width = 0;
    if (r->kind == BT_ROPE_YARN) {
        const double fast = pair_of(r, dims, base, (double)r->beta_fast),
                     slow = pair_of(r, dims, base, (double)r->beta_slow);
        low = fmax(0.0, r->is_exact ? fast : floor(fast));
        width = fmax(0.001, fmin((double)dims - 1.0, r->is_exact ? slow : ceil(slow)) - low);
    }
    for (size_t i = 0; i < dims / 2; i++) {
        const double f = pow(base, -2.0 * (double)i / (double)dims) / (factor ? (double)factor[i] : 1.0);
        ret[i] = f * scale;
        if (r->kind == BT_ROPE_YARN) {
            const double keep = 1.0 - fmin(1.0, fmax(0.0, ((double)i - low) / width));
            ret[i] = f * (keep + (1.0 - keep) * scale);
        }
    }
}

/* One more thing, behind a comma. */
static void say(char ret[BT_ROPE_MAX_TEXT], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(char ret[BT_ROPE_MAX_TEXT], const char *fmt, ...)
{
    va_list args;
    const size_t len = strlen(ret), comma = len ? 2 : 0;
    snprintf(ret + len, BT_ROPE_MAX_TEXT - len, "%s", comma ? ", " : "");
    va_start(args, fmt);
    vsnprintf(ret + len + comma, BT_ROPE_MAX_TEXT - len - comma, fmt, args);
    va_end(args);
}

void bt_rope_text(char ret[BT_ROPE_MAX_TEXT], const bt_rope *r, double scale, bool has_factors)
{
    ret[0] = 0;
    if (r->kind != BT_ROPE_NONE) say(ret, "%s", bt_rope_names[r->kind]);
    if (scale != 1.0) say(ret, "factor %g", 1.0 / scale);
    if (has_factors) say(ret, "a factor for each pair");
    if (r->original_ctx) say(ret, "original context %" PRIu32, r->original_ctx);
    if (r->kind == BT_ROPE_YARN) say(ret, "beta %g to %g", (double)r->beta_fast, (double)r->beta_slow);
    if (r->magnitude != 1.0f) say(ret, "magnitude %g", (double)r->magnitude);
}
