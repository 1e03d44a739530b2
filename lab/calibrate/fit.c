/* Every trial is priced by the function that will price the result, so nothing of the model is written twice.
 */
#include "lab/calibrate/fit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const uint64_t NO_LIMIT = UINT64_C(1000000000000);
enum { TERMS = 3, LENGTHS = 10, GRID = 20, HALVINGS = 48, LEAST_LENGTHS = 8 };
/* Prompts are uneven where a length is so far beside the line; the line of programs is nearer if its squares
 * are at most that share; a time is that of the length before where it is at most so many times as long. */
static const double UNEVEN = 0.08, NEARER = 0.2, FLAT = 1.06, MOST_ERROR = 0.0625;

/* ---- prices -------------------------------------------------------------------------------------- */

static bt_profile companion_of(const bt_profile_time *t)
{
    bt_profile p;
    memset(&p, 0, sizeof p);
    p.companion = true;
    p.time = *t;
    return p;
}

static double price(const bt_profile_time *t, const bt_price_model *m, const bt_price_step *s)
{
    const bt_profile p = companion_of(t);
    return (double)bt_price_step_of(&p, m, s).ns;
}

static double step_price(const bt_profile_time *t, const bt_price_model *m, uint32_t batch, uint32_t ctx)
{
    const bt_price_step s = bt_price_decode_step(batch, ctx, m->window);
    return price(t, m, &s);
}

double tool_calibrate_prompt_ns(const bt_profile *p, const tool_calibrate_model *m, uint32_t tokens)
{
    static const uint32_t rows[] = {16, 32, 64, 128, 256};
    const bt_price_step s = bt_price_prefill_step(0, tokens, m->dims.window);
    bt_price programs;
    if (!p->companion) {
        bt_price_recipe r = m->recipe;
        r.ctx = p->static_ctx ? 512 : 0;
        if (bt_price_of_dims(&programs, p, &m->dims, &r, rows, sizeof rows / sizeof *rows, NULL) == BT_OK)
            return (double)bt_price_prompt(&programs, tokens).ns;
    }
    return (double)bt_price_first_use(p, &m->price) + (double)bt_price_step_of(p, &m->price, &s).ns;
}

double tool_calibrate_step_ns(const bt_profile *p, const tool_calibrate_model *m, uint32_t batch,
                              uint32_t ctx)
{
    const bt_price_step s = bt_price_decode_step(batch, ctx, m->dims.window);
    return (double)bt_price_step_of(p, &m->price, &s).ns;
}

/* ---- a parabola of lengths ----------------------------------------------------------------------- */

typedef struct parabola {
    double term[TERMS]; /* of 1, rows of programs, n^2: none below 0 */
} parabola;

static double rows_of(const bt_profile_time *t, uint32_t tokens)
{
    return (double)bt_time_program_rows(t, tokens);
}
static double at(const parabola *f, const bt_profile_time *t, uint32_t tokens)
{
    return f->term[0] + f->term[1] * rows_of(t, tokens) + f->term[2] * tokens * tokens;
}

static size_t lengths_of(const tool_calibrate_points *p)
{
    size_t lengths = 0;
    for (size_t i = 0; i < p->prompts; i++) {
        bool is_new = true;
        for (size_t k = 0; k < i && is_new; k++) is_new = p->prompt[k].tokens != p->prompt[i].tokens;
        lengths += is_new;
    }
    return lengths;
}

