/* baton compare: results of `baton replay --json` and `baton simulate --json` side by side, with how sure
 * each figure is; behind them whatever else differs between them. Runs of one load are compared request by
 * request: what makes a request long in both is no chance then. Results of --ramp and of sweeps have no
 * requests: their rates and clusters are compared as they are, and draw by draw. */
#include "device/options.h"
#include "device/forecast.h"
#include "lab/replay/bootstrap.h"
#include "lab/replay/result.h"
#include "tools/made_by.h"
#include "tools/options.h"
#include "tools/show.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 8, TIMES = 3, MOST_DEPTH = 5, COLUMN = 26 };
static const char *const times[TIMES] = {"ttft_ms", "tpot_ms", "e2e_ms"};
static const char *const rates[] = {"requests",
                                    "failed",
                                    "requests_per_second",
                                    "goodput_rps",
                                    "input_tokens_per_second",
                                    "output_tokens_per_second"};
enum { RATES = sizeof rates / sizeof *rates };

typedef struct config {
    int64_t seed;
    bool bounds, json;
} config;

static const bt_opt opts[] = {
    {.of = &tool_seed_opts, .group = "Output", .name = "seed", BT_OPT_AT(config, seed),
     .help = "seed of the bootstrap's draws"},
    {.of = &bt_device_opts, .group = "Output", .name = "bounds", BT_OPT_AT(config, bounds),
     .help = "of simulations: compare a calibrated device with one that is a bound by its data sheet"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: runs[]; rows[], each with values[], for what else differs"},
};

const bt_opt_program tool_compare_program = {
    .name = "baton compare",
    .summary =
        "results of replay and simulate --json side by side, with 95 % confidence intervals (bootstrap)",
    .usage = "FILE FILE... [options]",
    .normal = "baton compare ONE.json OTHER.json",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_min = 2,
    .args_max = MOST_RUNS,
    .args_name = "FILE",
};

/* A time of a request, by the request's number in the load. */
typedef struct point {
    double value;
    int64_t request;
} point;

typedef enum kind { RUN, RAMP, SWEEP } kind;
static const char *const kinds[] = {"run", "ramp", "sweep"}, *const kind_texts[] = {
                                                                 "one run", "a search by --ramp", "a sweep"};

typedef struct run {
    const char *path;
    kind kind;
    json_t *root;
    const char *load;    /* its digest; NULL: not known */
    point *point[TIMES]; /* by request where has_requests, else as they stand in the file */
    size_t points[TIMES];
    tool_replay_rounds *rounds; /* [TIMES] */
    tool_replay_rounds *pair;   /* [TIMES][2]: the first run's and this one's, of the requests that both
                                   answered */
    size_t pairs[TIMES];        /* how many; 0: the runs are not compared by request */
    bool has_requests[TIMES];
} run;

static int by_request(const void *a, const void *b)
{
    const int64_t x = ((const point *)a)->request, y = ((const point *)b)->request;
    return (x > y) - (x < y);
}

static bt_err bootstrap(tool_replay_rounds *ret, const point *p, size_t n, uint64_t seed, bt_fault *fault)
{
    double *value = malloc(n * sizeof *value);
    if (!value) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu requests", n);
    for (size_t i = 0; i < n; i++) value[i] = p[i].value;
    const bt_err e = tool_replay_bootstrap(ret, value, n, seed, fault);
    free(value);
    return e;
}

static bt_err take_points(run *r, size_t time, uint64_t seed, bt_fault *fault)
{
    const json_t *points = json_object_get(r->root, "points"), *a = json_object_get(points, times[time]),
                 *numbers = json_object_get(json_object_get(points, "requests"), times[time]);
    const size_t n = json_array_size(a);
    if (n == 0) return BT_OK; /* no request had one */
    point *p = r->point[time] = malloc(n * sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory reading '%.150s'", r->path);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(a, i);
        if (!json_is_number(v))
            return bt_fail(fault, BT_EFORMAT, "'%.150s': points.%s[%zu] is no number", r->path, times[time],
                           i);
        p[i] = (point){json_number_value(v), json_integer_value(json_array_get(numbers, i))};
    }
    r->points[time] = n;
    r->has_requests[time] = json_array_size(numbers) == n;
    if (r->has_requests[time]) qsort(p, n, sizeof *p, by_request);
    return bootstrap(&r->rounds[time], p, n, seed, fault);
}

/* Requests that both runs answered. */
static bt_err pair(const run *first, run *r, size_t time, uint64_t seed, bt_fault *fault)
{
    const point *a = first->point[time], *b = r->point[time];
    const size_t an = first->points[time], bn = r->points[time];
    point *both = malloc((an ? an : 1) * 2 * sizeof *both), *other = both ? both + an : NULL;
    size_t n = 0;
    if (!both) return bt_fail(fault, BT_ENOMEM, "out of memory for %zu requests", an);
    for (size_t i = 0, k = 0; i < an && k < bn;) {
        if (a[i].request == b[k].request) {
            both[n] = a[i++];
            other[n++] = b[k++];
        } else if (a[i].request < b[k].request) {
            i++;
        } else {
            k++;
        }
    }
    tool_replay_rounds *to = &r->pair[time * 2];
    bt_err e = n ? bootstrap(&to[0], both, n, seed, fault) : BT_OK;
    if (e == BT_OK && n) e = bootstrap(&to[1], other, n, seed, fault);
    r->pairs[time] = e == BT_OK ? n : 0;
    free(both);
    return e;
}

static bt_err pair_all(const run *first, run *r, uint64_t seed, bt_fault *fault)
{
    bt_err e = BT_OK;
    if (!first->load || !r->load || strcmp(first->load, r->load) != 0) return BT_OK;
    r->pair = calloc((size_t)TIMES * 2, sizeof *r->pair);
    if (!r->pair) return bt_fail(fault, BT_ENOMEM, "out of memory reading '%.150s'", r->path);
    for (size_t t = 0; t < TIMES && e == BT_OK; t++)
        if (first->has_requests[t] && r->has_requests[t]) e = pair(first, r, t, seed + t, fault);
    return e;
}

/* How much r's figure differs from the first run's. */
static tool_replay_interval change(const run *first, const run *r, size_t time, size_t stat)
{
    if (r->pairs[time]) return tool_replay_interval_between(&r->pair[time * 2], &r->pair[time * 2 + 1], stat);
    return tool_replay_interval_between(&first->rounds[time], &r->rounds[time], stat);
}

/* The most by which work that was later than --pace can have moved the time's mean: `what` is most_ms, or
 * most_ratio; worst_ms is of one request. */
static double moved(const run *r, size_t time, const char *what)
{
    const json_t *all = json_object_get(json_object_get(r->root, "pace"), "moved");
    return json_number_value(json_object_get(json_object_get(all, times[time]), what));
}

static bt_err read_run(run *r, const char *path, uint64_t seed, bt_fault *fault)
{
    char *text = NULL;
    size_t len = 0;
    json_error_t where;
    r->path = path;
    bt_err e = tool_read_file(&text, &len, path, fault);
    if (e < 0) return e;
    r->root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
    free(text);
    const json_t *points = json_object_get(r->root, "points");
    r->kind = json_is_array(json_object_get(r->root, "steps")) ? RAMP : json_is_array(points) ? SWEEP : RUN;
    if (r->kind == RUN && !json_is_object(points))
        return bt_fail(fault, BT_EFORMAT,
                       "'%.150s' is not what 'baton replay --json' or 'baton simulate --json' prints%s%s",
                       path, r->root ? "" : ": ", r->root ? "" : where.text);
    if (r->kind != RUN) return BT_OK;
    r->load = json_string_value(json_object_get(json_object_get(r->root, "points"), "load"));
    if (!(r->rounds = calloc(TIMES, sizeof *r->rounds)))
        return bt_fail(fault, BT_ENOMEM, "out of memory reading '%.150s'", path);
    for (size_t t = 0; t < TIMES && e == BT_OK; t++) e = take_points(r, t, seed + t, fault);
    return e;
}

/* The measure of a run's goodput: requests within these limits; the share of them that a load has to keep to
 * be carried, where loads or clusters are searched for. */
typedef struct goodput {
    tool_replay_slo slo;
    double share; /* of one run: 0 */
    char text[96];
} goodput;

/* false: the file does not say how it was made. */
static bool goodput_of(goodput *ret, const run *r)
{
    static const char *const shares[] = {"", "ramp-share", "slo-share"};
    const json_t *options = json_object_get(json_object_get(r->root, "made_by"), "options");
    const char *slo = json_string_value(json_object_get(options, "slo")),
               *share = json_string_value(json_object_get(options, shares[r->kind]));
    *ret = (goodput){.slo = {-1, -1, -1}, .share = share ? strtod(share, NULL) : 0};
    (void)snprintf(ret->text, sizeof ret->text, "%s%.50s%s%s%s%.8s", slo ? "--slo " : "no --slo",
                   slo ? slo : "", share ? " --" : "", share ? shares[r->kind] : "", share ? " " : "",
                   share ? share : "");
    return options && (!slo || tool_replay_slo_read(&ret->slo, slo, NULL) == BT_OK);
}

/* Goodput says nothing beside one of other limits, nor does a search for it by another share. */
static bt_err check_goodputs(const run *all, size_t n, bt_fault *fault)
{
    const run *first = NULL;
    goodput g, other;
    for (size_t i = 0; i < n; i++) {
        if (!goodput_of(&other, &all[i])) continue;
        if (!first) {
            first = &all[i];
            g = other;
        } else if (memcmp(&g.slo, &other.slo, sizeof g.slo) != 0 || g.share < other.share ||
                   g.share > other.share) {
            return bt_fail(fault, BT_EARG,
                           "goodputs by unlike limits: '%.120s' has %s, '%.120s' has %s; run both with the "
                           "same --slo%s",
                           first->path, g.text, all[i].path, other.text,
                           first->kind == RUN ? "" : " and share");
        }
    }
    return BT_OK;
}

static bt_err check_kinds(const run *all, size_t n, bt_fault *fault)
{
    for (size_t i = 1; i < n; i++)
        if (all[i].kind != all[0].kind)
            return bt_fail(fault, BT_EARG,
                           "'%.120s' is of %s and '%.120s' of %s: compare results of one kind", all[0].path,
                           kind_texts[all[0].kind], all[i].path, kind_texts[all[i].kind]);
    return BT_OK;
}

/* ---- whatever else differs ---- */

/* Rows are the values of the runs by the path of their keys: an object of arrays in the order of the files.
 */
typedef struct reading {
    json_t *of;
    size_t runs, run; /* run: the one that is read */
} reading;

/* Series, whose points are not of the same thing in two runs, and what no two commands have alike. Clusters
 * of a sweep are of the same thing. */
static bool is_passed_over(const char *path, const json_t *value)
{
    static const char *const names[] = {"points",       "notes",           "nodes_over_time",
                                        "made_by.date", "made_by.command", "draws.values"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(path, names[i]) == 0) return i > 0 || !json_is_array(value);
    return false;
}

/* With its interval among the first rows. */
static bool is_shown(const char *path)
{
    char name[64];
    for (size_t i = 0; i < RATES; i++)
        if (strcmp(path, rates[i]) == 0) return true;
    if (strcmp(path, "best_rps") == 0) return true;
    for (size_t t = 0; t < TIMES; t++)
        for (size_t s = 0; s < TOOL_REPLAY_STATS; s++) {
            (void)snprintf(name, sizeof name, "%s.%s", times[t], tool_replay_stat_names[s]);
            if (strcmp(path, name) == 0) return true;
        }
    return false;
}

static void add_value(const reading *r, const char *path, json_t *value)
{
    json_t *values = json_object_get(r->of, path);
    if (!values) {
        (void)json_object_set_new(r->of, path, values = json_array());
        for (size_t i = 0; i < r->runs; i++) (void)json_array_append_new(values, json_null());
    }
    (void)json_array_set(values, r->run, value);
}

/* Nodes, models and keys have names, by which runs agree; runs of a search have speeds, clusters of a sweep
 * numbers of nodes; gateways have numbers. */
static void name_of(char ret[96], const json_t *item, size_t i)
{
    static const char *const keys[] = {"id", "name", "model", "key"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys && !json_object_get(item, "gateway"); k++) {
        const char *name = json_string_value(json_object_get(item, keys[k]));
        if (!name) continue;
        (void)snprintf(ret, 96, "%s", name);
        return;
    }
    const json_t *speed = json_object_get(item, "speed"), *prefill = json_object_get(item, "prefill"),
                 *decode = json_object_get(item, "decode");
    if (json_is_number(speed)) (void)snprintf(ret, 96, "%.6g", json_number_value(speed));
    else if (json_is_integer(prefill) && json_is_integer(decode))
        (void)snprintf(ret, 96, "%" JSON_INTEGER_FORMAT "+%" JSON_INTEGER_FORMAT, json_integer_value(prefill),
                       json_integer_value(decode));
    else (void)snprintf(ret, 96, "%zu", i);
}

static bool is_own_name(const char *path, const json_t *value)
{
    const size_t n = strlen(path), m = json_string_length(value);
    return m > 0 && m < n && strcmp(path + n - m, json_string_value(value)) == 0;
}

/* Adds all values below `value`, but those deeper than any result has. The figures of one model are the
 * run's. */
static void add_below(const reading *r, const char *path, json_t *value, int depth)
{
    char below[320], name[96];
    const char *key;
    json_t *v;
    size_t i;
    if (depth > MOST_DEPTH || is_passed_over(path, value)) return;
    if (strcmp(path, "models") == 0 && json_array_size(value) == 1) return;
    if (json_is_object(value)) {
        json_object_foreach(value, key, v) {
            (void)snprintf(below, sizeof below, "%.220s%s%.96s", path, *path ? "." : "", key);
            if (!is_own_name(path, v)) add_below(r, below, v, depth + 1);
        }
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, v) {
            name_of(name, v, i);
            (void)snprintf(below, sizeof below, "%.220s.%s", path, name);
            add_below(r, below, v, depth + 1);
        }
    } else if (!is_shown(path)) {
        add_value(r, path, value);
    }
}

