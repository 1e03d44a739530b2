/* Every trial is priced by the function that will price the result, so nothing of the model is written twice.
 */
#include "lab/calibrate/fit.h"

#include <math.h>
#include <string.h>

static const uint64_t NO_LIMIT = UINT64_C(1000000000000);
enum { TERMS = 3, LENGTHS = 10, GRID = 20, HALVINGS = 48 };

/* ---- prices -------------------------------------------------------------------------------------- */

static double price(const bt_profile_time *t, const bt_price_model *m, const bt_price_step *s)
{
    bt_profile p;
    memset(&p, 0, sizeof p);
    p.companion = true; /* as the profile that is made */
    p.time = *t;
    return (double)bt_price_step_of(&p, m, s).ns;
}

double tool_calibrate_prompt_ns(const bt_profile_time *t, const bt_price_model *m, uint32_t tokens)
{
    const bt_price_step s = bt_price_prefill_step(0, tokens);
    bt_profile p;
    memset(&p, 0, sizeof p);
    p.time = *t;
    return (double)bt_price_first_use(&p, m) + price(t, m, &s);
}

double tool_calibrate_step_ns(const bt_profile_time *t, const bt_price_model *m, uint32_t batch, uint32_t ctx)
{
    const bt_price_step s = bt_price_decode_step(batch, ctx);
    return price(t, m, &s);
}

/* ---- a parabola of lengths ----------------------------------------------------------------------- */

typedef struct parabola {
    double term[TERMS]; /* of 1, n, n^2: none below 0 */
} parabola;

static double at(const parabola *p, double n) { return p->term[0] + (p->term[1] + p->term[2] * n) * n; }

/* Least squares of relative errors over the terms of `set`, a bit each. False: they are not independent. */
static bool solve(parabola *ret, const tool_calibrate_points *p, unsigned set)
{
    double a[TERMS][TERMS + 1] = {{0}};
    *ret = (parabola){{0}};
    for (size_t i = 0; i < p->prompts; i++) {
        const double n = p->prompt[i].tokens, w = 1 / p->prompt[i].ns;
        const double x[TERMS + 1] = {w, w * n, w * n * n, 1};
        for (int r = 0; r < TERMS; r++)
            for (int c = 0; c <= TERMS && set >> r & 1; c++)
                if (c == TERMS || set >> c & 1) a[r][c] += x[r] * x[c];
    }
    for (int r = 0; r < TERMS; r++) {
        if (!(set >> r & 1)) a[r][r] = 1;
        for (int k = 0; k < r; k++) {
            const double by = a[r][k] / a[k][k];
            for (int c = k; c <= TERMS; c++) a[r][c] -= by * a[k][c];
        }
        if (!(fabs(a[r][r]) > 1e-300)) return false;
    }
    for (int r = TERMS - 1; r >= 0; r--) {
        double v = a[r][TERMS];
        for (int c = r + 1; c < TERMS; c++) v -= a[r][c] * ret->term[c];
        ret->term[r] = v / a[r][r];
    }
    return true;
}

static double error_of(const parabola *f, const tool_calibrate_points *p)
{
    double sum = 0;
    for (size_t i = 0; i < p->prompts; i++) sum += pow(at(f, p->prompt[i].tokens) / p->prompt[i].ns - 1, 2);
    return sum;
}

/* The best parabola whose terms are all at least 0. */
static parabola parabola_of(const tool_calibrate_points *p)
{
    parabola best = {{0}}, f;
    double least = INFINITY;
    for (unsigned set = 1; set < 1u << TERMS; set++) {
        if (!solve(&f, p, set) || f.term[0] < 0 || f.term[1] < 0 || f.term[2] < 0) continue;
        if (!(f.term[1] + f.term[2] > 0) && set != 1) continue;
        const double e = error_of(&f, p);
        if (e < least) {
            least = e;
            best = f;
        }
    }
    return best;
}

/* ---- rates --------------------------------------------------------------------------------------- */

