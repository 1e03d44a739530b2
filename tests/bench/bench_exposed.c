/* How long a request waits for its KV: the real programs on loopback TCP, one prefill and one decode node a
 * deployment, plain and with keys.
 *
 *   bench_exposed [-m MODEL] [--rounds 3] [--tokens 4096] [--json]
 *
 * Prompts of 32, 256, 1,024 and 4,096 tokens (at most --tokens) that share no prefix; "exposed" is
 * kv_exposed_ms of the answer: from the prefill node's last rows to Committed, so it counts the output matrix
 * and sampling too, which no hand-off could be quicker than. The second table is what --min-overlap decides:
 * short prompts sent chunk by chunk and layer by layer as they are computed (0), and in one piece (256).
 * Deployments take turns, prompt by prompt. Without -m the default model is taken, and nothing is timed
 * where it has not been fetched. Needs the programs in $BATON_BIN, as `make bench` sets it. */
#include "tests/bench/kit.h"
#include "model/model.h"
#include "tests/helpers/cluster/cluster.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READY_MS = 600000,
    ANSWER_MS = 300000,
    ROUNDS_MAX = 99,
    LENGTHS_MAX = 4,
    SEED_STEP = 7919,
    FIRST_ID = 300,
    IDS = 40000
};

typedef struct deployment {
    const char *name;
    bool has_keys;
    const char *min_overlap;
    char url[128], control[128];
    spawn *gateway, *decode, *prefill;
} deployment;
typedef struct table {
    const char *title;
    deployment *deployments;
    size_t deployments_len;
    uint32_t tokens[LENGTHS_MAX];
    size_t tokens_len;
} table;
typedef struct cell {
    double ttft[ROUNDS_MAX], exposed[ROUNDS_MAX], share[ROUNDS_MAX], bytes;
} cell;
typedef struct options {
    const char *model;
    size_t rounds;
    uint32_t tokens;
    bool json;
} options;

static char model[4096], keys[256];
static uint32_t prompts; /* asked so far */

static void start(deployment *d)
{
    const char *const keys_option = d->has_keys ? "--keys" : NULL; /* ends the arguments */
    const char *gateway[16] = {"baton-gateway",     "-m",        model, "--port", "0",      "--control",
                               "tcp://127.0.0.1:*", keys_option, keys,  "--key",  "gateway"};
    d->gateway = spawn_start(gateway);
    if (!cluster_find_gateway(d->url, d->control, d->gateway, READY_MS)) bench_die("no gateway");
    const char *prefill[16] = {"baton-prefill", "-m",        model, "--gateway", d->control, "--min-overlap",
                               d->min_overlap,  keys_option, keys,  "--key",     "prefill-0"};
    const char *decode[16] = {"baton-decode",      "-m",        model, "--gateway", d->control, "--listen",
                              "tcp://127.0.0.1:*", keys_option, keys,  "--key",     "decode-0"};
    d->prefill = spawn_start(prefill);
    d->decode = spawn_start(decode);
    if (!cluster_wait_health(d->url, 200, READY_MS)) bench_die(spawn_err(d->prefill));
}

static void stop(deployment *d)
{
    spawn *const all[] = {d->prefill, d->decode, d->gateway};
    for (size_t i = 0; i < 3; i++) spawn_signal(all[i], SIGTERM);
    for (size_t i = 0; i < 3; i++)
        if (spawn_wait(all[i], 20000) != 0) bench_die(spawn_err(all[i]));
}

/* Ids that are no special ones; each prompt begins differently, so that no rows of another are used. */
static void ask(const deployment *d, uint32_t tokens, cell *ret, size_t round)
{
    json_t *ids = json_array(), *request;
    uint64_t x = ++prompts * 2654435761u;
    for (uint32_t i = 0; i < tokens; i++, x += SEED_STEP * (i + 1))
        json_array_append_new(ids, json_integer((json_int_t)(FIRST_ID + x % IDS)));
    request = json_pack("{s:o, s:i, s:i, s:b}", "prompt", ids, "max_tokens", 2, "temperature", 0, "baton", 1);
    client *c = client_post(d->url, "/v1/completions", request);
    json_decref(request);
    if (!client_wait(c, ANSWER_MS) || client_status(c) != 200) bench_die(client_body(c));
    const json_t *b = client_baton(c);
    if (json_integer_value(json_object_get(b, "prompt_tokens")) != tokens)
        bench_die("a prompt of another length");
    if (ret) {
        ret->ttft[round] = json_number_value(json_object_get(b, "ttft_ms"));
        ret->exposed[round] = json_number_value(json_object_get(b, "kv_exposed_ms"));
        ret->share[round] = ret->exposed[round] / ret->ttft[round];
        ret->bytes = json_number_value(json_object_get(b, "kv_bytes"));
    }
    client_end(c);
}