/* The rows whose values are not the same in all runs; first how they were made, which may be why. */
static json_t *find_rows(const run *all, size_t n)
{
    reading r = {json_object(), n, 0};
    const char *path;
    json_t *values;
    void *next;
    for (; r.run < n; r.run++) add_below(&r, "made_by", json_object_get(all[r.run].root, "made_by"), 1);
    for (r.run = 0; r.run < n; r.run++) add_below(&r, "", all[r.run].root, 0);
    json_object_foreach_safe(r.of, next, path, values)
    {
        /* each search tries speeds of its own */
        bool is_same = true, is_lacking = false;
        for (size_t i = 0; i < n; i++) {
            is_same = is_same && json_equal(json_array_get(values, 0), json_array_get(values, i));
            is_lacking = is_lacking || json_is_null(json_array_get(values, i));
        }
        if (is_same || (is_lacking && !strncmp(path, "steps.", 6))) (void)json_object_del(r.of, path);
    }
    return r.of;
}

static json_t *rows_json(json_t *rows)
{
    json_t *list = json_array(), *values;
    const char *path;
    json_object_foreach(rows, path, values)
        (void)json_array_append_new(list, json_pack("{s:s, s:O}", "row", path, "values", values));
    return list;
}

/* In a column, to the right; a longer text pushes the rest away. */
static void print_value(const json_t *v)
{
    char number[64] = "-";
    const char *text = json_is_string(v) ? json_string_value(v) : number;
    if (json_is_integer(v))
        (void)snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_number(v)) (void)snprintf(number, sizeof number, "%.6g", json_number_value(v));
    else if (json_is_boolean(v)) (void)snprintf(number, sizeof number, "%s", json_is_true(v) ? "yes" : "no");
    const size_t len = strlen(text);
    printf("%*s", len < COLUMN - 2 ? (int)(COLUMN - len) : 2, "");
    tool_show(stdout, text, len);
}

