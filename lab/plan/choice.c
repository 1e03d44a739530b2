/* A prompt's time by its length, then a queue of them; decode as the batch that keeps up. */
#include "lab/plan/choice.h"
#include "device/roofline.h"
#include "lab/plan/sketch.h"
#include "npu/price/schedule_price.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- prompts, by their length ---- */

typedef struct prompt {
    uint64_t ns, ops, bytes, rows, chunks; /* rows: computed, padding included */
    uint64_t exposed_ns;                   /* of its KV, after its end */
    uint64_t term_ns[BT_TERMS];            /* by their shares: engines may work at the same time */
} prompt;

static void add_terms(prompt *p, const uint64_t term_ns[BT_TERMS])
{
    for (int k = 0; k < BT_TERMS; k++) p->term_ns[k] = bt_time_plus(p->term_ns[k], term_ns[k]);
}

static bt_err of_programs(prompt *ret, const uint32_t *length, size_t n, const tool_plan_how *how,
                          bt_fault *fault)
{
    bt_schedule_price *table = NULL;
    const bt_schedule_price_config c = {.price = how->price,   .policy = how->schedule,
                                        .window = how->arenas, .tokens = length[n - 1],
                                        .link = how->link,     .kv = how->kv};
    bt_err e = bt_schedule_price_new(&table, &c, fault);
    for (size_t i = 0; e == BT_OK && i < n; i++) {
        bt_schedule_priced p;
        e = bt_schedule_price_of(&p, table, length[i], fault);
        if (e != BT_OK) break;
        ret[i] = (prompt){.ns = p.result.makespan_ns, .ops = p.ops,
                          .bytes = p.bytes,           .rows = p.rows,
                          .chunks = p.chunks,         .exposed_ns = p.exposed_ns};
        add_terms(&ret[i], p.term_ns);
    }
    bt_schedule_price_free(table);
    return e;
}

typedef struct walk {
    prompt sum;
    bt_link_queue wire;
    uint64_t first; /* tokens done */
} walk;

/* The first use of weights and operators, which a prompt begins with. */
static prompt first_use(const bt_profile *p, const bt_price_model *m)
{
    const uint64_t ns = bt_price_first_use(p, m);
    return (prompt){.ns = ns, .term_ns[BT_TERM_PRODUCTS] = ns};
}

/* The next step of a prompt of so many tokens. */
static void advance(walk *w, const tool_plan_how *how, const bt_price_steps *steps, uint64_t tokens)
{
    const uint64_t start = w->sum.ns, left = tokens - w->first,
                   rows = how->piece && how->piece < left ? how->piece : left;
    bt_price_step step = bt_price_prefill_step(w->first, rows, how->model.window);
    step.logits = rows == left;
    const bt_price_sum s = bt_price_step_at(steps, &step);
    w->sum.ns = bt_time_plus(start, s.ns);
    w->sum.ops = bt_time_plus(w->sum.ops, s.ops);
    w->sum.bytes = bt_time_plus(w->sum.bytes, s.bytes);
    w->sum.rows = bt_time_plus(w->sum.rows, rows);
    w->sum.chunks++;
    add_terms(&w->sum, s.term_ns);
    (void)bt_link_chunk(&w->wire, &how->link, &how->kv, start, w->sum.ns - start,
                        bt_link_rows_of(&how->kv, w->first, w->first + rows, tokens));
    w->first += rows;
}

/* Whether all longer prompts begin with the next piece too, and send as much of it. */
static bool is_shared(const walk *w, const tool_plan_how *how, uint64_t tokens)
{
    const uint64_t behind = w->first + how->piece;
    return how->piece && behind < tokens &&
           (!how->kv.window || !bt_link_rows_of(&how->kv, w->first, behind, tokens).window);
}

static void of_steps(prompt *ret, const uint32_t *length, size_t n, const tool_plan_how *how)
{
    const walk none = {.sum = first_use(how->profile, &how->model)};
    const bt_price_steps steps = bt_price_steps_of(how->profile, &how->model);
    walk shared = none;
    for (size_t i = 0; i < n; i++) {
        while (is_shared(&shared, how, length[i])) advance(&shared, how, &steps, length[i]);
        walk w = how->piece ? shared : none;
        while (w.first < length[i]) advance(&w, how, &steps, length[i]);
        ret[i] = w.sum;
        ret[i].exposed_ns = bt_link_exposed_ns(&w.wire, w.sum.ns);
    }
}

