/* Rows of a sweep in processes, their points in memory and in a file. See range.h. */
#include "lab/simulate/range.h"
#include "base/hash.h"
#include "base/rng.h"
#include "lab/simulate/farm.h"
#include "lab/simulate/prices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bt_err tool_simulate_varies(bool *ret, size_t *ret_group, const tool_simulate_side *s, const char *option,
                            bt_fault *fault)
{
    bool found = false;
    for (size_t i = 0; i < s->len; i++) {
        if (s->group[i].least == s->group[i].most) continue;
        if (found)
            return bt_fail(fault, BT_EARG, "--%s: one group can have a range such as 1..64, and two have",
                           option);
        found = true;
        *ret_group = i;
    }
    *ret = found;
    return BT_OK;
}

/* ---- the key ------------------------------------------------------------------------------------- */

static void mix(uint64_t *h, uint64_t v) { *h = bt_rng_u64(*h, v); }
static void mix_text(uint64_t *h, const char *text) { mix(h, text ? bt_hash64(text, strlen(text)) : 0); }
static void mix_double(uint64_t *h, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    mix(h, bits);
}

/* A device by what it takes for some work: of a file, the name says too little. */
static void mix_side(uint64_t *h, const tool_simulate_side *s, const tool_simulate_setup *setup)
{
    for (size_t i = 0; i < s->len; i++) {
        const tool_simulate_group *g = &s->group[i];
        sim_cost *c = malloc(sizeof *c);
        mix_text(h, g->profile.name);
        if (g->model) mix(h, g->model);
        mix(h, g->least == g->most ? g->least : 0);
        if (c && tool_simulate_price_node(c, setup, g, NULL) == BT_OK) {
            for (uint32_t n = 1; n <= setup->ctx_tokens / 2; n *= 2) {
                const bt_price_step step = bt_price_decode_step(n < 512 ? n : 512, n);
                mix(h, sim_cost_next(c, n, 0, true).work.ns);
                mix(h, sim_cost_step(c, &step).ns);
            }
            mix(h, sim_cost_pages(c, setup->kv_memory_bytes, 64));
        }
        free(c);
    }
    mix(h, s->len);
}

static void mix_plan(uint64_t *h, const tool_replay_plan *p)
{
    for (size_t i = 0; i < p->len; i++) {
        const tool_replay_item *t = &p->item[i];
        const uint64_t all[] = {
            (uint64_t)t->due_us, (uint64_t)t->delay_us, t->prompt_tokens, t->output_tokens,
            t->shared_tokens,    t->hash_len,           t->stream,        t->next};
        mix(h, bt_hash64(all, sizeof all));
        if (t->model) mix(h, t->model);
    }
    if (p->hash_len) mix(h, bt_hash64(p->hash, p->hash_len * sizeof *p->hash));
    if (p->ids_len) mix(h, bt_hash64(p->ids, p->ids_len * sizeof *p->ids));
    mix(h, p->block_tokens);
}

uint64_t tool_simulate_key(const tool_simulate_range *r)
{
    const tool_simulate_setup *s = r->setup;
    const sim_cluster_options *c = &s->cluster;
    uint64_t h = 1;
    mix_side(&h, &s->prefill, s);
    mix_side(&h, &s->decode, s);
    const uint64_t all[] = {s->is_colocated,
                            s->link.bits_per_us,
                            s->link.latency_ns,
                            s->pace.milli,
                            s->kv_memory_bytes,
                            s->swap_memory_bytes,
                            s->seed,
                            s->concurrency,
                            s->streams,
                            s->connections,
                            c->prefill_slots,
                            c->decode_slots,
                            c->batch_rows,
                            c->chunk_tokens,
                            (uint64_t)c->request_ns,
                            (uint64_t)c->token_ns,
                            c->gw.policy,
                            c->gw.local_below_tokens,
                            c->gw.queue_max,
                            c->gw.active_max,
                            (uint64_t)c->gw.recovery_us,
                            (uint64_t)c->timeout_ns,
                            (uint64_t)c->gw.heartbeat_us,
                            c->pf.min_overlap_tokens,
                            c->pf.share_tokens,
                            c->dc.growth_tokens,
                            c->dc.window_bytes,
                            (uint64_t)r->slo->ttft_us,
                            (uint64_t)r->slo->tpot_us,
                            (uint64_t)r->slo->e2e_us};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mix(&h, all[i]);
    for (size_t i = 0; i < s->faults.len; i++) {
        const tool_simulate_fault *f = &s->faults.fault[i];
        mix(&h, (uint64_t)f->what << 40 ^ (uint64_t)f->where << 32 ^ f->number);
        mix(&h, f->times);
        mix(&h, (uint64_t)f->at_us);
        mix(&h, (uint64_t)f->for_us);
    }
    mix_text(&h, s->model->name);
    for (uint32_t i = 0; i < s->mores; i++) mix_text(&h, s->more[i]->name);
    if (c->gateways > 1) mix(&h, c->gateways);
    if (s->schedule) mix(&h, (uint64_t)s->schedule << 32 | s->window);
    mix_double(&h, r->share);
    mix_plan(&h, r->plan);
    return h;
}