static void print_rows(json_t *rows, size_t n)
{
    size_t width = 0;
    const char *path;
    json_t *values;
    if (json_object_size(rows) == 0) {
        printf("nothing else differs\n");
        return;
    }
    json_object_foreach(rows, path, values) width = strlen(path) > width ? strlen(path) : width;
    printf("\nwhat else differs, without intervals\n");
    json_object_foreach(rows, path, values) {
        const json_t *first = json_array_get(values, 0);
        tool_show(stdout, path, strlen(path));
        printf("%*s", (int)(width - strlen(path)), "");
        for (size_t i = 0; i < n; i++) print_value(json_array_get(values, i));
        for (size_t i = 1; i < n; i++) {
            const json_t *v = json_array_get(values, i);
            const double a = json_number_value(first), b = json_number_value(v);
            if (json_is_number(v) && (a < 0 || a > 0) && (a < b || a > b))
                printf("  %c: %+.1f %%", 'A' + (int)i, 100 * (b - a) / a);
        }
        putchar('\n');
    }
}

/* ---- the runs ---- */

static json_t *interval_json(tool_replay_interval i)
{
    return json_pack("{s:f, s:f, s:f}", "value", i.value, "low", i.lo, "high", i.hi);
}

/* Only a simulation has a time of its own, a sweep, or a search whose rates have errors. */
static bool is_modelled(const run *r)
{
    return r->kind == SWEEP || json_object_get(r->root, "virtual_seconds") ||
           (r->kind == RAMP && json_object_get(r->root, "error"));
}