/* Least squares of relative errors over the terms of `set`, a bit each. False: they are not independent. */
static bool solve(parabola *ret, const tool_calibrate_points *p, const bt_profile_time *t, unsigned set)
{
    double a[TERMS][TERMS + 1] = {{0}};
    *ret = (parabola){{0}};
    for (size_t i = 0; i < p->prompts; i++) {
        const double n = p->prompt[i].tokens, w = 1 / p->prompt[i].ns;
        const double x[TERMS + 1] = {w, w * rows_of(t, p->prompt[i].tokens), w * n * n, 1};
        for (int r = 0; r < TERMS; r++)
            for (int c = 0; c <= TERMS && set >> r & 1; c++)
                if (c == TERMS || set >> c & 1) a[r][c] += x[r] * x[c];
    }
    for (int r = 0; r < TERMS; r++) {
        if (!(set >> r & 1)) a[r][r] = 1;
        const double whole = a[r][r];
        for (int k = 0; k < r; k++) {
            const double by = a[r][k] / a[k][k];
            for (int c = k; c <= TERMS; c++) a[r][c] -= by * a[k][c];
        }
        if (!(fabs(a[r][r]) > 1e-10 * whole)) return false;
    }
    for (int r = TERMS - 1; r >= 0; r--) {
        double v = a[r][TERMS];
        for (int c = r + 1; c < TERMS; c++) v -= a[r][c] * ret->term[c];
        ret->term[r] = v / a[r][r];
    }
    return true;
}

/* A disturbed length counts no more than one that is a quarter off. */
static double error_of(const parabola *f, const bt_profile_time *t, const tool_calibrate_points *p)
{
    double sum = 0;
    for (size_t i = 0; i < p->prompts; i++)
        sum += fmin(MOST_ERROR, pow(at(f, t, p->prompt[i].tokens) / p->prompt[i].ns - 1, 2));
    return sum;
}

/* The best parabola whose terms are all at least 0, with no more of them than lengths; of equals the
 * plainest. */
static parabola parabola_of(const tool_calibrate_points *p, const bt_profile_time *t, double *ret_error)
{
    parabola best = {{0}}, f;
    double least = INFINITY;
    for (unsigned set = 1; set < 1u << TERMS; set++) {
        if ((size_t)__builtin_popcount(set) > lengths_of(p)) continue;
        if (!solve(&f, p, t, set) || f.term[0] < 0 || f.term[1] < 0 || f.term[2] < 0) continue;
        if (!(f.term[1] + f.term[2] > 0) && set != 1) continue;
        const double e = error_of(&f, t, p);
        if (!(e < least - 1e-12)) continue;
        least = e;
        best = f;
    }
    *ret_error = least;
    return best;
}

/* ---- programs ------------------------------------------------------------------------------------ */

/* Lists of rows are tried, and the one whose line is nearest is taken if it is far nearer than the smooth
 * one. */
typedef struct search {
    const tool_calibrate_points *p;
    bt_profile_time best, trial;
    double least;
} search;

static void try_programs(search *s, const uint32_t *rows, uint32_t n)
{
    double error;
    s->trial.programs = n;
    memcpy(s->trial.program_rows, rows, n * sizeof *rows);
    (void)parabola_of(s->p, &s->trial, &error);
    if (error > 0.98 * s->least) return; /* shorter lists come first */
    s->least = error;
    s->best = s->trial;
}

/* The roundest number in [lo, hi). */
static uint32_t round_in(uint32_t lo, uint32_t hi)
{
    for (uint32_t step = 1u << 20; step > 1; step /= 2)
        if ((hi - 1) / step * step >= lo) return (hi - 1) / step * step;
    return lo;
}

/* Runs of lengths with one time end at a program's rows, and behind the longest program at sums of programs.
 */
static void try_runs(search *s)
{
    const tool_calibrate_points *p = s->p;
    tool_calibrate_prompt sorted[TOOL_CALIBRATE_PROMPTS];
    uint32_t rows[BT_PROFILE_TIME_MAX_PROGRAMS], n = 0;
    for (size_t i = 0; i < p->prompts; i++) {
        size_t k = i;
        for (; k && sorted[k - 1].tokens > p->prompt[i].tokens; k--) sorted[k] = sorted[k - 1];
        sorted[k] = p->prompt[i];
    }
    for (size_t i = 1; i < p->prompts && n < BT_PROFILE_TIME_MAX_PROGRAMS; i++)
        if (sorted[i].ns > FLAT * sorted[i - 1].ns && sorted[i].tokens > sorted[i - 1].tokens)
            rows[n++] = round_in(sorted[i - 1].tokens, sorted[i].tokens);
    for (uint32_t i = 1; i <= n; i++) try_programs(s, rows, i);
    const uint32_t last = sorted[p->prompts - 1].tokens;
    if (n == BT_PROFILE_TIME_MAX_PROGRAMS || last > 1u << 19) return;
    rows[n] = round_in(last, 2 * last); /* a last run whose end was not measured */
    try_programs(s, rows, n + 1);
}