/* ret[n] for length[n], ascending, each >= 1. Programs have a table of prices; full steps are walked once,
 * for all lengths. BT_ELIMIT: a length beyond the package; BT_ENOMEM. */
static bt_err price_prompts(prompt *ret, const uint32_t *length, size_t n, const tool_plan_how *how,
                            bt_fault *fault)
{
    if (how->price && n) return of_programs(ret, length, n, how, fault);
    of_steps(ret, length, n, how);
    return BT_OK;
}

/* ---- a load ---- */

uint64_t tool_plan_memory(const bt_profile *p)
{
    return bt_time_times(p->memory_bytes, bt_profile_devices(&p->time));
}

typedef struct work {
    prompt *prompt;   /* [lengths] */
    uint64_t *ns;     /* [lengths] */
    uint64_t *loaded; /* [n]: first token of each request, with its wait */
} work;

static bt_err begin(work *w, const tool_plan_load *load, bt_fault *fault)
{
    *w = (work){calloc(load->lengths, sizeof *w->prompt), calloc(load->lengths, sizeof *w->ns),
                calloc(load->n, sizeof *w->loaded)};
    return w->prompt && w->ns && w->loaded
               ? BT_OK
               : bt_fail(fault, BT_ENOMEM, "out of memory planning %zu requests", load->n);
}

static void done(work *w)
{
    free(w->prompt);
    free(w->ns);
    free(w->loaded);
}

static double sum_of(const tool_plan_load *load, const work *w, uint64_t field_of(const prompt *))
{
    double sum = 0;
    for (size_t i = 0; i < load->lengths; i++)
        sum += (double)field_of(&w->prompt[i]) * (double)load->count[i];
    return sum;
}
static uint64_t ns_of(const prompt *p) { return p->ns; }
static uint64_t ops_of(const prompt *p) { return p->ops; }
static uint64_t bytes_of(const prompt *p) { return p->bytes; }
static uint64_t rows_of(const prompt *p) { return p->rows; }
static uint64_t chunks_of(const prompt *p) { return p->chunks; }
static uint64_t exposed_of(const prompt *p) { return p->exposed_ns; }

static uint64_t whole(double v) { return v < (double)INT64_MAX ? (uint64_t)v : INT64_MAX; }

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The mean time of a prompt by its terms. */
static void mean_terms(double ret[BT_TERMS], const tool_plan_load *load, const work *w, double mean_ns)
{
    double sum = 0;
    for (int k = 0; k < BT_TERMS; k++) ret[k] = 0;
    for (size_t i = 0; i < load->lengths; i++)
        for (int k = 0; k < BT_TERMS; k++) ret[k] += (double)w->prompt[i].term_ns[k] * (double)load->count[i];
    for (int k = 0; k < BT_TERMS; k++) sum += ret[k];
    for (int k = 0; k < BT_TERMS && sum > 0; k++) ret[k] *= mean_ns / sum;
}

static void figure_prompts(tool_plan_figures *f, const bt_profile *device, const tool_plan_load *load,
                           work *w)
{
    const double n = (double)load->n;
    const bt_profile_time *t = &device->time;
    const double ns = sum_of(load, w, ns_of), ops = sum_of(load, w, ops_of),
                 bytes = sum_of(load, w, bytes_of);
    const bt_roofline_peak peak = bt_roofline_peaks(t);
    for (size_t i = 0; i < load->lengths; i++) w->ns[i] = w->prompt[i].ns;
    f->input_rows = load->input_tokens;
    f->rows = whole(sum_of(load, w, rows_of));
    f->chunks = whole(sum_of(load, w, chunks_of));
    f->prefill_ns = ns / n;
    f->exposed_ns = sum_of(load, w, exposed_of) / n;
    f->p50_ns = tool_plan_load_at(load, w->ns, 0.5);
    f->p99_ns = tool_plan_load_at(load, w->ns, 0.99);
    const bt_energy e = bt_energy_of(t, whole(ns / n), whole(ops / n), whole(bytes / n), whole(ns / n));
    f->prefill_energy = e.kind;
    f->joules = f->prefill_joules = (double)e.nj / 1e9;
    f->utilisation = ns > 0 ? ops * 1000 / (ns * (double)peak.int8 * bt_profile_devices(&device->time)) : 0;
    f->prefill_busy = load->has_arrivals ? ns / 1e9 / load->span_s : 0;
    f->terms.prompt_ops = ops / n;
    f->terms.prompt_bytes = bytes / n;
    mean_terms(f->terms.prompt_ns, load, w, ns / n);
}