/* By more than chance, and by more than lateness can have moved the two: the mean by its mean, a percentile
 * by no more than a single request. */
static bool differs(const run *first, const run *r, size_t time, size_t stat, tool_replay_interval i)
{
    const char *what = stat ? "worst_ms" : "most_ms";
    const double value = first->rounds[time].value[stat],
                 late_ms = moved(first, time, what) + moved(r, time, what),
                 late = value > 0 ? late_ms / value : 0;
    return i.lo > late || i.hi < -late;
}

static const char *why_not(const run *first, const run *r, size_t time, size_t stat, tool_replay_interval i)
{
    if (differs(first, r, time, stat, i)) return "";
    return i.lo > 0 || i.hi < 0 ? " (late work?)" : " (chance?)";
}

/* ---- how far modelled figures may be from real ones ---- */

/* The profile's standing in a simulation's file. "": it does not say. */
static const char *standing_of(const run *r, const char *profile)
{
    const json_t *all = json_object_get(json_object_get(r->root, "made_by"), "profiles"), *one;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)all, i, one) {
        const char *name = json_string_value(json_object_get(one, "name")),
                   *standing = json_string_value(json_object_get(one, "standing"));
        if (name && standing && strcmp(name, profile) == 0) return standing;
    }
    return "";
}

/* A profile of a, not of b, with this standing; NULL: none. */
static const char *own_profile(const run *a, const run *b, const char *standing)
{
    const json_t *all = json_object_get(json_object_get(a->root, "made_by"), "profiles"), *one;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)all, i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strcmp(standing_of(a, name), standing) == 0 && !*standing_of(b, name)) return name;
    }
    return NULL;
}

