/* Bisection, the frontier, costs, votes. See sweep.h. */
#include "lab/simulate/sweep.h"
#include "base/num.h"
#include "device/forecast.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tool_simulate_costs[] = {"nodes", "joules", "price", NULL};

typedef struct asker {
    tool_simulate_try *try_one;
    void *ud;
    bt_fault *fault;
} asker;

static bt_err ask(const asker *a, tool_simulate_point *ret, uint32_t decode)
{
    return a->try_one(a->ud, ret, decode, a->fault);
}

static bt_err search(const asker *a, tool_simulate_point *ret, bool *ret_found, uint32_t least, uint32_t most)
{
    bt_err e = BT_OK;
    *ret_found = false;
    for (uint32_t d = least; e == BT_OK && d <= most && !*ret_found; d++) {
        tool_simulate_point p;
        e = ask(a, &p, d);
        if (e == BT_OK && p.is_carried) {
            *ret = p;
            *ret_found = true;
        }
    }
    return e;
}

bt_err tool_simulate_row(tool_simulate_point *ret, bool *ret_found, uint32_t least, uint32_t most,
                         tool_simulate_try *try_one, void *ud, bt_fault *fault)
{
    const asker a = {try_one, ud, fault};
    tool_simulate_point best, p;
    uint32_t low = least, high = most; /* high carries it; below low nothing does */
    bt_err e = ask(&a, &best, most);
    if (e < 0) return e;
    if (!best.is_carried) {
        e = ask(&a, &p, least + (most - least) / 2);
        if (e == BT_OK && p.is_carried) return search(&a, ret, ret_found, least, most);
        *ret_found = false;
        return e;
    }
    while (e == BT_OK && low < high) {
        const uint32_t middle = low + (high - low) / 2;
        e = ask(&a, &p, middle);
        if (e == BT_OK && p.is_carried) {
            high = middle;
            best = p;
        } else if (e == BT_OK) {
            low = middle + 1;
        }
    }
    if (e == BT_OK && high < most) {
        e = ask(&a, &p, high + 1);
        if (e == BT_OK && !p.is_carried) return search(&a, ret, ret_found, least, most);
    }
    if (e < 0) return e;
    *ret = best;
    *ret_found = true;
    return BT_OK;
}

static int by_nodes(const void *a, const void *b)
{
    const tool_simulate_point *x = a, *y = b;
    if (x->prefill != y->prefill) return x->prefill < y->prefill ? -1 : 1;
    return (x->decode > y->decode) - (x->decode < y->decode);
}

size_t tool_simulate_frontier(tool_simulate_point *point, size_t n)
{
    size_t kept = 0;
    if (n) qsort(point, n, sizeof *point, by_nodes);
    for (size_t i = 0; i < n; i++)
        if (!kept || point[i].decode < point[kept - 1].decode) point[kept++] = point[i];
    return kept;
}

double tool_simulate_cost(const tool_simulate_rates *r, const tool_simulate_point *p)
{
    switch (r->kind) {
    case TOOL_SIMULATE_NODE_COUNT: return (double)p->prefill + p->decode;
    case TOOL_SIMULATE_JOULES: return p->joules;
    case TOOL_SIMULATE_PRICE: return r->fixed + r->prefill * p->prefill + r->decode * p->decode;
    }
    return -1;
}

size_t tool_simulate_cheapest(const tool_simulate_rates *r, const tool_simulate_point *point, size_t n)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++) {
        const double cost = tool_simulate_cost(r, &point[i]);
        if (cost < 0) continue;
        if (best == n) {
            best = i;
            continue;
        }
        const double least = tool_simulate_cost(r, &point[best]);
        const uint32_t nodes = point[i].prefill + point[i].decode,
                       fewest = point[best].prefill + point[best].decode;
        if (cost < least || (cost <= least && nodes < fewest) ||
            (cost <= least && nodes == fewest && point[i].prefill < point[best].prefill))
            best = i;
    }
    return best;
}

/* ---- votes ---- */

bt_err tool_simulate_votes_begin(tool_simulate_votes *ret, size_t rows, uint32_t draws, bt_fault *fault)
{
    tool_simulate_votes v = {.draws = draws, .rows = rows};
    *ret = (tool_simulate_votes){.draws = 0};
    if (!draws || !rows) return BT_OK;
    v.row = calloc(rows, sizeof *v.row);
    v.low = calloc(rows, sizeof *v.low);
    v.high = calloc(rows, sizeof *v.high);
    v.least = calloc(rows, draws * sizeof *v.least);
    v.vote = calloc(draws, sizeof *v.vote);
    if (v.row && v.low && v.high && v.least && v.vote) {
        *ret = v;
        return BT_OK;
    }
    tool_simulate_votes_done(&v);
    return bt_fail(fault, BT_ENOMEM, "out of memory for %u draws of %zu rows", (unsigned)draws, rows);
}