/* One server: a prompt begins when it is there and the one before it has ended. */
static void queue_up(tool_plan_figures *f, const tool_plan_load *load, work *w)
{
    double free_ns = 0, wait = 0;
    for (size_t i = 0; i < load->n; i++) {
        const double at = (double)load->at[i].arrival_us * 1e3, took = (double)w->ns[load->of[i]];
        const double start = load->has_arrivals && free_ns > at ? free_ns : at;
        free_ns = start + took;
        wait += start - at;
        w->loaded[i] = whole(free_ns - at);
    }
    f->wait_ns = wait / (double)load->n;
}

static void figure_queue(tool_plan_figures *f, const tool_plan_load *load, work *w,
                         const tool_plan_limits *limits)
{
    size_t kept = 0;
    double e2e = 0;
    for (size_t i = 0; i < load->n; i++) {
        const uint32_t out = load->at[i].output;
        const double steps = (out > 1 ? (double)out - 1 : 0) * f->tpot_ns,
                     all = (double)w->loaded[i] + (double)w->prompt[load->of[i]].exposed_ns + steps;
        e2e += all;
        kept += (limits->ttft_us < 0 || (double)w->loaded[i] <= (double)limits->ttft_us * 1e3) &&
                (limits->tpot_us < 0 || out < 2 || f->tpot_ns <= (double)limits->tpot_us * 1e3) &&
                (limits->e2e_us < 0 || all <= (double)limits->e2e_us * 1e3);
    }
    f->e2e_ns = e2e / (double)load->n;
    f->kept = (double)kept / (double)load->n;
    mean_terms(f->terms.queued_ns, load, w, sum_of(load, w, ns_of) / (double)load->n);
    qsort(w->loaded, load->n, sizeof *w->loaded, by_value);
    f->loaded_p50_ns = w->loaded[(load->n - 1) / 2];
    f->loaded_p99_ns = w->loaded[(load->n - 1) * 99 / 100];
}

const double tool_plan_factors[TOOL_PLAN_FACTORS] = {.5, .7, .85, 1, 1.2, 1.5, 2, 3};

/* Counts the requests that keep the limits but that of a later token, whatever steps take. */
static void count_kept(tool_plan_figures *f, const prompt *p, size_t factor, double loaded_ns, uint32_t out,
                       const tool_plan_limits *limits)
{
    if (limits->ttft_us >= 0 && loaded_ns > (double)limits->ttft_us * 1e3) return;
    for (size_t k = 0; k < TOOL_PLAN_FACTORS; k++) {
        const double steps = (out > 1 ? (double)out - 1 : 0) * f->tpot_ns * tool_plan_factors[k],
                     all = loaded_ns + (double)p->exposed_ns + steps;
        f->terms.kept[factor][k][out > 1] += limits->e2e_us < 0 || all <= (double)limits->e2e_us * 1e3;
    }
}

/* The queue again, with prompts that take so many times as long. */
static void queue_all(tool_plan_figures *f, const tool_plan_load *load, const work *w,
                      const tool_plan_limits *limits)
{
    const bool has_limits = limits->ttft_us >= 0 || limits->tpot_us >= 0 || limits->e2e_us >= 0;
    tool_plan_terms *t = &f->terms;
    for (size_t x = 0; x < TOOL_PLAN_FACTORS; x++) {
        double free_ns = 0, wait = 0;
        for (size_t i = 0; i < load->n && (has_limits || load->has_arrivals); i++) {
            const double at = (double)load->at[i].arrival_us * 1e3,
                         took = (double)w->ns[load->of[i]] * tool_plan_factors[x],
                         start = load->has_arrivals && free_ns > at ? free_ns : at;
            free_ns = start + took;
            wait += start - at;
            if (has_limits)
                count_kept(f, &w->prompt[load->of[i]], x, free_ns - at, load->at[i].output, limits);
        }
        t->wait_ns[x] = wait / (double)load->n;
        for (size_t k = 0; k < TOOL_PLAN_FACTORS; k++)
            for (int is_long = 0; is_long < 2; is_long++) t->kept[x][k][is_long] /= (float)load->n;
    }
}

