/* How long running sequences wait for their next token while a long prompt is prefilled: not at all, on the
 * same node in pieces between their steps (interleaved), and by another engine on the same cores at the same
 * time, as a prefill node on this machine does it. A prefill node on a machine of its own costs them nothing:
 * that is the first row.
 *
 *   bench_stall [-m MODEL] [--weights f16|int8|fp4] [--batch 8] [--prompt 4096] [--chunk 256] [--engine
 *   npu|host] [--threads N]
 *
 * Without -m the default model is taken, and nothing is timed where it has not been fetched. A step is the
 * time between two tokens of one sequence, as the I/O thread sees them. */
#include "tests/bench/kit.h"
#include "base/clock.h"
#include "decode-node/worker.h"
#include "kv/kv_pages.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_BATCH = 64,
    SHORT_PROMPT = 64,
    WARM_STEPS = 20,
    ALONE_STEPS = 200,
    MAX_STEPS = 100000,
    PAGE_TOKENS = BT_KV_PAGES_USUAL_TOKENS
};

typedef struct options {
    const char *model, *weights, *engine;
    uint32_t batch, prompt, chunk;
    size_t threads;
} options;

typedef struct bench {
    options o;
    bt_model *model;
    bt_pool *pool;
    dc_worker *worker;
    bt_kv_pages *pages;
    bt_kv_seq seq[MAX_BATCH + 1];
    int32_t *ids; /* [prompt] */
    double *step; /* [MAX_STEPS] seconds between tokens of slot 0 */
    size_t steps;
    int64_t last_us;
} bench;

static void must(bt_err e, const bt_fault *fault)
{
    if (e < 0) bench_die(fault->text);
}

static bt_prefill *new_local(const bench *b, bt_pool *pool)
{
    bt_fault fault;
    bt_prefill *l;
    const bt_prefill_config c = {
        .engine = b->o.engine,
        .ctx_tokens = b->model->hp.ctx < b->o.prompt + 1 ? b->model->hp.ctx : b->o.prompt + 1, .pool = pool};
    must(bt_prefill_new(&l, b->model, &c, &fault), &fault);
    return l;
}

static void start(bench *b, uint32_t slot, uint32_t prompt_tokens, uint32_t max_tokens)
{
    bt_fault fault;
    dc_worker_start s = {.slot = slot, .prompt = b->ids, .prompt_tokens = prompt_tokens,
                         .max_tokens = max_tokens, .sampling = bt_sample_greedy()};
    must(bt_kv_pages_reserve(b->pages, &b->seq[slot], prompt_tokens + max_tokens, &fault), &fault);
    bt_kv_pages_view(&s.view, b->pages, &b->seq[slot]);
    dc_worker_start_slot(b->worker, &s);
}

static void open_bench(bench *b)
{
    bt_fault fault;
    bt_decode *engine;
    const bt_hparams *hp = &b->model->hp;
    must(bt_pool_new(&b->pool, b->o.threads, &fault), &fault);
    const bt_decode_config ec = {.weights = b->o.weights, .pool = b->pool, .rows_max = b->o.batch + 1};
    must(bt_decode_new(&engine, b->model, &ec, &fault), &fault);
    const dc_worker_config wc = {
        .engine = engine,        .local = new_local(b, b->pool), .pool = b->pool,
        .slots = b->o.batch + 1, .page_tokens = PAGE_TOKENS,     .chunk_tokens = b->o.chunk};
    must(dc_worker_new(&b->worker, &wc, &fault), &fault);
    const size_t running = hp->ctx - 1;
    must(bt_kv_pages_new(&b->pages, hp->layers, hp->kv_heads, hp->head_dim, 2, PAGE_TOKENS,
                         b->o.batch * (running + PAGE_TOKENS) + b->o.prompt + PAGE_TOKENS, &fault),
         &fault);
    b->ids = bench_bytes(b->o.prompt * sizeof *b->ids);
    b->step = bench_bytes(MAX_STEPS * sizeof *b->step);
    for (uint32_t i = 0; i < b->o.prompt; i++)
        b->ids[i] = (int32_t)((i * 2654435761u >> 7) % (hp->vocab - 300) + 300);
    for (uint32_t s = 0; s < b->o.batch; s++) start(b, s, SHORT_PROMPT, (uint32_t)running - SHORT_PROMPT);
}

/* Takes events until `steps` tokens of slot 0 have come, or, with until_first, the long prompt's first
 * one, or *over is set. */
static void follow(bench *b, size_t steps, bool until_first, const atomic_bool *over)
{
    b->steps = 0;
    for (bool done = false; !done;) {
        struct pollfd fd = {.fd = dc_worker_fd(b->worker), .events = POLLIN};
        dc_worker_event ev;
        if (poll(&fd, 1, 60000) < 1) bench_die("no event for a minute");
        while (dc_worker_next(b->worker, &ev)) {
            if (ev.type == DC_WORKER_ENDED && ev.slot != b->o.batch)
                bench_die(ev.u.text[0] ? ev.u.text : "a sequence ended too early");
            if (ev.type == DC_WORKER_FIRST && ev.slot == b->o.batch) done = until_first;
            if (ev.slot != 0 || ev.type != DC_WORKER_TOKEN) continue;
            const int64_t now = bt_clock_us();
            if (b->last_us && b->steps < MAX_STEPS) b->step[b->steps++] = (double)(now - b->last_us) * 1e-6;
            b->last_us = now;
        }
        if (!until_first && steps && b->steps >= steps) done = true;
        if (over && atomic_load(over)) done = true;
    }
}