void tool_simulate_votes_done(tool_simulate_votes *v)
{
    free(v->row);
    free(v->low);
    free(v->high);
    free(v->least);
    free(v->vote);
    *v = (tool_simulate_votes){.draws = 0};
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int by_cluster(const void *a, const void *b)
{
    const tool_simulate_vote *x = a, *y = b;
    if (x->prefill != y->prefill) return x->prefill < y->prefill ? -1 : 1;
    return (x->decode > y->decode) - (x->decode < y->decode);
}

static int by_wins(const void *a, const void *b)
{
    const tool_simulate_vote *x = a, *y = b;
    return x->wins == y->wins ? by_cluster(a, b) : x->wins > y->wins ? -1 : 1;
}

static bool is_of(const tool_simulate_vote *v, const tool_simulate_point *p)
{
    return v->prefill == p->prefill && v->decode == p->decode;
}

/* A row's clusters are beaten by those of the rows before it that have as many decode nodes. */
static void set_lines(tool_simulate_votes *v, uint32_t *so_far, uint32_t *sorted)
{
    const size_t n = v->draws, low = bt_forecast_low(n);
    for (size_t k = 0; k < n; k++) so_far[k] = TOOL_SIMULATE_UNMET;
    for (size_t i = 0; i < v->rows; i++) {
        for (size_t k = 0; k < n; k++)
            if (v->least[i * n + k] < so_far[k]) so_far[k] = v->least[i * n + k];
        memcpy(sorted, so_far, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, by_number);
        v->low[i] = sorted[low];
        v->high[i] = sorted[n - 1 - low];
    }
    for (size_t i = 0; i < v->rows; i++) qsort(&v->least[i * n], n, sizeof *v->least, by_number);
}

bt_err tool_simulate_votes_count(tool_simulate_votes *v, const tool_simulate_point *best, bt_fault *fault)
{
    const size_t n = v->draws;
    if (!n) return BT_OK;
    uint32_t *space = calloc(2 * n, sizeof *space);
    if (!space) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu draws", n);
    set_lines(v, space, space + n);
    free(space);
    size_t kept = 0;
    qsort(v->vote, v->votes, sizeof *v->vote, by_cluster);
    for (size_t i = 0; i < v->votes; i++) {
        if (kept && by_cluster(&v->vote[kept - 1], &v->vote[i]) == 0)
            v->vote[kept - 1].wins += v->vote[i].wins;
        else v->vote[kept++] = v->vote[i];
    }
    v->votes = kept;
    qsort(v->vote, kept, sizeof *v->vote, by_wins);
    double wins = best ? tool_simulate_wins(v, best) : 0;
    for (size_t i = 0; i < kept && wins < BT_FORECAST_CERTAIN * (double)n; i++) {
        if (best && is_of(&v->vote[i], best)) continue;
        v->vote[i].is_tie = true;
        wins += v->vote[i].wins;
    }
    return BT_OK;
}

uint32_t tool_simulate_wins(const tool_simulate_votes *v, const tool_simulate_point *p)
{
    for (size_t i = 0; i < v->votes; i++)
        if (is_of(&v->vote[i], p)) return v->vote[i].wins;
    return 0;
}

uint32_t tool_simulate_kept(const tool_simulate_votes *v, const tool_simulate_point *p)
{
    uint32_t kept = 0;
    for (size_t i = 0; i < v->rows; i++)
        for (size_t k = 0; v->row[i] == p->prefill && k < v->draws; k++)
            kept += v->least[i * v->draws + k] <= p->decode;
    return kept;
}

bool tool_simulate_sure(const tool_simulate_votes *v, const tool_simulate_rates *r, tool_simulate_point *ret)
{
    const size_t most = (size_t)ceil(BT_FORECAST_CERTAIN * v->draws - 1e-9);
    bool found = false;
    for (size_t i = 0; i < v->rows && r->kind != TOOL_SIMULATE_JOULES; i++) {
        const uint32_t decode = v->least[i * v->draws + most - 1];
        const tool_simulate_point p = {.prefill = v->row[i], .decode = decode}, two[] = {found ? *ret : p, p};
        if (decode == TOOL_SIMULATE_UNMET) continue;
        *ret = two[tool_simulate_cheapest(r, two, 2)];
        found = true;
    }
    return found;
}

/* ---- what is read ---- */

bt_err tool_simulate_shard_read(tool_simulate_shard *ret, const char *text, bt_fault *fault)
{
    unsigned part = 0, of = 0;
    int used = 0;
    if (strlen(text) > 12 || sscanf(text, "%u/%u%n", &part, &of, &used) != 2 || text[used] || part < 1 ||
        part > of || of > 10000)
        return bt_fail(fault, BT_EARG,
                       "--shard '%.30s' is not I/N, the I-th of N parts, as in 1/8, with N at most 10000",
                       text);
    *ret = (tool_simulate_shard){part, of};
    return BT_OK;
}

bt_err tool_simulate_price(double *ret, const char *list, const char *device, bt_fault *fault)
{
    for (const char *at = list;;) {
        const size_t len = strcspn(at, ","), name = strcspn(at, ":,");
        char number[32] = "";
        double price;
        if (name < len && len - name - 1 < sizeof number)
            (void)snprintf(number, sizeof number, "%.*s", (int)(len - name - 1), at + name + 1);
        if (!number[0] || bt_num_double(&price, number, 0, 1e9, NULL) < 0)
            return bt_fail(fault, BT_EARG,
                           "--price '%.80s': '%.*s' is no device with a price, as in h100:2.5,a100:1.2", list,
                           len < 40 ? (int)len : 40, at);
        if (name == strlen(device) && strncmp(at, device, name) == 0) {
            *ret = price;
            return BT_OK;
        }
        if (!at[len]) break;
        at += len + 1;
    }
    return bt_fail(fault, BT_EARG, "--price '%.80s' does not say what '%.60s' costs; add ,%.60s:PRICE", list,
                   device, device);
}