/* ---- decode ---- */

/* Tokens of a whole sequence, rounded up. */
static uint64_t mean_length(const tool_plan_load *load)
{
    return (load->input_tokens + load->steps + load->n - 1) / load->n + 1;
}

static uint64_t held_bytes(const bt_price_model *m) { return bt_time_plus(m->weight_bytes, m->idle_bytes); }
/* What a decode node holds of the KV of one sequence. */
static uint64_t held_kv(const tool_plan_pair *pair, uint64_t kv_bytes, uint64_t tokens)
{
    return bt_price_kv_held(&pair->decode->time, pair->decode_model.kv_heads,
                            bt_dims_kv_held(pair->dims, kv_bytes, tokens, BT_DIMS_PAGE_TOKENS));
}

/* Bytes that decoding takes: weights, and the KV of `batch` sequences of the mean length. */
static uint64_t decode_bytes(const tool_plan_pair *pair, uint64_t kv_bytes, const tool_plan_load *load,
                             uint32_t batch)
{
    return bt_time_plus(held_bytes(&pair->decode_model),
                        bt_time_times(batch, held_kv(pair, kv_bytes, mean_length(load))));
}

/* Sequences of the mean length that fit beside the weights. */
static bt_err most_sequences(uint32_t *ret, const tool_plan_pair *pair, uint64_t kv_bytes,
                             const tool_plan_load *load, bt_fault *fault)
{
    const uint64_t has = tool_plan_memory(pair->decode), weights = held_bytes(&pair->decode_model),
                   one = held_kv(pair, kv_bytes, load->longest);
    *ret = pair->slots;
    if (!has) return BT_OK;
    if (weights > has || one > has - weights)
        return bt_fail(fault, BT_ELIMIT,
                       "profile '%s' has %" PRIu64 " bytes of memory; %" PRIu64
                       " bytes of weights and the KV of %" PRIu64 " tokens, %" PRIu64 " bytes, do not fit",
                       pair->decode->name, has, weights, load->longest, one);
    const uint64_t fit = (has - weights) / held_kv(pair, kv_bytes, mean_length(load));
    if (fit < *ret) *ret = fit < 1 ? 1 : (uint32_t)fit;
    return BT_OK;
}

static bt_price_steps decode_steps(const tool_plan_pair *pair, uint64_t kv_bytes)
{
    bt_price_model m = pair->decode_model;
    m.kv_bytes = kv_bytes;
    return bt_price_steps_of(pair->decode, &m);
}

static bt_price_sum step_of(const bt_price_steps *d, uint64_t batch, uint64_t ctx, const bt_price_step *piece)
{
    bt_price_step s = bt_price_decode_step(batch, ctx, d->model.window);
    if (piece) bt_price_step_add(&s, piece);
    return bt_price_step_at(d, &s);
}

static void add_decode_energy(tool_plan_figures *f, const tool_plan_pair *pair, const tool_plan_load *load,
                              const bt_price_sum *step, double batch)
{
    const bt_energy e = bt_energy_of(&pair->decode->time, step->ns, step->ops, step->bytes, step->ns);
    f->decode_energy = load->steps ? e.kind : BT_ENERGY_TERMS;
    f->terms.steps = (double)load->steps / (double)load->n / batch;
    f->terms.step_ops = (double)step->ops;
    f->terms.step_bytes = (double)step->bytes;
    for (int k = 0; k < BT_TERMS; k++) f->terms.step_ns[k] = (double)step->term_ns[k];
    f->joules += (double)e.nj / 1e9 / batch * (double)load->steps / (double)load->n;
}

