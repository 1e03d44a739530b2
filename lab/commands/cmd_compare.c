/* baton compare: results of `baton replay --json` side by side, with how sure each figure is. */
#include "lab/replay/bootstrap.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 8, TIMES = 3 };
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
    bool json;
} config;

static const bt_opt opts[] = {
    {.of = &tool_seed_opts, .group = "Output", .name = "seed", BT_OPT_AT(config, seed),
     .help = "seed of the bootstrap's draws"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: runs[]"},
};

const bt_opt_program tool_compare_program = {
    .name = "baton compare",
    .summary = "results of `baton replay --json` side by side, with 95 % confidence intervals (bootstrap)",
    .usage = "FILE FILE... [options]",
    .normal = "baton compare ONE.json OTHER.json",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_min = 2,
    .args_max = MOST_RUNS,
    .args_name = "FILE",
};

typedef struct run {
    const char *path;
    json_t *root;
    tool_replay_rounds *rounds; /* [TIMES] */
    bool has[TIMES];
} run;

static bt_err take_points(run *r, size_t time, uint64_t seed, bt_fault *fault)
{
    const json_t *a = json_object_get(json_object_get(r->root, "points"), times[time]);
    const size_t n = json_array_size(a);
    if (n == 0) return BT_OK; /* no request had one */
    double *value = malloc(n * sizeof *value);
    if (!value) return bt_fail(fault, BT_ENOMEM, "out of memory reading '%.150s'", r->path);
    bt_err e = BT_OK;
    for (size_t i = 0; i < n && e == BT_OK; i++) {
        const json_t *v = json_array_get(a, i);
        if (json_is_number(v)) value[i] = json_number_value(v);
        else e = bt_fail(fault, BT_EFORMAT, "'%.150s': points.%s[%zu] is no number", r->path, times[time], i);
    }
    if (e == BT_OK) e = tool_replay_bootstrap(&r->rounds[time], value, n, seed, fault);
    r->has[time] = e == BT_OK;
    free(value);
    return e;
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
    if (!json_is_object(json_object_get(r->root, "points")))
        return bt_fail(fault, BT_EFORMAT, "'%.150s' is not what 'baton replay --json' prints%s%s", path,
                       r->root ? "" : ": ", r->root ? "" : where.text);
    const json_t *pace = json_object_get(r->root, "pace");
    if (json_is_true(json_object_get(pace, "is_void")))
        return bt_fail(
            fault, BT_EARG,
            "'%.150s': the work of that run was %.2f %% later than --pace, so the host was measured and not "
            "the devices: run it again with a larger K, or with fewer requests at a time",
            path, 100 * json_number_value(json_object_get(pace, "late_ratio")));
    if (!(r->rounds = calloc(TIMES, sizeof *r->rounds)))
        return bt_fail(fault, BT_ENOMEM, "out of memory reading '%.150s'", path);
    for (size_t t = 0; t < TIMES && e == BT_OK; t++) e = take_points(r, t, seed + t, fault);
    return e;
}

static json_t *interval_json(tool_replay_interval i)
{
    return json_pack("{s:f, s:f, s:f}", "value", i.value, "low", i.lo, "high", i.hi);
}

/* Only a simulation has a time of its own. */
static bool is_modelled(const run *r) { return json_object_get(r->root, "virtual_seconds") != NULL; }

static bool differs(tool_replay_interval i) { return i.lo > 0 || i.hi < 0; }

static json_t *run_json(const run *first, const run *r)
{
    json_t *o = json_pack("{s:s, s:b}", "file", r->path, "is_modelled", (int)is_modelled(r));
    for (size_t i = 0; i < RATES; i++) {
        json_t *v = json_object_get(r->root, rates[i]);
        (void)json_object_set(o, rates[i], v ? v : json_null());
    }
    for (size_t t = 0; t < TIMES; t++) {
        json_t *of = json_object();
        for (size_t s = 0; r->has[t] && s < TOOL_REPLAY_STATS; s++) {
            json_t *one = interval_json(tool_replay_interval_of(&r->rounds[t], s));
            if (r != first && first->has[t]) {
                const tool_replay_interval d =
                    tool_replay_interval_between(&first->rounds[t], &r->rounds[t], s);
                (void)json_object_set_new(one, "change", interval_json(d));
                (void)json_object_set_new(one, "differs", json_boolean(differs(d)));
            }
            (void)json_object_set_new(of, tool_replay_stat_names[s], one);
        }
        (void)json_object_set_new(o, times[t], of);
    }
    return o;
}

static void print_runs(const run *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%c  %s%s\n", 'A' + (int)i, all[i].path,
               is_modelled(&all[i]) ? " (modelled by 'baton simulate', not measured)" : "");
    printf("%-26s", "");
    for (size_t i = 0; i < n; i++) printf("%26c", 'A' + (int)i);
    putchar('\n');
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
                const tool_replay_interval v = all[i].has[t] ? tool_replay_interval_of(&all[i].rounds[t], s)
                                                             : (tool_replay_interval){0, 0, 0};
                if (all[i].has[t])
                    (void)snprintf(text, sizeof text, "%.4g [%.4g, %.4g]", v.value, v.lo, v.hi);
                printf("%26s", text);
            }
            for (size_t i = 1; i < n; i++) {
                if (!all[0].has[t] || !all[i].has[t]) continue;
                const tool_replay_interval d =
                    tool_replay_interval_between(&all[0].rounds[t], &all[i].rounds[t], s);
                printf("  %c: %+.1f %%%s", 'A' + (int)i, 100 * d.value, differs(d) ? "" : " (chance?)");
            }
            putchar('\n');
        }
}

int tool_compare_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    run all[MOST_RUNS] = {{0}};
    bt_err e = BT_OK;
    int rc = bt_opt_start(&args, &tool_compare_program, argc, argv, &c);
    if (rc >= 0) return rc;
    /* each of its own draws: two runs of the same values shall not seem to be bound to each other */
    for (size_t i = 0; i < args.count && e == BT_OK; i++)
        e = read_run(&all[i], args.args[i], (uint64_t)c.seed + 1000 * i, &fault);
    if (e < 0) {
        rc = tool_fail("compare", &fault);
    } else if (c.json) {
        json_t *runs = json_array();
        for (size_t i = 0; i < args.count; i++) (void)json_array_append_new(runs, run_json(&all[0], &all[i]));
        rc = tool_print_json("compare", json_pack("{s:o}", "runs", runs));
    } else {
        print_runs(all, args.count);
        rc = bt_opt_flush() != 0;
    }
    for (size_t i = 0; i < MOST_RUNS; i++) {
        json_decref(all[i].root);
        free(all[i].rounds);
    }
    bt_opt_done(&args);
    return rc;
}