static void print_row(const table *t, const deployment *d, uint32_t tokens, cell *c, const options *o,
                      bool first)
{
    const double ttft = bench_median(c->ttft, o->rounds), exposed = bench_median(c->exposed, o->rounds),
                 share = bench_median(c->share, o->rounds);
    if (o->json)
        printf("%s{\"table\": \"%s\", \"deployment\": \"%s\", \"prompt_tokens\": %u, \"kv_bytes\": %.0f, "
               "\"ttft_ms\": %.2f, \"kv_exposed_ms\": %.3f, "
               "\"kv_exposed_ms_lowest\": %.3f, \"kv_exposed_ms_highest\": %.3f, \"exposed_share\": %.4f}",
               first ? "" : ", ", t->title, d->name, tokens, c->bytes, ttft, exposed, c->exposed[0],
               c->exposed[o->rounds - 1], share);
    else
        printf("  %-28s %7u %8.2f %10.1f %10.2f %8.2f %8.2f %8.2f\n", d->name, tokens, c->bytes * 1e-6, ttft,
               exposed, c->exposed[0], c->exposed[o->rounds - 1], 100 * share);
    fflush(stdout);
}

static void run(const table *t, const options *o, bool first)
{
    if (!o->json)
        printf("\n%s, medians of %zu\n  %-28s %7s %8s %10s %10s %8s %8s %8s\n", t->title, o->rounds, "",
               "tokens", "KV MB", "TTFT ms", "exposed ms", "lowest", "highest", "% of it");
    for (size_t d = 0; d < t->deployments_len; d++) {
        start(&t->deployments[d]);
        ask(&t->deployments[d], 256, NULL, 0);
    }
    for (size_t n = 0; n < t->tokens_len && t->tokens[n] <= o->tokens; n++) {
        cell *cells = calloc(t->deployments_len, sizeof *cells);
        if (!cells) bench_die("out of memory");
        for (size_t r = 0; r < o->rounds; r++)
            for (size_t d = 0; d < t->deployments_len; d++)
                ask(&t->deployments[d], t->tokens[n], &cells[d], r);
        for (size_t d = 0; d < t->deployments_len; d++, first = false)
            print_row(t, &t->deployments[d], t->tokens[n], &cells[d], o, first);
        free(cells);
    }
    for (size_t d = 0; d < t->deployments_len; d++) stop(&t->deployments[d]);
}

static void parse(options *o, int argc, char **argv)
{
    *o = (options){.rounds = 3, .tokens = 4096};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) o->json = true;
        else if (!strcmp(argv[i], "-m") && i + 1 < argc) o->model = argv[++i];
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc) o->rounds = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--tokens") && i + 1 < argc)
            o->tokens = (uint32_t)strtoul(argv[++i], NULL, 10);
        else o->rounds = 0;
    }
    if (o->rounds < 1 || o->rounds > ROUNDS_MAX)
        bench_die("usage: bench_exposed [-m MODEL] [--rounds 1..99] [--tokens N] [--json]");
}

int main(int argc, char **argv)
{
    static deployment both[] = {{.name = "plain", .min_overlap = "64"},
                                {.name = "CURVE", .has_keys = true, .min_overlap = "64"}};
    static deployment pieces[] = {{.name = "plain, while computing", .min_overlap = "0"},
                                  {.name = "plain, in one piece", .min_overlap = "256"},
                                  {.name = "CURVE, while computing", .has_keys = true, .min_overlap = "0"},
                                  {.name = "CURVE, in one piece", .has_keys = true, .min_overlap = "256"}};
    static const table tables[] = {
        {"exposed transfer time", both, 2, {32, 256, 1024, 4096}, 4},
        {"short prompts, with and without overlap", pieces, 4, {32, 64, 128, 250}, 4},
    };
    options o;
    bt_fault fault;
    parse(&o, argc, argv);
    if (bt_model_find(model, sizeof model, o.model ? o.model : "smollm2", &fault) < 0) {
        if (o.model) bench_die(fault.text);
        printf("bench_exposed: no model: %s\n", fault.text);
        return 0;
    }
    const bool has_cache_dir = getenv("BATON_CACHE_DIR") != NULL;
    spawn_setup();
    if (!has_cache_dir)
        unsetenv("BATON_CACHE_DIR"); /* the user's own cache: compiling is not what is timed */
    client_setup();
    snprintf(keys, sizeof keys, "%s", spawn_path("keys"));
    if (spawn_wait(SPAWN("baton", "keygen", keys), 5000) != 0) bench_die("baton keygen failed");
    if (o.json) printf("{\"rounds\": %zu, \"rows\": [", o.rounds);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) run(&tables[i], &o, i == 0);
    if (o.json) printf("]}\n");
    client_cleanup();
    spawn_cleanup();
    return 0;
}
