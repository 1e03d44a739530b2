/* Times whole decode steps of the host engine on a real model: tokens a second for each form of the weights
 * and each batch, the bytes that a step reads, and its ratio to what the machine could do: the time to read
 * those bytes, or to do the step's multiply-adds, whichever is longer, at the rates measured directly before
 * and after.
 *
 *   bench_decode [-m MODEL] [--weights f16,int8,fp4] [--batch 1,2,4,8,16,32] [--kv f16|int8] [-n STEPS]
 *                [--ctx TOKENS] [--threads N] [--isa NAME] [--json]
 *
 * Without -m the default model is taken, and nothing is timed where it has not been fetched. Every sequence
 * holds TOKENS rows of KV (16) when its first step is timed. Each figure is the median of 5 repetitions of
 * STEPS steps (32). First of all it is checked that a batch gives the logits of its sequences run alone. */
#include "tests/bench/kit.h"
#include "base/clock.h"
#include "engine/decode.h"
#include "graph/graph.h"
#include "kv/kv_pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 5, MAX_BATCH = 256, MAX_LIST = 16, PAGE_TOKENS = 64 };

typedef struct options {
    const char *model, *weights, *batch, *isa;
    uint32_t kv_elem_bytes;
    size_t steps, ctx, threads;
    int json;
} options;

typedef struct bench {
    const options *o;
    machine machine;
    bt_model *model;
    bt_decode *engine;
    double params; /* weights that take part in every row */
    bt_kv_pages *pages;
    bt_kv_seq seq[MAX_BATCH];
    bt_kv_view view[MAX_BATCH];
    int32_t token[MAX_BATCH];
    bt_decode_seq row[MAX_BATCH];
    float *logits; /* [batch, V] */
    int rows;      /* printed so far */
} bench;

typedef struct result {
    double seconds, bytes, ratio, read, flops;
    const char *limit;
} result;

static void must(bt_err e, const bt_fault *fault)
{
    if (e < 0) bench_die(fault->text);
}

static void step(bench *b, size_t batch, size_t pos)
{
    bt_fault fault;
    for (size_t i = 0; i < batch; i++) {
        b->token[i] = (int32_t)((i * 7919 + pos * 104729 + 11) % b->model->hp.vocab);
        b->row[i] =
            (bt_decode_seq){.kv = &b->view[i], .pos = pos, .tokens = &b->token[i], .count = 1, .out = 1};
    }
    must(bt_decode_step(b->engine, b->row, batch, NULL, b->logits, &fault), &fault);
}

static void open_pages(bench *b, size_t batch)
{
    bt_fault fault;
    const bt_hparams *hp = &b->model->hp;
    const size_t tokens = b->o->ctx + REPEATS * b->o->steps;
    must(bt_kv_pages_new(&b->pages, hp->layers, hp->kv_heads, hp->head_dim,
                         bt_decode_kv_elem_bytes(b->engine), PAGE_TOKENS, batch * (tokens + PAGE_TOKENS),
                         &fault),
         &fault);
    for (size_t i = 0; i < batch; i++) {
        must(bt_kv_pages_reserve(b->pages, &b->seq[i], tokens, &fault), &fault);
        bt_kv_pages_view(&b->view[i], b->pages, &b->seq[i]);
    }
    b->logits = bench_bytes(batch * hp->vocab * sizeof *b->logits);
}

static void close_pages(bench *b, size_t batch)
{
    for (size_t i = 0; i < batch; i++) bt_kv_pages_release(b->pages, &b->seq[i]);
    bt_kv_pages_free(b->pages);
    free(b->logits);
}

/* The last sequence once more, alone, from its first row on. */
static void check(bench *b, size_t batch)
{
    const size_t vocab = b->model->hp.vocab, last = batch - 1;
    float *want = bench_bytes(vocab * sizeof *want);
    bt_fault fault;
    for (size_t pos = 0; pos < 3; pos++) step(b, batch, pos);
    memcpy(want, b->logits + last * vocab, vocab * sizeof *want);
    for (size_t pos = 0; pos < 3; pos++) {
        b->token[last] = (int32_t)((last * 7919 + pos * 104729 + 11) % vocab);
        const bt_decode_seq row = {.kv = &b->view[last], .pos = pos, .tokens = &b->token[last], .count = 1,
                                   .out = 1};
        must(bt_decode_step(b->engine, &row, 1, NULL, b->logits, &fault), &fault);
    }
    if (memcmp(want, b->logits, vocab * sizeof *want)) bench_die("a batch differs from its sequences alone");
    free(want);
}