static void print(bench *b, const char *what, double prefill_s)
{
    if (!b->steps) bench_die("no step was seen");
    const double median = bench_median(b->step, b->steps);
    printf("  %-34s %7zu %9.2f %9.2f %9.2f", what, b->steps, median * 1e3, b->step[b->steps * 99 / 100] * 1e3,
           b->step[b->steps - 1] * 1e3);
    if (prefill_s > 0) printf(" %10.2f\n", prefill_s);
    else printf(" %10s\n", "-");
    fflush(stdout);
}

typedef struct elsewhere {
    bench *b;
    bt_pool *pool;
    bt_prefill *local;
    bt_kv_pages *pages;
    bt_kv_view view;
    float *logits;
    atomic_bool over;
    double seconds;
} elsewhere;

static void *prefill_elsewhere(void *ud)
{
    elsewhere *x = ud;
    bt_fault fault;
    const int64_t begin = bt_clock_us();
    must(bt_prefill_run(x->local, &x->view, x->b->ids, x->b->o.prompt, 0, NULL, x->logits, BT_PREFILL_LAST,
                        &fault),
         &fault);
    x->seconds = (double)(bt_clock_us() - begin) * 1e-6;
    atomic_store(&x->over, true);
    return NULL;
}

/* A second engine with threads of its own, as another process has them. */
static double beside(bench *b)
{
    elsewhere x = {.b = b};
    bt_fault fault;
    bt_kv_seq seq = {0};
    pthread_t thread;
    const bt_hparams *hp = &b->model->hp;
    must(bt_pool_new(&x.pool, b->o.threads, &fault), &fault);
    x.local = new_local(b, x.pool);
    must(bt_kv_pages_new(&x.pages, hp->layers, hp->kv_heads, hp->head_dim, 2, PAGE_TOKENS, b->o.prompt,
                         &fault),
         &fault);
    must(bt_kv_pages_reserve(x.pages, &seq, b->o.prompt, &fault), &fault);
    bt_kv_pages_view(&x.view, x.pages, &seq);
    x.logits = bench_bytes(hp->vocab * sizeof *x.logits);
    follow(b, WARM_STEPS, false, NULL);
    if (pthread_create(&thread, NULL, prefill_elsewhere, &x)) bench_die("no thread");
    follow(b, 0, false, &x.over);
    pthread_join(thread, NULL);
    free(x.logits);
    bt_kv_pages_release(x.pages, &seq);
    bt_kv_pages_free(x.pages);
    bt_prefill_free(x.local);
    bt_pool_free(x.pool);
    return x.seconds;
}

static void parse(options *o, int argc, char **argv)
{
    *o = (options){.weights = "f16", .engine = "npu", .batch = 8, .prompt = 4096, .chunk = 256};
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (!strcmp(argv[i], "-m")) o->model = value;
        else if (!strcmp(argv[i], "--weights")) o->weights = value;
        else if (!strcmp(argv[i], "--engine")) o->engine = value;
        else if (!strcmp(argv[i], "--batch")) o->batch = (uint32_t)strtoul(value, NULL, 10);
        else if (!strcmp(argv[i], "--prompt")) o->prompt = (uint32_t)strtoul(value, NULL, 10);
        else if (!strcmp(argv[i], "--chunk")) o->chunk = (uint32_t)strtoul(value, NULL, 10);
        else if (!strcmp(argv[i], "--threads")) o->threads = strtoul(value, NULL, 10);
        else bench_die("see the comment at the top of bench_stall.c for its options");
    }
    if (o->batch < 1 || o->batch > MAX_BATCH || o->prompt < SHORT_PROMPT || o->chunk < 1)
        bench_die("--batch is 1 to 64, --prompt at least 64");
}

int main(int argc, char **argv)
{
    bench b = {0};
    bt_fault fault;
    char path[4096];
    parse(&b.o, argc, argv);
    if (bt_model_find(path, sizeof path, b.o.model ? b.o.model : "smollm2", &fault) < 0) {
        if (b.o.model) bench_die(fault.text);
        printf("bench_stall: no model: %s\n", fault.text);
        return 0;
    }
    must(bt_model_open(&b.model, path, &fault), &fault);
    if (b.o.prompt + 2 > b.model->hp.ctx) bench_die("the prompt is longer than the model's context");
    open_bench(&b);
    printf("\n%s: %u running sequences, weights %s, a prompt of %u tokens in pieces of %u by engine %s, "
           "threads %zu\n"
           "  %-34s %7s %9s %9s %9s %10s\n",
           b.model->name, b.o.batch, b.o.weights, b.o.prompt, b.o.chunk, b.o.engine, bt_pool_threads(b.pool),
           "prefill", "steps", "p50 ms", "p99 ms", "worst ms", "prefill s");
    follow(&b, WARM_STEPS, false, NULL);
    follow(&b, ALONE_STEPS, false, NULL);
    print(&b, "none, or on another machine", 0);
    const int64_t begin = bt_clock_us();
    start(&b, b.o.batch, b.o.prompt, 1);
    follow(&b, 0, true, NULL);
    const double seconds = (double)(bt_clock_us() - begin) * 1e-6;
    print(&b, "here, between steps", seconds);
    const double elsewhere_s = beside(&b);
    print(&b, "another engine, on the same cores", elsewhere_s);
    dc_worker_free(b.worker);
    for (uint32_t s = 0; s <= b.o.batch; s++) bt_kv_pages_release(b.pages, &b.seq[s]);
    bt_kv_pages_free(b.pages);
    bt_pool_free(b.pool);
    bt_model_close(b.model);
    free(b.ids);
    free(b.step);
    return 0;
}