/* Two simulations on other devices, one of them a bound and the other one calibrated. */
static bt_err check_bounds(const run *all, size_t n, bt_fault *fault)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            if (!is_modelled(&all[i]) || !is_modelled(&all[k])) continue;
            const char *bound = own_profile(&all[i], &all[k], "bound"),
                       *other = own_profile(&all[k], &all[i], "calibrated");
            if (!bound || !other) continue;
            return bt_fail(
                fault, BT_EARG,
                "'%.60s' of '%.80s' is a bound by a data sheet, and '%.60s' of '%.80s' is "
                "calibrated: the bound seems better than it is; --bounds compares them all the same",
                bound, all[i].path, other, all[k].path);
        }
    return BT_OK;
}

/* In how many draws r's figure is less than the first run's, those where both are equal by half. *ret_alike:
 * in how many both are equal. < 0: the two have not the same draws. */
static double less_in_draws(const run *first, const run *r, const char *name, size_t *ret_draws,
                            size_t *ret_alike)
{
    const json_t *a = json_object_get(first->root, "draws"), *b = json_object_get(r->root, "draws"),
                 *x = json_object_get(json_object_get(a, "values"), name),
                 *y = json_object_get(json_object_get(b, "values"), name);
    const size_t n = json_array_size(x);
    double less = 0;
    *ret_alike = 0;
    if (!n || json_array_size(y) != n || !json_equal(json_object_get(a, "seed"), json_object_get(b, "seed")))
        return -1;
    for (size_t i = 0; i < n; i++) {
        const double v = json_number_value(json_array_get(x, i)), w = json_number_value(json_array_get(y, i));
        less += w < v ? 1 : w > v ? 0 : .5;
        *ret_alike += !(w < v || w > v);
    }
    *ret_draws = n;
    return less;
}