/* The times of a step's reads and products, in seconds at the machine's limits. */
static double roofline(const bench *b, size_t batch, double bytes, double read, double flops,
                       const char **ret_limit)
{
    const double memory = bytes / read;
    const double compute = flops > 0 ? 2 * b->params * (double)batch / flops : 0;
    *ret_limit = memory > compute ? "read" : "fma";
    return memory > compute ? memory : compute;
}

static result run(bench *b, size_t batch)
{
    const bt_hparams *hp = &b->model->hp;
    const double token_bytes = 2.0 * hp->layers * hp->kv_heads *
                               (double)bt_kv_head_bytes(bt_decode_kv_elem_bytes(b->engine), hp->head_dim);
    double seconds[REPEATS], ratio[REPEATS], reads[REPEATS], peaks[REPEATS];
    result r = {0};
    open_pages(b, batch);
    check(b, batch);
    for (size_t pos = 0; pos < b->o->ctx; pos++) step(b, batch, pos);
    for (size_t k = 0; k < REPEATS; k++) {
        const size_t pos = b->o->ctx + k * b->o->steps;
        const double flops_before = bench_peak_flops_once(&b->machine), before = bench_read_once(&b->machine);
        const int64_t begin = bt_clock_us();
        for (size_t i = 0; i < b->o->steps; i++) step(b, batch, pos + i);
        seconds[k] = (double)(bt_clock_us() - begin) * 1e-6 / (double)b->o->steps;
        reads[k] = (before + bench_read_once(&b->machine)) / 2;
        peaks[k] = (flops_before + bench_peak_flops_once(&b->machine)) / 2;
        const double kv = token_bytes * (double)batch * ((double)pos + (double)b->o->steps / 2);
        r.bytes = (double)bt_decode_stats_of(b->engine).weight_bytes + kv;
        ratio[k] = roofline(b, batch, r.bytes, reads[k], peaks[k], &r.limit) / seconds[k];
    }
    r.seconds = bench_median(seconds, REPEATS);
    r.ratio = bench_median(ratio, REPEATS);
    r.read = bench_median(reads, REPEATS);
    r.flops = bench_median(peaks, REPEATS);
    close_pages(b, batch);
    return r;
}

static void print(bench *b, size_t batch, const result *r)
{
    const char *kv = bt_decode_kv_elem_bytes(b->engine) == 1 ? "int8" : "f16";
    const double rate = (double)batch / r->seconds;
    if (b->o->json)
        printf("%s{\"test\": \"tg%zu@%zu\", \"weights\": \"%s\", \"kv\": \"%s\", \"batch\": %zu, "
               "\"tokens_per_second\": %.2f, \"step_us\": %.1f, "
               "\"bytes_per_step\": %.0f, \"read_gbytes_per_second\": %.2f, \"fma_gflops\": %.1f, \"limit\": "
               "\"%s\", \"ratio_to_roofline\": %.3f}",
               b->rows ? ", " : "", b->o->steps, batch, bt_decode_weights(b->engine), kv, batch, rate,
               r->seconds * 1e6, r->bytes, r->read * 1e-9, r->flops * 1e-9, r->limit, r->ratio);
    else
        printf("  %-7s %-5s %6zu %10.1f %11.1f %10.1f %10.2f %9.1f %6s %6.2f\n", bt_decode_weights(b->engine),
               kv, batch, rate, r->seconds * 1e6, r->bytes * 1e-6, r->read * 1e-9, r->flops * 1e-9, r->limit,
               r->ratio);
    b->rows++;
    fflush(stdout);
}

static size_t next_number(const char **text)
{
    char *end;
    const long n = strtol(*text, &end, 10);
    if (end == *text || n < 1 || n > MAX_BATCH) bench_die("a batch is 1 to 256");
    *text = *end == ',' ? end + 1 : end;
    return (size_t)n;
}

static void bench_form(bench *b, const char *weights)
{
    bt_fault fault;
    const bt_decode_config c = {.isa = b->o->isa, .weights = weights, .kv_elem_bytes = b->o->kv_elem_bytes,
                                .pool = b->machine.pool, .rows_max = MAX_BATCH};
    must(bt_decode_new(&b->engine, b->model, &c, &fault), &fault);
    for (const char *list = b->o->batch; *list;) {
        const size_t batch = next_number(&list);
        const result r = run(b, batch);
        print(b, batch, &r);
    }
    bt_decode_free(b->engine);
}