/* Adds a point of the efficiency; the rates stand in rate[] until the peak is known. */
typedef struct rates {
    uint32_t rows[BT_PROFILE_TIME_MAX_POINTS];
    double rate[BT_PROFILE_TIME_MAX_POINTS];
    uint32_t len;
} rates;

/* How far a rate at these rows misses the measured times: the mean of log(priced / measured). */
typedef double misses(const void *ud, const bt_profile_time *t);

/* The least rate at which no priced time is too long. Rates that make no difference are not sought. */
static double rate_for(bt_profile_time t, misses *miss, const void *ud)
{
    double lo = 1, hi = (double)NO_LIMIT;
    t.points = 0;
    t.f16_ops_per_us = NO_LIMIT;
    const double reachable = fmax(0, miss(ud, &t) + 1e-4);
    for (int i = 0; i < HALVINGS; i++) {
        const double mid = sqrt(lo * hi);
        t.f16_ops_per_us = (uint64_t)ceil(mid);
        if (miss(ud, &t) <= reachable) hi = mid;
        else lo = mid;
    }
    return ceil(hi);
}

typedef struct batch {
    const tool_calibrate_points *p;
    const bt_price_model *m;
    uint32_t rows;
} batch;

static double batch_misses(const void *ud, const bt_profile_time *t)
{
    const batch *b = ud;
    double sum = 0, n = 0;
    for (size_t i = 0; i < b->p->steps; i++) {
        const tool_calibrate_step *s = &b->p->step[i];
        if (s->batch != b->rows) continue;
        sum += log(tool_calibrate_step_ns(t, b->m, s->batch, s->ctx) / s->ns);
        n++;
    }
    return sum / n;
}

typedef struct length {
    const bt_price_model *m;
    uint32_t tokens;
    double ns; /* without first use and the output matrix */
} length;

/* A prompt without its output matrix, which has one row's rate. */
static double rows_price(const bt_profile_time *t, const bt_price_model *m, uint32_t tokens)
{
    bt_price_step s = bt_price_prefill_step(0, tokens);
    s.logits = 0;
    return price(t, m, &s);
}

static double head_price(const bt_profile_time *t, const bt_price_model *m, double rate)
{
    const bt_price_step head = {.rows = 1, .logits = 1}, none = {.rows = 1};
    bt_profile_time one = *t;
    one.points = 0;
    one.f16_ops_per_us = (uint64_t)rate;
    return price(&one, m, &head) - price(&one, m, &none);
}

static double length_misses(const void *ud, const bt_profile_time *t)
{
    const length *l = ud;
    return log(rows_price(t, l->m, l->tokens) / l->ns);
}

/* ---- steps --------------------------------------------------------------------------------------- */

static size_t batches_of(uint32_t *rows, const tool_calibrate_points *p)
{
    size_t n = 0;
    for (uint32_t least = 0; n <= TOOL_CALIBRATE_BATCHES; n++) {
        uint32_t next = UINT32_MAX;
        for (size_t i = 0; i < p->steps; i++)
            if (p->step[i].batch > least && p->step[i].batch < next) next = p->step[i].batch;
        if (next == UINT32_MAX) break;
        if (n < TOOL_CALIBRATE_BATCHES) rows[n] = next;
        least = next;
    }
    return n;
}

/* The rates of all batches under this dispatch and decode rate; what is left of the errors. */
static double try_steps(rates *ret, const bt_profile_time *t, const bt_price_model *m,
                        const tool_calibrate_points *p)
{
    uint32_t rows[TOOL_CALIBRATE_BATCHES];
    const size_t n = batches_of(rows, p);
    double sum = 0;
    ret->len = 0;
    for (size_t k = 0; k < n; k++) {
        const batch b = {p, m, rows[k]};
        bt_profile_time one = *t;
        one.points = 0;
        one.f16_ops_per_us = (uint64_t)rate_for(one, batch_misses, &b);
        ret->rows[ret->len] = rows[k];
        ret->rate[ret->len++] = (double)one.f16_ops_per_us;
        for (size_t i = 0; i < p->steps; i++) {
            const tool_calibrate_step *s = &p->step[i];
            if (s->batch == rows[k])
                sum += pow(tool_calibrate_step_ns(&one, m, s->batch, s->ctx) / s->ns - 1, 2);
        }
    }
    return sum;
}

