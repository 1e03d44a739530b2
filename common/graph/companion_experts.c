/* Routes: which experts a row chooses, where its copies for them lie, and how their outputs become one row.
 */
#include "graph/companion_private.h"

#include <math.h>
#include <string.h>

enum { SCORES = 16 }; /* experts whose scores a thread takes at once */

typedef struct route_job {
    const bt_companion *c;
    const bt_companion_rows *rows;
    const bt_companion_routes *r;
    const float *x, *router, *bias;
    float *y;
    size_t k;
    bt_pool_range items;
} route_job;

static size_t ld_of(const bt_companion *c, const bt_companion_routes *r)
{
    return bt_companion_ld(c, 3 * r->used + r->experts);
}

static uint32_t *number_of(const bt_companion *c, const bt_companion_routes *r, size_t row)
{
    return (uint32_t *)(void *)(r->at + row * ld_of(c, r));
}

static bool is_real(const bt_companion_rows *rows, size_t row)
{
    return row % rows->rows < rows->seq[row / rows->rows].valid;
}

static void score_part(void *ud, size_t part, size_t parts)
{
    route_job *j = ud;
    const bt_companion_routes *r = j->r;
    const size_t pieces = (r->experts + SCORES - 1) / SCORES, ldx = bt_companion_ld(j->c, j->k);
    (void)part, (void)parts;
    for (size_t i, end; bt_pool_range_take(&j->items, &i, &end);)
        for (; i < end; i++) {
            const size_t row = i / pieces, e = i % pieces * SCORES;
            const size_t n = r->experts - e < SCORES ? r->experts - e : SCORES;
            float *z = r->at + row * ld_of(j->c, r) + 3 * r->used + e;
            if (!is_real(j->rows, row)) continue;
            j->c->kernels->dots(z, j->x + row * ldx, j->router + e * j->k, n, j->k);
            for (size_t s = 0; j->bias && s < n; s++) z[s] += j->bias[e + s];
        }
}

/* Whether score a goes before b, the one of a lower number. */
static bool is_before(float a, float b) { return a > b || (isnan(b) && !isnan(a)); }

/* The numbers of the greatest scores, ascending. */
static void choose(uint32_t *number, const float *score, size_t experts, size_t used)
{
    size_t n = 0;
    for (size_t e = 0; e < experts; e++) { /* by falling score, equal ones by rising number */
        size_t at = n;
        while (at > 0 && is_before(score[e], score[number[at - 1]])) at--;
        if (at == used) continue;
        if (n < used) n++;
        memmove(number + at + 1, number + at, (n - 1 - at) * sizeof *number);
        number[at] = (uint32_t)e;
    }
    for (size_t i = 1; i < used; i++) { /* by number */
        const uint32_t v = number[i];
        size_t at = i;
        for (; at > 0 && number[at - 1] > v; at--) number[at] = number[at - 1];
        number[at] = v;
    }
}

static void weigh(float *weight, const uint32_t *number, const float *score, size_t used)
{
    float top = score[number[0]], sum = 0;
    for (size_t i = 1; i < used; i++)
        if (is_before(score[number[i]], top)) top = score[number[i]];
    for (size_t i = 0; i < used; i++) {
        weight[i] = bt_exp1(score[number[i]] - top);
        sum += weight[i];
    }
    for (size_t i = 0; i < used; i++) weight[i] /= sum;
}

static void choose_part(void *ud, size_t part, size_t parts)
{
    route_job *j = ud;
    const size_t used = j->r->used;
    (void)part, (void)parts;
    for (size_t row, end; bt_pool_range_take(&j->items, &row, &end);)
        for (; row < end; row++) {
            uint32_t *number = number_of(j->c, j->r, row);
            float *weight = (float *)(void *)(number + 2 * used);
            if (!is_real(j->rows, row)) {
                for (size_t i = 0; i < used; i++) number[i] = BT_COMPANION_NO_EXPERT;
                continue;
            }
            choose(number, weight + used, j->r->experts, used);
            weigh(weight, number, weight + used, used);
        }
}