static void count_params(bench *b)
{
    bt_graph *g;
    bt_fault fault;
    uint64_t macs;
    const bt_bind bind = {
        .value = {[BT_SYM_BATCH] = 1, [BT_SYM_SEQ] = 1, [BT_SYM_CTX] = 0, [BT_SYM_OUT] = 1}};
    must(bt_graph_build(&g, &b->model->hp, NULL, &fault), &fault);
    must(bt_graph_macs(&macs, g, &bind, &fault), &fault);
    b->params = (double)macs;
    bt_graph_free(g);
}

static void parse(options *o, int argc, char **argv)
{
    *o = (options){
        .model = NULL, .weights = "f16,int8,fp4", .batch = "1,2,4,8,16,32", .kv_elem_bytes = 2, .steps = 32,
        .ctx = 16};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--json")) {
            o->json = 1;
            continue;
        }
        if (!value) bench_die("see the comment at the top of bench_decode.c for its options");
        if (!strcmp(argv[i], "-m")) o->model = value;
        else if (!strcmp(argv[i], "--weights")) o->weights = value;
        else if (!strcmp(argv[i], "--batch")) o->batch = value;
        else if (!strcmp(argv[i], "--isa")) o->isa = value;
        else if (!strcmp(argv[i], "--kv")) o->kv_elem_bytes = strcmp(value, "int8") ? 2 : 1;
        else if (!strcmp(argv[i], "-n")) o->steps = strtoul(value, NULL, 10);
        else if (!strcmp(argv[i], "--ctx")) o->ctx = strtoul(value, NULL, 10);
        else if (!strcmp(argv[i], "--threads")) o->threads = strtoul(value, NULL, 10);
        else bench_die("see the comment at the top of bench_decode.c for its options");
        i++;
    }
    if (o->steps < 1 || o->ctx < 3) bench_die("-n is at least 1, --ctx at least 3");
}

int main(int argc, char **argv)
{
    options o;
    bench b = {.o = &o};
    bt_fault fault;
    char path[4096], weights[MAX_LIST * 8];
    parse(&o, argc, argv);
    if (bt_model_find(path, sizeof path, o.model ? o.model : "smollm2", &fault) < 0) {
        if (o.model) bench_die(fault.text);
        printf("bench_decode: no model: %s\n", fault.text);
        return 0;
    }
    must(bt_model_open(&b.model, path, &fault), &fault);
    must(bt_pool_new(&b.machine.pool, o.threads, &fault), &fault);
    b.machine.threads = bt_pool_threads(b.machine.pool);
    b.machine.kernels = bt_kernels_select(o.isa);
    if (!b.machine.kernels) bench_die("no such instruction set on this machine");
    b.machine.fma_flops = bench_peak_flops(&b.machine);
    b.machine.read_bytes = bench_read_rate(&b.machine);
    count_params(&b);
    if (o.json)
        printf("{\"model\": \"%s\", \"machine\": {\"isa\": \"%s\", \"threads\": %zu, \"fma_gflops\": %.1f, "
               "\"read_gbytes_per_second\": %.2f}, "
               "\"rows\": [",
               b.model->name, b.machine.kernels->isa, b.machine.threads, b.machine.fma_flops * 1e-9,
               b.machine.read_bytes * 1e-9);
    else
        printf(
            "\n%s: %.1f M weights a row; isa %s, threads %zu: %.1f GFLOP/s in registers, %.2f GB/s reading\n"
            "  %-7s %-5s %6s %10s %11s %10s %10s %9s %6s %6s\n",
            b.model->name, b.params * 1e-6, b.machine.kernels->isa, b.machine.threads,
            b.machine.fma_flops * 1e-9, b.machine.read_bytes * 1e-9, "weights", "kv", "batch", "tokens/s",
            "step us", "MB/step", "GB/s read", "GFLOP/s", "limit", "ratio");
    snprintf(weights, sizeof weights, "%s", o.weights);
    for (char *form = strtok(weights, ","); form; form = strtok(NULL, ",")) bench_form(&b, form);
    if (o.json) printf("]}\n");
    bt_pool_free(b.machine.pool);
    bt_model_close(b.model);
    return 0;
}