/* ---- a row --------------------------------------------------------------------------------------- */

typedef struct row {
    const tool_simulate_range *r;
    tool_simulate_points *known;
    size_t prefill_group, decode_group;
    uint32_t prefill;
    int to;     /* where new points are said; -1: nothing new is tried */
    bool lacks; /* something would have had to be */
} row;

static bt_err play_one(const row *w, tool_simulate_point *ret, uint32_t decode, bt_fault *fault)
{
    const tool_simulate_range *r = w->r;
    const tool_simulate_setup *s = r->setup;
    uint32_t prefills[TOOL_SIMULATE_GROUPS], decodes[TOOL_SIMULATE_GROUPS];
    tool_replay_result result;
    tool_replay_figures figures;
    tool_simulate_facts facts;
    for (size_t i = 0; i < s->prefill.len; i++) prefills[i] = s->prefill.group[i].least;
    for (size_t i = 0; i < s->decode.len; i++) decodes[i] = s->decode.group[i].least;
    if (s->prefill.len) prefills[w->prefill_group] = w->prefill;
    decodes[w->decode_group] = decode;
    bt_err e = tool_replay_result_begin(&result, r->plan->len, fault);
    if (e == BT_OK) e = tool_simulate_play(&facts, &result, r->bench, r->plan, prefills, decodes, fault);
    if (e == BT_OK) e = tool_replay_figures_of(&figures, &result, r->slo, fault);
    if (e == BT_OK)
        *ret =
            (tool_simulate_point){.prefill = w->prefill,
                                  .decode = decode,
                                  .is_carried = (double)figures.good >= r->share * (double)figures.requests,
                                  .requests = figures.requests,
                                  .good = figures.good,
                                  .failed = figures.failed,
                                  .events = facts.events,
                                  .goodput_rps = figures.goodput_per_s,
                                  .ttft_p99_ms = figures.ttft_ms.p99,
                                  .tpot_p99_ms = figures.tpot_ms.p99,
                                  .virtual_s = facts.virtual_s,
                                  .joules = facts.has_joules ? facts.joules : -1};
    tool_replay_result_done(&result);
    return e;
}

static bt_err try_one(void *ud, tool_simulate_point *ret, uint32_t decode, bt_fault *fault)
{
    row *w = ud;
    char line[TOOL_SIMULATE_LINE_BYTES];
    const tool_simulate_point *before = tool_simulate_points_find(w->known, w->prefill, decode);
    if (before) {
        *ret = *before;
        return BT_OK;
    }
    if (w->to < 0) {
        w->lacks = true;
        return bt_fail(fault, BT_ECANCEL, "not tried");
    }
    bt_err e = play_one(w, ret, decode, fault);
    if (e == BT_OK) e = tool_simulate_points_add(w->known, ret, fault);
    if (e < 0) return e;
    tool_simulate_points_line(line, ret, w->r->key);
    return tool_simulate_say(w->to, line, fault);
}

/* ---- all of them --------------------------------------------------------------------------------- */

typedef struct whole {
    const tool_simulate_range *r;
    tool_simulate_points *tried;
    size_t prefill_group, decode_group;
    int file;
    size_t rows;
} whole;

static row row_of(const whole *w, uint32_t prefill, int to)
{
    return (row){.r = w->r,
                 .known = w->tried,
                 .prefill_group = w->prefill_group,
                 .decode_group = w->decode_group,
                 .prefill = prefill,
                 .to = to};
}

static const tool_simulate_group *decode_group(const whole *w)
{
    return &w->r->setup->decode.group[w->decode_group];
}