/* The shortest prompt. A prompt is a step of many rows, so the fixed part of a step is in it too. */
static double shortest(const tool_calibrate_points *p)
{
    double least = INFINITY;
    for (size_t i = 0; i < p->prompts; i++)
        if (p->prompt[i].ns < least) least = p->prompt[i].ns;
    for (size_t i = 0; i < p->steps; i++)
        if (p->step[i].ns < least) least = p->step[i].ns;
    return least;
}

/* Sets the fixed part of a step; what the field cannot hold is spread over operators. */
static void set_fixed(bt_profile_time *t, const bt_price_model *m, double ns)
{
    t->dispatch_ns = t->decode_op_ns = 0;
    if (ns < 1e9) t->dispatch_ns = (uint32_t)ns;
    else t->decode_op_ns = (uint32_t)fmin(1e9, ns / m->operators);
}

/* Prompts read the weights and pay the fixed part as well: how far these two alone are above the measured
 * times. */
static double floor_error(const bt_profile_time *t, const bt_price_model *m, const tool_calibrate_points *p)
{
    bt_profile_time free = *t;
    double sum = 0;
    free.points = 0;
    free.f16_ops_per_us = NO_LIMIT;
    for (size_t i = 0; i < p->prompts; i++) {
        const bt_price_step s = bt_price_prefill_step(0, p->prompt[i].tokens);
        sum += pow(fmax(0, price(&free, m, &s) / p->prompt[i].ns - 1), 2);
    }
    return sum;
}

/* The fixed part is at most the time of a prompt of no length, and reading the weights at most the shortest
 * time. A part that gains nothing is left out. */
static void fit_steps(bt_profile_time *t, rates *ret, const bt_price_model *m, const parabola *f,
                      const tool_calibrate_points *p)
{
    const double whole = shortest(p), most = fmin(f->term[0], whole);
    double least = INFINITY;
    bt_profile_time best = *t;
    for (int fixed = 0; fixed < GRID; fixed++)
        for (int bytes = 0; bytes < GRID; bytes++) {
            rates r;
            bt_profile_time one = *t;
            set_fixed(&one, m, most * fixed / GRID);
            const double ns = whole * bytes / GRID;
            one.decode_bytes_per_us =
                bytes ? (uint64_t)fmin((double)NO_LIMIT, fmax(1, (double)m->weight_bytes * 1000 / ns)) : 0;
            const double e = try_steps(&r, &one, m, p) + floor_error(&one, m, p) + 1e-6 * (fixed + bytes);
            if (e >= least) continue;
            least = e;
            best = one;
            *ret = r;
        }
    *t = best;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

static bt_err check(const tool_calibrate_points *p, bt_fault *fault)
{
    uint32_t rows[TOOL_CALIBRATE_BATCHES];
    size_t lengths = 0, alone = 0;
    for (size_t i = 0; i < p->prompts; i++) {
        bool is_new = true;
        for (size_t k = 0; k < i && is_new; k++) is_new = p->prompt[k].tokens != p->prompt[i].tokens;
        lengths += is_new;
        if (!(p->prompt[i].ns > 0) || !p->prompt[i].tokens)
            return bt_fail(fault, BT_EARG, "a prompt was measured that took no time");
    }
    for (size_t i = 0; i < p->steps; i++) {
        alone += p->step[i].batch == 1;
        if (!(p->step[i].ns > 0) || !p->step[i].batch || !p->step[i].ctx)
            return bt_fail(fault, BT_EARG, "a step was measured that took no time");
    }
    if (lengths < 3)
        return bt_fail(fault, BT_EARG,
                       "prompts of %zu different lengths were measured; at least 3 are needed", lengths);
    if (!alone) return bt_fail(fault, BT_EARG, "no answer of one request alone was measured");
    if (batches_of(rows, p) > TOOL_CALIBRATE_BATCHES)
        return bt_fail(fault, BT_EARG, "more than %d batches were measured", TOOL_CALIBRATE_BATCHES);
    return BT_OK;
}

static void add_lengths(rates *r, const bt_profile_time *t, const bt_price_model *m, const parabola *f,
                        double first_ns, const tool_calibrate_points *p)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (size_t i = 0; i < p->prompts; i++) {
        if (p->prompt[i].tokens < least) least = p->prompt[i].tokens;
        if (p->prompt[i].tokens > most) most = p->prompt[i].tokens;
    }
    for (int i = 0; i < LENGTHS && r->len < BT_PROFILE_TIME_MAX_POINTS; i++) {
        const double share = (double)i / (LENGTHS - 1);
        const uint32_t n = (uint32_t)lround(least * pow((double)most / least, share));
        if (r->len && n <= r->rows[r->len - 1]) continue;
        const length l = {m, n, fmax(1, at(f, n) - first_ns - head_price(t, m, r->rate[0]))};
        r->rows[r->len] = n;
        r->rate[r->len++] = rate_for(*t, length_misses, &l);
    }
}