static bt_err figure_decode(tool_plan_figures *f, const tool_plan_pair *pair, uint64_t kv_bytes,
                            const tool_plan_load *load, bt_fault *fault)
{
    uint32_t most = 1;
    const bt_err e = most_sequences(&most, pair, kv_bytes, load, fault);
    if (e < 0) return e;
    const double wanted = load->has_arrivals ? (double)load->steps / load->span_s : 0; /* tokens a second */
    const bt_price_steps d = decode_steps(pair, kv_bytes);
    uint32_t low = 1, high = most;
    /* more sequences make more tokens a second: the least batch that makes enough */
    while (load->has_arrivals && low < high) {
        const uint32_t mid = low + (high - low) / 2;
        const double makes = (double)mid * 1e9 / (double)step_of(&d, mid, load->step_ctx, NULL).ns;
        if (makes >= wanted) high = mid;
        else low = mid + 1;
    }
    const bt_price_sum step = step_of(&d, low, load->step_ctx, NULL),
                       full = step_of(&d, most, load->step_ctx, NULL);
    f->batch = low;
    f->tpot_ns = load->steps ? (double)step.ns : 0;
    f->alone_tpot_ns = load->steps ? (double)step_of(&d, 1, load->step_ctx, NULL).ns : 0;
    f->decode_busy = wanted * (double)full.ns / 1e9 / (double)most;
    f->decode_bytes = decode_bytes(pair, kv_bytes, load, low);
    add_decode_energy(f, pair, load, &step, low);
    for (int k = 0; k < BT_TERMS; k++) f->terms.token_ns[k] = (double)step.term_ns[k];
    return BT_OK;
}

/* Chunks under way; each has one. */
static uint64_t arenas_of(const tool_plan_how *how)
{
    return how->schedule == BT_SCHEDULE_FIFO || how->schedule == BT_SCHEDULE_OOO ? how->arenas : 1;
}

bt_err tool_plan_figure(tool_plan_figures *ret, const tool_plan_pair *pair, const tool_plan_how *how,
                        const tool_plan_load *load, const tool_plan_limits *limits, bt_fault *fault)
{
    tool_plan_figures f = {0};
    work w;
    bt_err e = begin(&w, load, fault);
    if (e == BT_OK) e = price_prompts(w.prompt, load->length, load->lengths, how, fault);
    if (e == BT_OK) {
        figure_prompts(&f, pair->prefill, load, &w);
        e = figure_decode(&f, pair, how->kv_bytes, load, fault);
    }
    if (e == BT_OK) {
        const uint64_t kv =
            bt_time_times(bt_price_kv_held(&pair->prefill->time, how->model.kv_heads, how->kv_bytes),
                          load->longest);
        f.prefill_bytes = how->price ? tool_plan_mapped_bytes(bt_price_pkg_of(how->price), arenas_of(how))
                                     : held_bytes(&how->model);
        f.prefill_bytes = bt_time_plus(f.prefill_bytes, kv);
        const uint64_t has = tool_plan_memory(pair->prefill);
        if (has && f.prefill_bytes > has)
            e = bt_fail(fault, BT_ELIMIT,
                        "profile '%s' has %" PRIu64 " bytes of memory; weights, chunks and the KV of %" PRIu64
                        " tokens take %" PRIu64,
                        pair->prefill->name, has, load->longest, f.prefill_bytes);
    }
    if (e == BT_OK) {
        queue_up(&f, load, &w);
        figure_queue(&f, load, &w, limits);
        if (pair->is_drawn) queue_all(&f, load, &w, limits);
        f.is_overloaded = f.prefill_busy >= 1 || f.decode_busy >= 1;
        *ret = f;
    }
    done(&w);
    return e;
}

/* ---- the decode device alone ---- */

/* The time of prompts whose steps carry `batch` decode rows. */
static void mixed_prompts(work *w, const tool_plan_pair *pair, const bt_price_steps *d,
                          const tool_plan_how *how, const tool_plan_load *load, uint64_t batch)
{
    const prompt none = first_use(pair->decode, &pair->decode_model);
    prompt shared = none;
    uint64_t first = 0;
    for (size_t i = 0; i < load->lengths; i++) {
        const uint64_t n = load->length[i], piece = how->piece ? how->piece : n;
        if (!how->piece) {
            first = 0;
            shared = none;
        }
        prompt p = shared;
        for (uint64_t at = first; at < n; at += piece) {
            const uint64_t rows = n - at < piece ? n - at : piece;
            bt_price_step step = bt_price_prefill_step(at, rows, d->model.window);
            step.logits = at + rows == n;
            const bt_price_sum s = step_of(d, batch, load->step_ctx, &step);
            p.ns = bt_time_plus(p.ns, s.ns);
            p.ops = bt_time_plus(p.ops, s.ops);
            p.bytes = bt_time_plus(p.bytes, s.bytes);
            p.rows += rows;
            p.chunks++;
            add_terms(&p, s.term_ns);
            if (at + piece < n && how->piece) {
                shared = p;
                first = at + piece;
            }
        }
        w->prompt[i] = p;
    }
}

