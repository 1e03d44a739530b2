/* Served runs: the requests of a published run, with their arrivals and lengths, in the simulator's own
 * cluster, as `baton simulate` replays a trace on one node that computes prompts and decodes. */
#include "lab/simulate/play.h"
#include "tests/validate/validate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file's line "# run DEVICE STACK MODEL SLOTS ROWS": the engine's sequences at most, and rows of a step. */
typedef struct run {
    char device[64], stack[32], model[64];
    unsigned slots, rows;
    tool_replay_plan plan;
    double *ttft, *tpot, *e2e, end_ms;
    size_t len;
} run;

static void add_request(run *r, const char *path, const char *line)
{
    bt_fault fault;
    double at_s, ttft, e2e;
    unsigned in, out;
    if (sscanf(line, "%lf,%u,%u,%lf,%lf", &at_s, &in, &out, &ttft, &e2e) != 5 || out < 2) val_die(path, line);
    const tool_replay_item item = {.due_us = llround(at_s * 1e6), .next = TOOL_REPLAY_NONE,
                                   .sampling = TOOL_REPLAY_NONE,  .prompt_tokens = in,
                                   .output_tokens = out,          .stream = r->len + 1};
    if (tool_replay_plan_add_item(&r->plan, &item, &fault) < 0) val_die(path, fault.text);
    r->ttft[r->len] = ttft;
    r->tpot[r->len] = (e2e - ttft) / (out - 1);
    r->e2e[r->len++] = e2e;
    r->end_ms = fmax(r->end_ms, at_s * 1e3 + e2e);
}

static void read_run(run *r, const char *path)
{
    char *text = val_text(path);
    bt_fault fault;
    const size_t room = strlen(text) / 8 + 1;
    memset(r, 0, sizeof *r);
    r->ttft = calloc(room, sizeof *r->ttft);
    r->tpot = calloc(room, sizeof *r->tpot);
    r->e2e = calloc(room, sizeof *r->e2e);
    if (!r->ttft || !r->tpot || !r->e2e) val_die(path, strerror(ENOMEM));
    if (tool_replay_plan_begin(&r->plan, &fault) < 0) val_die(path, fault.text);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        if (!strncmp(line, "# run ", 6))
            (void)sscanf(line, "# run %63s %31s %63s %u %u", r->device, r->stack, r->model, &r->slots,
                         &r->rows);
        else if (*line >= '0' && *line <= '9') add_request(r, path, line);
    }
    if (!r->rows || !r->len)
        val_die(path, "a run without a line '# run DEVICE STACK MODEL SLOTS ROWS', or without requests");
    free(text);
}

static void play(tool_replay_figures *ret, run *r, const bt_profile *p, const bt_dims *model)
{
    static tool_simulate_setup s;
    static tool_replay_result result;
    static tool_simulate_facts facts;
    tool_simulate_bench *bench = NULL;
    const tool_replay_plan_options how = {.seed = 1, .context_tokens = 131072, .speed = 1};
    bt_fault fault;
    s = (tool_simulate_setup){.decode = {.len = 1},
                              .is_colocated = true,
                              .model = model,
                              .weight_bits = 16,
                              .weight_permille = 2000,
                              .kv_elem_bytes = 2,
                              .ctx_tokens = 131072,
                              .seed = 1,
                              .cluster = sim_cluster_defaults()};
    s.decode.group[0] = (tool_simulate_group){.least = 1, .most = 1, .profile = *p};
    s.cluster.decode_slots = r->slots;
    s.cluster.batch_rows = 512;
    s.cluster.chunk_tokens = r->rows;
    s.cluster.gw.queue_max = s.cluster.gw.active_max = 4096;
    s.cluster.timeout_ns = INT64_C(600000000000);
    s.cluster.gw.queue_us = INT64_C(600000000);
    bt_err e = bt_link_parse(&s.link, "100", &fault);
    if (e == BT_OK) e = bt_pace_parse(&s.pace, "off", &fault);
    if (e == BT_OK) e = tool_replay_plan_end(&r->plan, &how, &fault);
    if (e == BT_OK) e = tool_simulate_bench_new(&bench, &s, &fault);
    if (e == BT_OK) e = tool_replay_result_begin(&result, r->plan.len, &fault);
    if (e == BT_OK) e = tool_simulate_play(&facts, &result, bench, &r->plan, NULL, NULL, &fault);
    if (e == BT_OK) e = tool_replay_figures_of(ret, &result, NULL, &fault);
    if (e < 0) val_die(r->device, fault.text);
    if (ret->completed != r->len) val_die(r->device, "the simulated cluster refused requests of the run");
    tool_replay_result_done(&result);
    tool_simulate_bench_free(bench);
}

static void add(val_served *v, const char *name, double measured, double modelled, double goal)
{
    v->figure[v->len++] = (val_served_figure){name, measured, modelled, goal};
}

static void add_spread(val_served *v, const char *const name[3], double *measured, size_t n,
                       const tool_replay_spread *modelled, double mean_goal, double p50_goal)
{
    const tool_replay_spread s = tool_replay_spread_of(measured, n);
    add(v, name[0], s.mean, modelled->mean, mean_goal);
    add(v, name[1], s.p50, modelled->p50, p50_goal);
    add(v, name[2], s.p99, modelled->p99, 0);
}

void val_serve(val_served *ret, const char *path)
{
    static const char *const ttft[] = {"TTFT mean", "TTFT p50", "TTFT p99"},
                             *const tpot[] = {"TPOT mean", "TPOT p50", "TPOT p99"},
                             *const e2e[] = {"E2E mean", "E2E p50", "E2E p99"};
    run r;
    tool_replay_figures f;
    read_run(&r, path);
    *ret = (val_served){.requests = r.len};
    memcpy(ret->device, r.device, sizeof ret->device);
    memcpy(ret->stack, r.stack, sizeof ret->stack);
    const val_row of = {.device = ret->device, .stack = ret->stack, .devices = 1};
    const bt_dims *model = bt_dims_find(r.model);
    const bt_profile *p = val_profile(&of, &ret->why);
    if (!model) val_die(path, "a model that is not known");
    if (p) {
        play(&f, &r, p, model);
        add(ret, "makespan", r.end_ms, f.seconds * 1e3, 0.06);
        add_spread(ret, ttft, r.ttft, r.len, &f.ttft_ms, 0, 0.20);
        add_spread(ret, tpot, r.tpot, r.len, &f.tpot_ms, 0.06, 0);
        add_spread(ret, e2e, r.e2e, r.len, &f.e2e_ms, 0, 0);
    }
    tool_replay_plan_done(&r.plan);
    free(r.ttft);
    free(r.tpot);
    free(r.e2e);
}

void val_show_served(const val_served *v)
{
    printf("tier 3: served runs replayed\n\n  %s@%s, %zu requests\n", v->device, v->stack, v->requests);
    if (v->why) printf("  not played: %s\n", v->why);
    for (size_t i = 0; i < v->len; i++) {
        const val_served_figure *f = &v->figure[i];
        const double error = f->modelled / f->measured - 1;
        printf("  %-10s  measured %10.1f ms  modelled %10.1f ms  %+6.1f %%", f->name, f->measured,
               f->modelled, error * 100);
        if (f->goal) printf("  goal %.0f %%: %s", f->goal * 100, fabs(error) <= f->goal ? "ok" : "-");
        printf("\n");
    }
    printf("\n");
}