/* More rows take no less time: rates rise at most as rows do. Returns what the first of those that are behind
 * `from` then takes too much. */
static double flatten(rates *r, const bt_profile_time *t, const bt_price_model *m, const parabola *f,
                      double first_ns, uint32_t from)
{
    for (uint32_t i = 1; i < r->len; i++)
        r->rate[i] = fmin(r->rate[i], r->rate[i - 1] * r->rows[i] / r->rows[i - 1]);
    if (from == r->len) return 0;
    bt_profile_time one = *t;
    one.points = 0;
    one.f16_ops_per_us = (uint64_t)r->rate[from];
    const double rows_ns = rows_price(&one, m, r->rows[from]) + head_price(t, m, r->rate[0]);
    return fmax(0, rows_ns + first_ns - at(f, r->rows[from]));
}

bt_err tool_calibrate_fit(bt_profile_time *ret, const bt_price_model *m, const tool_calibrate_points *p,
                          bt_fault *fault)
{
    rates r = {.len = 0};
    bt_profile_time t;
    double peak = 1;
    const bt_err e = check(p, fault);
    if (e < 0) return e;
    memset(&t, 0, sizeof t);
    t.is_given = true;
    memcpy(t.stack, "measured", sizeof "measured");
    t.f16_ops_per_us = t.memory_bytes_per_us = NO_LIMIT;
    const parabola f = parabola_of(p);
    fit_steps(&t, &r, m, &f, p);
    const bt_price_step nothing = {0};
    bt_profile_time fixed = t;
    fixed.decode_bytes_per_us = NO_LIMIT;
    double first = fmax(0, f.term[0] - price(&fixed, m, &nothing));
    const uint32_t batches = r.len;
    for (int i = 0; i < 2; i++) { /* what the shortest prompts have less than steps is no first use */
        r.len = batches;
        add_lengths(&r, &t, m, &f, first, p);
        first = fmax(0, first - flatten(&r, &t, m, &f, first, batches));
    }
    t.first_launch_ns = (uint32_t)fmin(1e9, first / m->operators);
    for (uint32_t i = 0; i < r.len; i++) peak = fmax(peak, r.rate[i]);
    t.f16_ops_per_us = (uint64_t)peak;
    t.points = r.len;
    for (uint32_t i = 0; i < r.len; i++) {
        t.efficiency[i].rows = r.rows[i];
        /* more rows take no less time, whatever was measured */
        const uint32_t most = i ? t.efficiency[i - 1].permille * r.rows[i] / r.rows[i - 1] : 1000;
        t.efficiency[i].permille = (uint32_t)fmin(fmin(1000, most), fmax(1, round(1000 * r.rate[i] / peak)));
    }
    *ret = t;
    return BT_OK;
}