static void find_programs(bt_profile_time *t, const tool_calibrate_points *p)
{
    static const uint32_t multiples[] = {16,  32,  48,  64,  96,  128,  160,  192,
                                         256, 320, 384, 512, 768, 1024, 2048, 4096};
    search s = {.p = p, .best = *t, .trial = *t};
    double plain;
    (void)parabola_of(p, t, &plain);
    s.least = plain;
    if (lengths_of(p) < LEAST_LENGTHS || plain < (double)p->prompts * UNEVEN * UNEVEN / 4) return;
    for (size_t i = 0; i < sizeof multiples / sizeof *multiples; i++) try_programs(&s, &multiples[i], 1);
    for (uint32_t n = 2; n <= BT_PROFILE_TIME_MAX_PROGRAMS; n++)
        for (uint32_t first = 1; first << (n - 1) <= 1u << 13; first *= 2) {
            uint32_t rows[BT_PROFILE_TIME_MAX_PROGRAMS];
            for (uint32_t i = 0; i < n; i++) rows[i] = first << i;
            try_programs(&s, rows, n);
        }
    try_runs(&s);
    if (s.least < NEARER * plain) *t = s.best;
}

bool tool_calibrate_is_uneven(const tool_calibrate_points *p)
{
    const bt_profile_time smooth = {.programs = 0};
    double error;
    if (lengths_of(p) < 4) return false;
    const parabola f = parabola_of(p, &smooth, &error);
    for (size_t i = 0; i < p->prompts; i++)
        if (fabs(at(&f, &smooth, p->prompt[i].tokens) / p->prompt[i].ns - 1) > UNEVEN) return true;
    return false;
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
        sum += log(step_price(t, b->m, s->batch, s->ctx) / s->ns);
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
    bt_price_step s = bt_price_prefill_step(0, tokens, m->window);
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
            if (s->batch == rows[k]) sum += pow(step_price(&one, m, s->batch, s->ctx) / s->ns - 1, 2);
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
        const bt_price_step s = bt_price_prefill_step(0, p->prompt[i].tokens, m->window);
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

static bt_err check_times(const tool_calibrate_points *p, bt_fault *fault)
{
    for (size_t i = 0; i < p->prompts; i++)
        if (!(p->prompt[i].ns > 0) || !p->prompt[i].tokens)
            return bt_fail(fault, BT_EARG, "a prompt was measured that took no time");
    for (size_t i = 0; i < p->steps; i++)
        if (!(p->step[i].ns > 0) || !p->step[i].batch || !p->step[i].ctx)
            return bt_fail(fault, BT_EARG, "a step was measured that took no time");
    return BT_OK;
}

/* The rates of a profile end at NO_LIMIT a microsecond. */
static bt_err check_rates(const bt_price_model *m, const tool_calibrate_points *p, bt_fault *fault)
{
    for (size_t i = 0; i < p->prompts; i++) {
        const double us = p->prompt[i].ns / 1e3, ops = 2.0 * (double)m->body_weights * p->prompt[i].tokens;
        if (ops / us > (double)NO_LIMIT)
            return bt_fail(
                fault, BT_ELIMIT,
                "a prompt of %u tokens in %.4g ms: %.3g operations a microsecond, and a profile has "
                "at most %.0e; is it the right model and unit?",
                p->prompt[i].tokens, us / 1e3, ops / us, (double)NO_LIMIT);
    }
    for (size_t i = 0; i < p->steps; i++) {
        const double us = p->step[i].ns / 1e3, bytes = (double)m->weight_bytes;
        if (bytes / us > (double)NO_LIMIT)
            return bt_fail(fault, BT_ELIMIT,
                           "a step of %u in %.4g ms: %.3g bytes a microsecond, and a profile has at most "
                           "%.0e; is it the right model and unit?",
                           p->step[i].batch, us / 1e3, bytes / us, (double)NO_LIMIT);
    }
    return BT_OK;
}

static bt_err check(const bt_price_model *m, const tool_calibrate_points *p, bt_fault *fault)
{
    uint32_t rows[TOOL_CALIBRATE_BATCHES], first = 0;
    size_t contexts = 0;
    bt_err e = check_times(p, fault);
    if (e == BT_OK) e = check_rates(m, p, fault);
    if (e < 0) return e;
    for (size_t i = 0; i < p->steps && contexts < 2; i++)
        if (p->step[i].batch == 1 && p->step[i].ctx != first) contexts++, first = p->step[i].ctx;
    if (lengths_of(p) < 2 || contexts < 2)
        return bt_fail(fault, BT_EARG,
                       "different lengths of prompts: %zu; contexts of steps of one sequence: %zu; at least "
                       "2 of each are "
                       "needed",
                       lengths_of(p), contexts);
    if (batches_of(rows, p) > TOOL_CALIBRATE_BATCHES)
        return bt_fail(fault, BT_EARG, "steps of more than %d batches", TOOL_CALIBRATE_BATCHES);
    return BT_OK;
}

static void add_length(rates *r, const bt_profile_time *t, const bt_price_model *m, const parabola *f,
                       uint32_t n, double first_ns)
{
    if (r->len == BT_PROFILE_TIME_MAX_POINTS || (r->len && n <= r->rows[r->len - 1])) return;
    const length l = {m, n, fmax(1, at(f, t, n) - first_ns - head_price(t, m, r->rate[0]))};
    r->rows[r->len] = n;
    r->rate[r->len++] = rate_for(*t, length_misses, &l);
}

/* Rates hold at a program's rows; without programs at lengths between the shortest and the longest. */
static void add_lengths(rates *r, const bt_profile_time *t, const bt_price_model *m, const parabola *f,
                        double first_ns, const tool_calibrate_points *p)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (size_t i = 0; i < p->prompts; i++) {
        if (p->prompt[i].tokens < least) least = p->prompt[i].tokens;
        if (p->prompt[i].tokens > most) most = p->prompt[i].tokens;
    }
    for (uint32_t i = 0; i < t->programs; i++) add_length(r, t, m, f, t->program_rows[i], first_ns);
    for (uint32_t n = t->programs ? 2 * t->program_rows[t->programs - 1] : most + 1; n <= most; n *= 2)
        add_length(r, t, m, f, n, first_ns);
    if (t->programs) add_length(r, t, m, f, (uint32_t)bt_time_program_rows(t, most), first_ns);
    for (int i = 0; i < LENGTHS && !t->programs; i++) {
        const double share = (double)i / (LENGTHS - 1);
        add_length(r, t, m, f, (uint32_t)lround(least * pow((double)most / least, share)), first_ns);
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
    return fmax(0, rows_ns + first_ns - at(f, t, r->rows[from]));
}

bt_err tool_calibrate_fit(bt_profile *ret, uint32_t *ret_constants, const tool_calibrate_model *model,
                          const tool_calibrate_points *p, bt_fault *fault)
{
    const bt_price_model *m = &model->price;
    rates r = {.len = 0};
    bt_profile_time t;
    double peak = 1, error;
    const bt_err e = check(m, p, fault);
    if (e < 0) return e;
    memset(&t, 0, sizeof t);
    t.is_given = true;
    memcpy(t.stack, "measured", sizeof "measured");
    t.f16_ops_per_us = t.memory_bytes_per_us = NO_LIMIT;
    find_programs(&t, p);
    const parabola f = parabola_of(p, &t, &error);
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
    *ret_constants = batches + t.programs + (t.dispatch_ns || t.decode_op_ns) + (t.decode_bytes_per_us > 0);
    for (int i = 0; i < TERMS; i++) *ret_constants += f.term[i] > 0;
    *ret = companion_of(&t);
    return BT_OK;
}

/* ---- over a known device ------------------------------------------------------------------------- */

const char *const tool_calibrate_constants[TOOL_CALIBRATE_CONSTANTS] = {
    "efficiency", "weight_bytes_per_us", "first_launch_ns", "decode_bytes_per_us", "dispatch_ns"};
enum {
    OF_PROMPTS = TOOL_CALIBRATE_EFFICIENCY | TOOL_CALIBRATE_WEIGHT_RATE | TOOL_CALIBRATE_FIRST_LAUNCH,
    OF_STEPS = TOOL_CALIBRATE_DECODE_RATE | TOOL_CALIBRATE_DISPATCH,
    OF_RATES = TOOL_CALIBRATE_EFFICIENCY | TOOL_CALIBRATE_WEIGHT_RATE | TOOL_CALIBRATE_DECODE_RATE,
    COARSE = 40,
    FINE = 24
};

/* A rate by so many times that of `like`, at most the peak; a fixed time in nanoseconds. */
static void set_constant(bt_profile *p, const bt_profile *like, const bt_price_model *m, unsigned constant,
                         double v)
{
    bt_profile_time *t = &p->time;
    const double peak = (double)t->memory_bytes_per_us;
    if (constant == TOOL_CALIBRATE_EFFICIENCY) {
        t->points = like->time.points ? like->time.points : 1;
        for (uint32_t i = 0; i < t->points; i++) {
            const double is = like->time.points ? like->time.efficiency[i].permille : 1000;
            t->efficiency[i].rows = like->time.points ? like->time.efficiency[i].rows : 1;
            t->efficiency[i].permille = (uint32_t)fmin(1000, fmax(1, round(is * v)));
            if (!i) continue; /* more rows take no less time, however a share is rounded */
            const uint64_t most =
                (uint64_t)t->efficiency[i - 1].permille * t->efficiency[i].rows / t->efficiency[i - 1].rows;
            if (t->efficiency[i].permille > most) t->efficiency[i].permille = (uint32_t)most;
        }
    } else if (constant == TOOL_CALIBRATE_WEIGHT_RATE)
        t->weight_bytes_per_us =
            (uint64_t)fmin(peak, fmax(1, round((double)bt_time_weight_rate(&like->time) * v)));
    else if (constant == TOOL_CALIBRATE_DECODE_RATE)
        t->decode_bytes_per_us =
            (uint64_t)fmin(peak, fmax(1, round((double)bt_time_decode_rate(&like->time) * v)));
    else if (constant == TOOL_CALIBRATE_FIRST_LAUNCH)
        t->first_launch_ns = (uint32_t)fmin(1e9, v / m->operators);
    else t->dispatch_ns = (uint32_t)fmin(1e9, v);
}

typedef struct task {
    const bt_profile *like;
    const tool_calibrate_model *m;
    const tool_calibrate_points *p;
    bool is_steps;         /* the points that count */
    unsigned inner, outer; /* constants, one each; 0: none */
} task;

static double squares(const task *k, const bt_profile *p)
{
    double sum = 0;
    for (size_t i = 0; k->is_steps && i < k->p->steps; i++) {
        const tool_calibrate_step *s = &k->p->step[i];
        sum += pow(log(tool_calibrate_step_ns(p, k->m, s->batch, s->ctx) / s->ns), 2);
    }
    for (size_t i = 0; !k->is_steps && i < k->p->prompts; i++)
        sum += pow(log(tool_calibrate_prompt_ns(p, k->m, k->p->prompt[i].tokens) / k->p->prompt[i].ns), 2);
    return sum;
}

/* Takes the constant where `of` is least: on a coarse grid, then between the neighbours of its best place. */
typedef double objective(const task *k, bt_profile *p, unsigned constant, double v);
static double least_of(const task *k, bt_profile *p, unsigned constant, double lo, double hi, objective *of)
{
    const bool is_rate = constant & OF_RATES;
    const double a = is_rate ? log(lo) : lo, b = is_rate ? log(hi) : hi, step = (b - a) / COARSE;
    double best = a, least = INFINITY;
    for (int i = 0; i <= COARSE; i++) {
        const double x = a + step * i, e = of(k, p, constant, is_rate ? exp(x) : x);
        if (e < least) least = e, best = x;
    }
    double from = fmax(a, best - step), to = fmin(b, best + step);
    for (int i = 0; i < FINE; i++) {
        const double left = from + 0.382 * (to - from), right = from + 0.618 * (to - from);
        const bool is_left = of(k, p, constant, is_rate ? exp(left) : left) <=
                             of(k, p, constant, is_rate ? exp(right) : right);
        if (is_left) to = right;
        else from = left;
    }
    const double mid = (from + to) / 2, last = of(k, p, constant, is_rate ? exp(mid) : mid);
    return last <= least ? last : of(k, p, constant, is_rate ? exp(best) : best);
}

static double by_one(const task *k, bt_profile *p, unsigned constant, double v)
{
    set_constant(p, k->like, &k->m->price, constant, v);
    return squares(k, p);
}

static double by_both(const task *k, bt_profile *p, unsigned constant, double v)
{
    set_constant(p, k->like, &k->m->price, constant, v);
    return k->inner ? least_of(k, p, k->inner, 1e-3, 1e3, by_one) : squares(k, p);
}

/* A fixed time is at most the shortest that was measured. */
static void fit_task(bt_profile *p, const task *k)
{
    double shortest_ns = INFINITY;
    for (size_t i = 0; k->is_steps && i < k->p->steps; i++) shortest_ns = fmin(shortest_ns, k->p->step[i].ns);
    for (size_t i = 0; !k->is_steps && i < k->p->prompts; i++)
        shortest_ns = fmin(shortest_ns, k->p->prompt[i].ns);
    if (k->outer) (void)least_of(k, p, k->outer, 0, shortest_ns, by_both);
    else if (k->inner) (void)least_of(k, p, k->inner, 1e-3, 1e3, by_one);
}

/* Peaks alone, and nothing that a server might do in less: no launch, no experts of other rows. */
static bt_err check_peaks(const bt_profile *like, const tool_calibrate_model *m,
                          const tool_calibrate_points *p, bt_fault *fault)
{
    const bt_profile_time *t = &like->time;
    bt_price_model least = m->price;
    bt_profile ideal = {.time = {.is_given = true, .f16_ops_per_us = t->f16_ops_per_us,
                                 .int8_permille = t->int8_permille, .int4_permille = t->int4_permille,
                                 .memory_bytes_per_us = t->memory_bytes_per_us, .devices = t->devices,
                                 .interconnect_bytes_per_us = NO_LIMIT}};
    least.idle_bytes = 0;
    for (size_t i = 0; i < p->prompts + p->steps; i++) {
        const bool is_prompt = i < p->prompts;
        const tool_calibrate_step *s = is_prompt ? NULL : &p->step[i - p->prompts];
        const bt_price_step step = is_prompt ? bt_price_prefill_step(0, p->prompt[i].tokens, least.window)
                                             : bt_price_decode_step(s->batch, s->ctx, least.window);
        const double peak = (double)bt_price_step_of(&ideal, &least, &step).ns,
                     is = is_prompt ? p->prompt[i].ns : s->ns;
        if (is >= peak) continue;
        char what[80];
        if (is_prompt) (void)snprintf(what, sizeof what, "a prompt of %u tokens", p->prompt[i].tokens);
        else (void)snprintf(what, sizeof what, "a step of %u at %u positions", s->batch, s->ctx);
        return bt_fail(
            fault, BT_EARG,
            "%s in %.4g ms: the peaks of '%.63s' allow %.4g ms at best; is it the right model, form of "
            "weights, device and unit?",
            what, is / 1e6, like->name, peak / 1e6);
    }
    return BT_OK;
}

/* The one of two rates that prompts feel more. */
static unsigned felt(const bt_profile *like, const tool_calibrate_model *m, const tool_calibrate_points *p)
{
    bt_profile slow = *like, narrow = *like;
    const uint32_t n = p->prompt[p->prompts - 1].tokens;
    set_constant(&slow, like, &m->price, TOOL_CALIBRATE_EFFICIENCY, 0.8);
    set_constant(&narrow, like, &m->price, TOOL_CALIBRATE_WEIGHT_RATE, 0.8);
    return tool_calibrate_prompt_ns(&slow, m, n) >= tool_calibrate_prompt_ns(&narrow, m, n)
               ? TOOL_CALIBRATE_EFFICIENCY
               : TOOL_CALIBRATE_WEIGHT_RATE;
}

static bt_err enough(unsigned asked, unsigned of, size_t has, const char *what, bt_fault *fault)
{
    const unsigned set = asked & of, n = (unsigned)__builtin_popcount(set);
    char names[128] = "";
    if (n <= has && n <= 2 && __builtin_popcount(set & OF_RATES) <= 1) return BT_OK;
    for (int i = 0; i < TOOL_CALIBRATE_CONSTANTS; i++)
        if (set >> i & 1) {
            const size_t len = strlen(names);
            (void)snprintf(names + len, sizeof names - len, "%s%s", len ? ", " : "",
                           tool_calibrate_constants[i]);
        }
    if (n > has)
        return bt_fail(fault, BT_EARG, "constants that are asked for: %u (%s); %s: %zu; at least %u needed",
                       n, names, what, has, n);
    return bt_fail(fault, BT_EARG, "%s are two rates of prompts; ask for one of them", names);
}

bt_err tool_calibrate_fit_like(bt_profile *ret, uint32_t *ret_asked, const bt_profile *like,
                               const tool_calibrate_model *m, const tool_calibrate_points *p, uint32_t asked,
                               bt_fault *fault)
{
    const size_t lengths = lengths_of(p);
    bt_profile out = *like;
    bt_err e = bt_price_need_time(like, fault);
    if (e == BT_OK) e = bt_price_check_memory(like, &m->price, m->dims.name[0] ? m->dims.name : NULL, fault);
    if (e == BT_OK) e = check_times(p, fault);
    if (e == BT_OK && !lengths && !p->steps)
        e = bt_fail(fault, BT_EARG, "no point was given; at least 1 is needed");
    if (e == BT_OK) e = check_peaks(like, m, p, fault);
    if (e == BT_OK && asked) e = enough(asked, OF_PROMPTS, lengths, "lengths of prompts", fault);
    if (e == BT_OK && asked) e = enough(asked, OF_STEPS, p->steps, "kinds of steps", fault);
    if (e < 0) return e;
    if (!asked) {
        asked = (lengths ? felt(like, m, p) : 0) | (p->steps ? TOOL_CALIBRATE_DECODE_RATE : 0) |
                (lengths > 1 ? TOOL_CALIBRATE_FIRST_LAUNCH : 0) |
                (p->steps > 1 ? TOOL_CALIBRATE_DISPATCH : 0);
    }
    if (like->companion) find_programs(&out.time, p);
    const bool has_new = out.time.programs != like->time.programs ||
                         memcmp(out.time.program_rows, like->time.program_rows, sizeof out.time.program_rows);
    const task steps = {
        like, m, p, true, asked & TOOL_CALIBRATE_DECODE_RATE, asked & TOOL_CALIBRATE_DISPATCH};
    const task prompts = {like,
                          m,
                          p,
                          false,
                          asked & (TOOL_CALIBRATE_EFFICIENCY | TOOL_CALIBRATE_WEIGHT_RATE),
                          asked & TOOL_CALIBRATE_FIRST_LAUNCH};
    for (int round = 0; round < 2; round++) { /* what one of the two sets is in the prices of the other */
        if (asked & OF_STEPS) fit_task(&out, &steps);
        if (asked & OF_PROMPTS) fit_task(&out, &prompts);
    }
    *ret_asked = asked | (has_new ? TOOL_CALIBRATE_PROGRAMS : 0);
    *ret = out;
    return BT_OK;
}