/* Drawn figures; of a time less is better, of a rate more. */
static const char *const drawn[] = {"ttft_ms", "tpot_ms", "e2e_ms", "best_rps"};
enum { DRAWN_RATE = TIMES, DRAWN };

/* The run, of the two, that is better in most draws: 0 the first run, 1 the other one; the share of the draws
 * in which it is. -1: there are no draws, or both are alike in all. */
static int winner(const run *first, const run *r, size_t figure, double *ret_certain)
{
    size_t n = 0, alike;
    const double less = less_in_draws(first, r, drawn[figure], &n, &alike);
    if (less < 0 || alike == n) return -1;
    const double wins = figure == DRAWN_RATE ? (double)n - less : less;
    const bool is_first = 2 * wins < (double)n;
    *ret_certain = (is_first ? (double)n - wins : wins) / (double)n;
    return !is_first;
}

static json_t *draws_json(const run *first, const run *r)
{
    json_t *o = NULL;
    for (size_t t = 0; t < DRAWN; t++) {
        size_t n = 0, alike;
        double certain;
        const double less = less_in_draws(first, r, drawn[t], &n, &alike);
        const int best = winner(first, r, t, &certain);
        if (less < 0) continue;
        if (!o) o = json_pack("{s:I}", "count", (json_int_t)n);
        (void)json_object_set_new(o, drawn[t],
                                  json_pack("{s:f, s:o, s:o}", "less_ratio", less / (double)n, "best",
                                            best < 0 ? json_null()
                                                     : json_string(best ? r->path : first->path),
                                            "certain", best < 0 ? json_null() : json_real(certain)));
    }
    return o ? o : json_null();
}

/* Behind the difference of two figures: who wins, whatever the devices really take. */
static void print_draws(const run *all, size_t i, size_t figure)
{
    size_t draws = 0, alike;
    double certain;
    const double less = less_in_draws(&all[0], &all[i], drawn[figure], &draws, &alike);
    const int best = winner(&all[0], &all[i], figure, &certain);
    if (less < 0) return;
    if (best < 0) printf("; alike in all %zu draws", draws);
    else
        printf("; %s%c wins in %.4g of %zu draws", certain < BT_FORECAST_CERTAIN ? "cannot tell: " : "",
               best ? 'A' + (int)i : 'A', certain * (double)draws, draws);
}

/* One line for each simulation: what its figures may be off by. */
static void print_errors(const run *r)
{
    static const char *const figures[] = {"ttft", "tpot", "joules"};
    const json_t *errors = json_object_get(r->root, "error");
    if (!json_is_object(errors)) return;
    printf("   modelled:");
    for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) {
        const char *text = json_string_value(json_object_get(json_object_get(errors, figures[k]), "text"));
        printf("%s %s ", k ? "," : "", figures[k]);
        tool_show(stdout, text ? text : "-", text ? strlen(text) : 1);
    }
    putchar('\n');
}

/* The draws in which a simulation keeps its limits for a share of the requests, and how many there are; 0: no
 * draws, or no limits. */