static bt_err work(void *ud, uint32_t prefill, int to, bt_fault *fault)
{
    const whole *w = ud;
    row one = row_of(w, prefill, to);
    tool_simulate_point p;
    bool found;
    return tool_simulate_row(&p, &found, decode_group(w)->least, decode_group(w)->most, try_one, &one, fault);
}

static bt_err on_line(void *ud, const char *text, bt_fault *fault)
{
    whole *w = ud;
    tool_simulate_point p;
    if (!tool_simulate_points_parse(&p, text, w->r->key))
        return bt_fail(fault, BT_EIO, "a process said '%.80s'", text);
    bt_err e = tool_simulate_points_add(w->tried, &p, fault);
    if (e == BT_OK && w->file >= 0) e = tool_simulate_say(w->file, text, fault);
    if (w->r->progress) w->r->progress(w->r->ud, w->tried->len, w->rows);
    return e;
}

static bt_err gather(tool_simulate_found *f, const whole *w, const uint32_t *rows, size_t n, bt_fault *fault)
{
    bt_err e = BT_OK;
    f->point = calloc(n ? n : 1, sizeof *f->point);
    if (!f->point) return bt_fail(fault, BT_ENOMEM, "a sweep");
    for (size_t i = 0; e == BT_OK && i < n; i++) {
        row one = row_of(w, rows[i], -1);
        tool_simulate_point p;
        bool found;
        e = tool_simulate_row(&p, &found, decode_group(w)->least, decode_group(w)->most, try_one, &one,
                              fault);
        if (e == BT_OK && found) f->point[f->len++] = p;
    }
    f->len = tool_simulate_frontier(f->point, f->len);
    f->cheapest = tool_simulate_cheapest(&w->r->rates, f->point, f->len);
    return e;
}

/* To add lines to. What a sweep that was killed wrote in part ends here. */
static bt_err open_points(int *ret, const char *path, bt_fault *fault)
{
    char last = '\n';
    const int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return bt_fail(fault, BT_EIO, "'%.150s': %s", path, strerror(errno));
    const off_t end = lseek(fd, 0, SEEK_END);
    *ret = fd; /* closed by the caller */
    if (end > 0 && pread(fd, &last, 1, end - 1) != 1)
        return bt_fail(fault, BT_EIO, "'%.150s': %s", path, strerror(errno));
    return last == '\n' ? BT_OK : tool_simulate_say(fd, "\n", fault);
}

bt_err tool_simulate_range_run(tool_simulate_found *ret, const tool_simulate_range *r, bt_fault *fault)
{
    const tool_simulate_side *side = &r->setup->prefill;
    whole w = {.r = r, .tried = &ret->tried, .file = -1};
    bool varies;
    size_t n = 0;
    *ret = (tool_simulate_found){0};
    bt_err e = tool_simulate_varies(&varies, &w.prefill_group, side, "prefill", fault);
    if (e == BT_OK) e = tool_simulate_varies(&varies, &w.decode_group, &r->setup->decode, "decode", fault);
    if (e < 0) return e;
    const uint32_t least = side->len ? side->group[w.prefill_group].least : 0,
                   most = side->len ? side->group[w.prefill_group].most : 0;
    uint32_t *rows = malloc((most - least + 1) * sizeof *rows);
    if (!rows) return bt_fail(fault, BT_ENOMEM, "a sweep");
    for (uint32_t p = least; p <= most; p++)
        if (!r->shard.of || (p - least) % r->shard.of == r->shard.part - 1) rows[n++] = p;
    w.rows = n;
    if (r->points_path) e = tool_simulate_points_read(&ret->tried, r->points_path, r->key, fault);
    ret->again = ret->tried.len;
    if (e == BT_OK && r->points_path) e = open_points(&w.file, r->points_path, fault);
    const tool_simulate_farm farm = {work, on_line, &w, r->jobs};
    if (e == BT_OK) e = tool_simulate_farm_run(&farm, rows, n, fault);
    if (e == BT_OK) e = gather(ret, &w, rows, n, fault);
    if (w.file >= 0) close(w.file);
    free(rows);
    return e;
}

void tool_simulate_found_done(tool_simulate_found *f)
{
    tool_simulate_points_done(&f->tried);
    free(f->point);
    *f = (tool_simulate_found){0};
}