/* The share of a second that its prompts' steps and the other decode steps take. */
static double busy_of(double *ret_token_ns, const tool_plan_pair *pair, const bt_price_steps *d,
                      const tool_plan_how *how, const tool_plan_load *load, work *w, uint32_t batch)
{
    const double step = (double)step_of(d, batch, load->step_ctx, NULL).ns;
    mixed_prompts(w, pair, d, how, load, batch);
    const double prompts = sum_of(load, w, ns_of), mixed = sum_of(load, w, chunks_of),
                 wanted = (double)load->steps / (double)batch, other = wanted > mixed ? wanted - mixed : 0;
    const double all = prompts + other * step;
    *ret_token_ns = wanted > 0 ? (wanted > mixed ? all / wanted : prompts / mixed) : 0;
    return load->has_arrivals ? all / 1e9 / load->span_s : 0;
}

/* A token takes the mean of all steps, those with pieces of prompts among them. */
static void token_terms(tool_plan_terms *t, const tool_plan_load *load, const work *w,
                        const bt_price_sum *step, uint32_t batch)
{
    const double mixed = sum_of(load, w, chunks_of), wanted = (double)load->steps / (double)batch,
                 other = wanted > mixed ? wanted - mixed : 0;
    for (int k = 0; k < BT_TERMS; k++)
        t->token_ns[k] = t->queued_ns[k] * (double)load->n + other * (double)step->term_ns[k];
}

bt_err tool_plan_figure_colocated(tool_plan_figures *ret, const tool_plan_pair *pair,
                                  const tool_plan_how *how, const tool_plan_load *load,
                                  const tool_plan_limits *limits, bt_fault *fault)
{
    tool_plan_figures f = {0};
    work w;
    uint32_t most = 1, batch = 1;
    double token_ns = 0;
    const bt_price_steps d = decode_steps(pair, how->kv_bytes);
    bt_err e = begin(&w, load, fault);
    if (e == BT_OK) e = most_sequences(&most, pair, how->kv_bytes, load, fault);
    if (e == BT_OK) {
        double busy = busy_of(&token_ns, pair, &d, how, load, &w, most), now;
        f.decode_busy = busy;
        /* the least batch whose steps fit the time, by doubling and halving */
        uint32_t low = 1, high = most;
        while (load->has_arrivals && busy < 1 && low < high) {
            const uint32_t mid = low + (high - low) / 2;
            now = busy_of(&token_ns, pair, &d, how, load, &w, mid);
            if (now < 1) high = mid;
            else low = mid + 1;
        }
        batch = !load->has_arrivals ? 1 : busy < 1 ? high : most;
        (void)busy_of(&token_ns, pair, &d, how, load, &w, batch);
        /* the decode rows that ride along are decode's; a prompt alone is printed without them */
        const bt_price_sum step = step_of(&d, batch, load->step_ctx, NULL);
        f.batch = batch;
        f.tpot_ns = token_ns;
        f.alone_tpot_ns = load->steps ? (double)step_of(&d, 1, load->step_ctx, NULL).ns : 0;
        for (size_t i = 0; i < load->lengths; i++) w.ns[i] = w.prompt[i].ns;
        queue_up(&f, load, &w);
        figure_queue(&f, load, &w, limits);
        if (pair->is_drawn) queue_all(&f, load, &w, limits);
        token_terms(&f.terms, load, &w, &step, batch);
        const double wait = f.wait_ns, decode_busy = f.decode_busy;
        e = price_prompts(w.prompt, load->length, load->lengths, how, fault);
        if (e == BT_OK) {
            figure_prompts(&f, pair->decode, load, &w);
            f.exposed_ns = 0;
            f.wait_ns = wait;
            f.decode_busy = decode_busy;
            f.is_overloaded = decode_busy >= 1;
            f.decode_bytes = decode_bytes(pair, how->kv_bytes, load, batch);
            add_decode_energy(&f, pair, load, &step, batch);
            *ret = f;
        }
    }
    done(&w);
    return e;
}