static size_t draws_kept(const run *r, double *ret_share, size_t *ret_kept)
{
    const json_t *values = json_object_get(json_object_get(r->root, "draws"), "values"),
                 *ratio = json_object_get(values, "kept_ratio"),
                 *options = json_object_get(json_object_get(r->root, "made_by"), "options");
    const char *share = json_string_value(json_object_get(options, "slo-share"));
    const size_t n = json_array_size(ratio);
    *ret_share = share ? strtod(share, NULL) : .99;
    *ret_kept = 0;
    for (size_t i = 0; i < n; i++)
        *ret_kept += json_number_value(json_array_get(ratio, i)) >= *ret_share - 1e-9;
    return n;
}

static json_t *kept_json(const run *r)
{
    double share;
    size_t kept;
    const size_t n = draws_kept(r, &share, &kept);
    return n ? json_pack("{s:f, s:I, s:I}", "share", share, "draws", (json_int_t)kept, "of", (json_int_t)n)
             : json_null();
}

static void print_kept(const run *r)
{
    double share;
    size_t kept;
    const size_t n = draws_kept(r, &share, &kept);
    if (n)
        printf("   keeps its limits for %.4g %% of the requests in %zu of %zu draws\n", 100 * share, kept, n);
}

static json_t *run_json(const run *first, const run *r)
{
    json_t *o = json_pack("{s:s, s:s, s:b, s:O*}", "file", r->path, "kind", kinds[r->kind], "is_modelled",
                          (int)is_modelled(r), "made_by", json_object_get(r->root, "made_by"));
    if (r->kind == RAMP) (void)json_object_set(o, "best_rps", json_object_get(r->root, "best_rps"));
    for (size_t i = 0; r->kind == RUN && i < RATES; i++) {
        json_t *v = json_object_get(r->root, rates[i]);
        (void)json_object_set(o, rates[i], v ? v : json_null());
    }
    for (size_t t = 0; r->kind == RUN && t < TIMES; t++) {
        json_t *of = json_object();
        for (size_t s = 0; r->points[t] && s < TOOL_REPLAY_STATS; s++) {
            json_t *one = interval_json(tool_replay_interval_of(&r->rounds[t], s));
            if (r != first && first->points[t]) {
                const tool_replay_interval d = change(first, r, t, s);
                (void)json_object_set_new(one, "change", interval_json(d));
                (void)json_object_set_new(one, "differs", json_boolean(differs(first, r, t, s, d)));
                (void)json_object_set_new(one, "paired_requests", json_integer((json_int_t)r->pairs[t]));
            }
            (void)json_object_set_new(of, tool_replay_stat_names[s], one);
        }
        (void)json_object_set_new(o, times[t], of);
    }
    if (is_modelled(r)) {
        if (r->kind != SWEEP) (void)json_object_set(o, "error", json_object_get(r->root, "error"));
        if (r->kind == RUN) (void)json_object_set_new(o, "kept", kept_json(r));
        (void)json_object_set_new(o, "draws", r == first ? json_null() : draws_json(first, r));
    }
    return o;
}

static void print_pace(const run *r)
{
    if (!json_is_object(json_object_get(r->root, "pace"))) return;
    printf("   late work moved its means by at most");
    for (size_t t = 0; t < TIMES; t++)
        printf("%s %s %.2f %%", t ? "," : "", times[t], 100 * moved(r, t, "most_ratio"));
    putchar('\n');
}

/* The rates that searches found. */
static void print_rates(const run *all, size_t n)
{
    const double a = json_number_value(json_object_get(all[0].root, "best_rps"));
    printf("%-26s", "best_rps");
    for (size_t i = 0; i < n; i++)
        printf("%26.6g", json_number_value(json_object_get(all[i].root, "best_rps")));
    for (size_t i = 1; i < n; i++) {
        const double b = json_number_value(json_object_get(all[i].root, "best_rps"));
        if (a > 0) printf("  %c: %+.1f %%", 'A' + (int)i, 100 * (b - a) / a);
        print_draws(all, i, DRAWN_RATE);
    }
    putchar('\n');
}