/* Counts the copies of each expert, then places them. */
static void place(const bt_companion *c, const bt_companion_routes *r, size_t t)
{
    memset(r->begin, 0, (r->experts + 1) * sizeof *r->begin);
    for (size_t row = 0; row < t; row++) {
        const uint32_t *number = number_of(c, r, row);
        for (size_t i = 0; i < r->used && number[i] != BT_COMPANION_NO_EXPERT; i++) r->begin[number[i] + 1]++;
    }
    for (size_t e = 0; e < r->experts; e++) r->begin[e + 1] += r->begin[e];
    for (size_t row = 0; row < t; row++) {
        uint32_t *number = number_of(c, r, row);
        for (size_t i = 0; i < r->used && number[i] != BT_COMPANION_NO_EXPERT; i++)
            number[r->used + i] = r->begin[number[i]]++;
    }
    for (size_t e = r->experts; e > 0; e--) r->begin[e] = r->begin[e - 1];
    r->begin[0] = 0;
}

void bt_companion_route(const bt_companion *c, const bt_companion_rows *rows, const bt_companion_routes *r,
                        const float *x, const float *router, const float *bias, size_t k)
{
    const size_t t = rows->batch * rows->rows, pieces = (r->experts + SCORES - 1) / SCORES;
    bt_companion_flush(c);
    route_job j = {.c = c, .rows = rows, .r = r, .x = x, .router = router, .bias = bias, .k = k};
    bt_pool_range_init(&j.items, t * pieces, 1);
    bt_pool_run(bt_companion_pool_for(c, t * r->experts * (k / SCORES)), score_part, &j);
    bt_pool_range_init(&j.items, t, 1);
    bt_pool_run(bt_companion_pool_for(c, t * r->experts * r->used), choose_part, &j);
    place(c, r, t);
}

static void gather_part(void *ud, size_t part, size_t parts)
{
    route_job *j = ud;
    const size_t used = j->r->used, ld = bt_companion_ld(j->c, j->k);
    (void)part, (void)parts;
    for (size_t row, end; bt_pool_range_take(&j->items, &row, &end);)
        for (; row < end; row++) {
            const uint32_t *number = number_of(j->c, j->r, row);
            for (size_t i = 0; i < used && number[i] != BT_COMPANION_NO_EXPERT; i++)
                memcpy(j->y + number[used + i] * ld, j->x + row * ld, j->k * sizeof *j->y);
        }
}

void bt_companion_routes_of(uint32_t *row, uint32_t *expert, const bt_companion *c,
                            const bt_companion_routes *r, size_t t)
{
    for (size_t at = 0; at < t; at++) {
        const uint32_t *number = number_of(c, r, at);
        for (size_t i = 0; i < r->used && number[i] != BT_COMPANION_NO_EXPERT; i++) {
            row[number[r->used + i]] = (uint32_t)at;
            expert[number[r->used + i]] = number[i];
        }
    }
}

static void mix_part(void *ud, size_t part, size_t parts)
{
    route_job *j = ud;
    const size_t used = j->r->used, ld = bt_companion_ld(j->c, j->k);
    (void)part, (void)parts;
    for (size_t row, end; bt_pool_range_take(&j->items, &row, &end);)
        for (; row < end; row++) {
            const uint32_t *number = number_of(j->c, j->r, row);
            const float *weight = (const float *)(const void *)(number + 2 * used);
            float *y = j->y + row * ld;
            memset(y, 0, j->k * sizeof *y);
            for (size_t i = 0; i < used && number[i] != BT_COMPANION_NO_EXPERT; i++)
                j->c->kernels->add_scaled(y, j->x + number[used + i] * ld, weight[i], j->k);
        }
}

static void by_row(route_job *j, size_t t, bt_pool_fn *fn)
{
    bt_companion_flush(j->c);
    bt_pool_range_init(&j->items, t, 1);
    bt_pool_run(bt_companion_pool_for(j->c, t * j->r->used * j->k), fn, j);
}

void bt_companion_gather(const bt_companion *c, const bt_companion_routes *r, float *y, const float *x,
                         size_t t, size_t k)
{
    route_job j = {.c = c, .r = r, .x = x, .y = y, .k = k};
    by_row(&j, t, gather_part);
}

void bt_companion_mix(const bt_companion *c, const bt_companion_routes *r, float *y, const float *x, size_t t,
                      size_t k)
{
    route_job j = {.c = c, .r = r, .x = x, .y = y, .k = k};
    by_row(&j, t, mix_part);
}