static void print_runs(const run *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        printf("%c  %s%s%s\n", 'A' + (int)i, all[i].path,
               is_modelled(&all[i]) ? " (modelled by 'baton simulate', not measured)" : "",
               all[i].pair ? ", the load of A: compared request by request" : "");
        print_pace(&all[i]);
        print_errors(&all[i]);
        print_kept(&all[i]);
    }
    if (all[0].kind == SWEEP) return;
    printf("%-26s", "");
    for (size_t i = 0; i < n; i++) printf("%26c", 'A' + (int)i);
    putchar('\n');
    if (all[0].kind == RAMP) {
        print_rates(all, n);
        return;
    }
    for (size_t k = 0; k < RATES; k++) {
        printf("%-26s", rates[k]);
        for (size_t i = 0; i < n; i++)
            printf("%26.6g", json_number_value(json_object_get(all[i].root, rates[k])));
        putchar('\n');
    }
    for (size_t t = 0; t < TIMES; t++)
        for (size_t s = 0; s < TOOL_REPLAY_STATS; s++) {
            printf("%-8s %-17s", times[t], tool_replay_stat_names[s]);
            for (size_t i = 0; i < n; i++) {
                char text[64] = "-";
                const tool_replay_interval v = all[i].points[t]
                                                   ? tool_replay_interval_of(&all[i].rounds[t], s)
                                                   : (tool_replay_interval){0, 0, 0};
                if (all[i].points[t])
                    (void)snprintf(text, sizeof text, "%.4g [%.4g, %.4g]", v.value, v.lo, v.hi);
                printf("%26s", text);
            }
            for (size_t i = 1; i < n; i++) {
                if (!all[0].points[t] || !all[i].points[t]) continue;
                const tool_replay_interval d = change(&all[0], &all[i], t, s);
                printf("  %c: %+.1f %%%s", 'A' + (int)i, 100 * d.value, why_not(&all[0], &all[i], t, s, d));
                if (s == 0) print_draws(all, i, t);
            }
            putchar('\n');
        }
}

static int show(const run *all, size_t n, bool is_json, json_t *made_by)
{
    json_t *rows = find_rows(all, n);
    int rc;
    if (is_json) {
        json_t *runs = json_array();
        for (size_t i = 0; i < n; i++) (void)json_array_append_new(runs, run_json(&all[0], &all[i]));
        rc = tool_print_json("compare", json_pack("{s:o, s:o, s:O}", "runs", runs, "rows", rows_json(rows),
                                                  "made_by", made_by));
    } else {
        print_runs(all, n);
        print_rows(rows, n);
        rc = bt_opt_flush() != 0;
    }
    json_decref(rows);
    return rc;
}

int tool_compare_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    run all[MOST_RUNS] = {{0}};
    json_t *made_by = NULL;
    int rc = bt_opt_start(&args, &tool_compare_program, argc, argv, &c);
    if (rc >= 0) return rc;
    bt_err e = tool_made_by(&made_by, &args, NULL, &fault);
    /* each of its own draws: two runs of the same values shall not seem to be bound to each other */
    for (size_t i = 0; i < args.count && e == BT_OK; i++)
        e = read_run(&all[i], args.args[i], (uint64_t)c.seed + 1000 * i, &fault);
    if (e == BT_OK) e = check_kinds(all, args.count, &fault);
    if (e == BT_OK) e = check_goodputs(all, args.count, &fault);
    if (e == BT_OK && !c.bounds) e = check_bounds(all, args.count, &fault);
    for (size_t i = 1; i < args.count && e == BT_OK; i++)
        e = pair_all(&all[0], &all[i], (uint64_t)c.seed, &fault);
    rc = e < 0 ? tool_fail("compare", &fault) : show(all, args.count, c.json, made_by);
    for (size_t i = 0; i < MOST_RUNS; i++) {
        json_decref(all[i].root);
        for (size_t t = 0; t < TIMES; t++) free(all[i].point[t]);
        free(all[i].rounds);
        free(all[i].pair);
    }
    json_decref(made_by);
    bt_opt_done(&args);
    return rc;
}
