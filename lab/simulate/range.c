/* Rows of a sweep in processes, their points in memory and in a file. See range.h. */
#include "lab/simulate/range.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rng.h"
#include "lab/simulate/prices.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- points ---- */

static void points_done(tool_simulate_points *p)
{
    free(p->point);
    *p = (tool_simulate_points){0};
}

static bt_err points_add(tool_simulate_points *p, const tool_simulate_point *one, bt_fault *fault)
{
    if (p->len == p->cap) {
        const size_t cap = p->cap ? p->cap * 2 : 256;
        tool_simulate_point *all = realloc(p->point, cap * sizeof *all);
        if (!all) return bt_fail(fault, BT_ENOMEM, "out of memory for points of a sweep");
        p->point = all;
        p->cap = cap;
    }
    p->point[p->len++] = *one;
    return BT_OK;
}

/* NULL: not tried. */
static const tool_simulate_point *points_find(const tool_simulate_points *p, uint32_t prefill,
                                              uint32_t decode)
{
    for (size_t i = 0; i < p->len; i++)
        if (p->point[i].prefill == prefill && p->point[i].decode == decode) return &p->point[i];
    return NULL;
}

void tool_simulate_points_line(char ret[TOOL_SIMULATE_LINE_BYTES], const tool_simulate_point *p, uint64_t key)
{
    char draw[32] = "";
    if (p->draw) (void)snprintf(draw, sizeof draw, "\"draw\": %u, ", (unsigned)p->draw);
    (void)snprintf(ret, TOOL_SIMULATE_LINE_BYTES,
                   "{\"key\": \"%016" PRIx64
                   "\", %s\"prefill\": %u, \"decode\": %u, \"carried\": %s, \"requests\": %" PRIu64
                   ", \"good\": %" PRIu64 ", \"failed\": %" PRIu64 ", \"events\": %" PRIu64
                   ", \"goodput_rps\": %.17g, \"ttft_p99_ms\": %.17g, \"tpot_p99_ms\": %.17g, "
                   "\"virtual_seconds\": %.17g, \"joules\": %.17g}\n",
                   key, draw, p->prefill, p->decode, p->is_carried ? "true" : "false", p->requests, p->good,
                   p->failed, p->events, p->goodput_rps, p->ttft_p99_ms, p->tpot_p99_ms, p->virtual_s,
                   p->joules);
}

bool tool_simulate_points_parse(tool_simulate_point *ret, const char *line, uint64_t key)
{
    const char *found;
    json_int_t draw = 0, prefill, decode, requests, good, failed, events;
    int carried;
    char want[17];
    tool_simulate_point p = {0};
    json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    (void)snprintf(want, sizeof want, "%016" PRIx64, key);
    const bool ok =
        o &&
        json_unpack(o, "{s:s, s?I, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:F, s:F, s:F, s:F, s:F}", "key",
                    &found, "draw", &draw, "prefill", &prefill, "decode", &decode, "carried", &carried,
                    "requests", &requests, "good", &good, "failed", &failed, "events", &events, "goodput_rps",
                    &p.goodput_rps, "ttft_p99_ms", &p.ttft_p99_ms, "tpot_p99_ms", &p.tpot_p99_ms,
                    "virtual_seconds", &p.virtual_s, "joules", &p.joules) == 0 &&
        strcmp(found, want) == 0 && draw >= 0 && draw <= BT_FORECAST_MAX_DRAWS && prefill >= 0 &&
        prefill <= UINT32_MAX && decode >= 0 && decode <= UINT32_MAX;
    if (ok) {
        p.draw = (uint32_t)draw;
        p.prefill = (uint32_t)prefill;
        p.decode = (uint32_t)decode;
        p.is_carried = carried;
        p.requests = (uint64_t)requests;
        p.good = (uint64_t)good;
        p.failed = (uint64_t)failed;
        p.events = (uint64_t)events;
        *ret = p;
    }
    json_decref(o);
    return ok;
}

/* The points of this draw; NULL: the sweep has no such draw. */
static tool_simulate_points *points_of(tool_simulate_found *f, uint32_t draw)
{
    if (draw > f->votes.draws) return NULL;
    return draw ? &f->drawn[draw - 1] : &f->tried;
}

/* All of a file with this key; no file is no points. Other lines are skipped: the last may be torn. */
static bt_err points_read(tool_simulate_found *found, const char *path, uint64_t key, bt_fault *fault)
{
    char line[TOOL_SIMULATE_LINE_BYTES];
    tool_simulate_point one;
    bt_err e = BT_OK;
    FILE *f = fopen(path, "re");
    if (!f)
        return errno == ENOENT ? BT_OK
                               : bt_fail(fault, BT_EIO, "cannot open '%.150s': %s", path, strerror(errno));
    while (e == BT_OK && fgets(line, sizeof line, f)) {
        if (!tool_simulate_points_parse(&one, line, key)) continue;
        tool_simulate_points *p = points_of(found, one.draw);
        if (!p || points_find(p, one.prefill, one.decode)) continue;
        e = points_add(p, &one, fault);
        found->again++;
    }
    if (e == BT_OK && ferror(f)) e = bt_fail(fault, BT_EIO, "cannot read '%.150s'", path);
    (void)fclose(f);
    return e;
}

/* Pieces of work in processes of their own, `jobs` at a time. Each process writes lines, which come to `line`
 * in this process, one after the other, the lines of one piece in their order. */
typedef struct farm {
    /* In a process of its own, whose memory is a copy: say each line by farm_say(to, ...). */
    bt_err (*work)(void *ud, uint32_t piece, int to, bt_fault *fault);
    bt_err (*line)(void *ud, const char *text, bt_fault *fault); /* with its newline */
    void *ud;
    uint32_t jobs; /* at a time; at least 1 */
} farm;

enum { LINE = 1024, MOST_JOBS = 256 };

typedef struct hand {
    pid_t pid; /* 0: none */
    int from;
    char text[LINE + 1];
    size_t len;
} hand;

/* A whole line with its newline. BT_EIO. */
static bt_err farm_say(int to, const char *line, bt_fault *fault)
{
    return bt_file_write(to, line, strlen(line)) < 0
               ? bt_fail(fault, BT_EIO, "cannot write a line of the sweep: %s", strerror(errno))
               : BT_OK;
}

static bt_err hire(const farm *f, hand *h, uint32_t piece, bt_fault *fault)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) return bt_fail(fault, BT_EIO, "cannot make a pipe: %s", strerror(errno));
    (void)fflush(NULL); /* what is buffered is said once */
    const pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return bt_fail(fault, BT_EIO, "cannot start a process of the sweep: %s", strerror(errno));
    }
    if (pid == 0) {
        bt_fault why = {""};
        char line[sizeof why.text + 8];
        close(ends[0]);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever ends the sweep ends its processes */
        if (getppid() != parent) _exit(1);
        const bt_err e = f->work(f->ud, piece, ends[1], &why);
        (void)snprintf(line, sizeof line, "!%s\n", why.text);
        if (e < 0) (void)farm_say(ends[1], line, NULL);
        _exit(e < 0);
    }
    close(ends[1]);
    *h = (hand){.pid = pid, .from = ends[0]};
    return BT_OK;
}

/* Whole lines out of what came. */
static bt_err hear(const farm *f, hand *h, bt_fault *fault)
{
    char *end, line[LINE + 1];
    bt_err e = BT_OK;
    while (e == BT_OK && (end = memchr(h->text, '\n', h->len))) {
        const size_t len = (size_t)(end - h->text) + 1;
        memcpy(line, h->text, len);
        line[len] = 0;
        h->len -= len;
        memmove(h->text, h->text + len, h->len);
        if (line[0] == '!') {
            line[len - 1] = 0;
            return bt_fail(fault, BT_EIO, "%.300s", line + 1);
        }
        e = f->line(f->ud, line, fault);
    }
    if (e == BT_OK && h->len == LINE)
        e = bt_fail(fault, BT_EIO, "a process of the sweep wrote a line of more than %d bytes", LINE);
    return e;
}

/* Its process has ended. */
static bt_err dismiss(hand *h, bt_fault *fault)
{
    int status = 0;
    while (waitpid(h->pid, &status, 0) < 0 && errno == EINTR) continue;
    close(h->from);
    h->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return BT_OK;
    return bt_fail(fault, BT_EIO, "a process of the sweep ended by %s %d",
                   WIFSIGNALED(status) ? "signal" : "exit code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static bt_err read_some(const farm *f, hand *h, bt_fault *fault)
{
    const ssize_t n = read(h->from, h->text + h->len, LINE - h->len);
    if (n < 0)
        return errno == EINTR
                   ? BT_OK
                   : bt_fail(fault, BT_EIO, "cannot read from a process of the sweep: %s", strerror(errno));
    if (n == 0) return dismiss(h, fault);
    h->len += (size_t)n;
    return hear(f, h, fault);
}

/* Pieces 0 to n - 1. The first that fails ends all; its words come back. BT_EIO: no process or pipe. */
static bt_err farm_run(const farm *f, uint32_t n, bt_fault *fault)
{
    const uint32_t jobs = f->jobs > MOST_JOBS ? MOST_JOBS : f->jobs;
    hand *h = calloc(jobs, sizeof *h);
    struct pollfd *fds = calloc(jobs, sizeof *fds);
    uint32_t next = 0;
    bool goes_on = true;
    bt_err e = h && fds ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory for a sweep");
    while (e == BT_OK && goes_on) {
        goes_on = next < n;
        for (uint32_t i = 0; e == BT_OK && i < jobs; i++) {
            if (!h[i].pid && next < n) e = hire(f, &h[i], next++, fault);
            fds[i] = (struct pollfd){.fd = h[i].pid ? h[i].from : -1, .events = POLLIN};
            goes_on |= h[i].pid != 0;
        }
        if (e < 0 || !goes_on || poll(fds, jobs, -1) <= 0) continue;
        for (uint32_t i = 0; e == BT_OK && i < jobs; i++)
            if (fds[i].revents) e = read_some(f, &h[i], fault);
    }
    for (uint32_t i = 0; h && i < jobs; i++) {
        if (!h[i].pid) continue;
        (void)kill(h[i].pid, SIGTERM);
        (void)dismiss(&h[i], NULL);
    }
    free(h);
    free(fds);
    return e;
}

bt_err tool_simulate_varies(bool *ret, size_t *ret_group, const tool_simulate_side *s, const char *option,
                            bt_fault *fault)
{
    bool found = false;
    for (size_t i = 0; i < s->len; i++) {
        if (s->group[i].least == s->group[i].most) continue;
        if (found)
            return bt_fail(fault, BT_EARG, "--%s: two groups have a range such as 1..64, and one can",
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

/* A device by what it takes for some work, and by what draws are made from: of a file, the name says too
 * little. */
static void mix_side(uint64_t *h, const tool_simulate_side *s, const tool_simulate_setup *setup,
                     bool is_prefill)
{
    for (size_t i = 0; i < s->len; i++) {
        const tool_simulate_group *g = &s->group[i];
        tool_simulate_priced price;
        mix_text(h, g->profile.name);
        mix(h, bt_hash64(&g->profile.time.calibration, sizeof g->profile.time.calibration));
        if (g->model) mix(h, g->model);
        mix(h, g->least == g->most ? g->least : 0);
        if (tool_simulate_price_node(&price, setup, g, is_prefill, NULL) < 0) continue;
        for (uint32_t n = 1; n <= setup->ctx_tokens / 2; n *= 2) {
            const bt_price_step step =
                bt_price_decode_step(n < 512 ? n : 512, n, price.cost.steps.model.window);
            mix(h, sim_cost_next(&price.cost, n, 0, true).work.ns);
            mix(h, sim_cost_step(&price.cost, &step).ns);
        }
        mix(h, sim_cost_pages(&price.cost, setup->kv_memory_bytes, 64));
        tool_simulate_price_done(&price);
    }
    mix(h, s->len);
}

uint64_t tool_simulate_key(const tool_simulate_range *r)
{
    const tool_simulate_setup *s = r->setup;
    const sim_cluster_options *c = &s->cluster;
    uint64_t h = 1;
    mix_side(&h, &s->prefill, s, !s->is_colocated);
    mix_side(&h, &s->decode, s, false);
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
                            c->pf.short_tokens,
                            c->dc.growth_tokens,
                            c->dc.waiting_max,
                            c->dc.overtake_max,
                            (uint64_t)c->dc.overtake_us,
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
    if (s->shares_prefixes) mix_text(&h, "share-prefixes");
    mix_double(&h, r->share);
    h = tool_replay_plan_digest(r->plan, h);
    if (s->link.share_permille) mix(&h, s->link.share_permille);
    return h;
}

/* ---- a row --------------------------------------------------------------------------------------- */

typedef struct row {
    const tool_simulate_range *r;
    tool_simulate_points *known;
    size_t prefill_group, decode_group;
    uint32_t draw, prefill;
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
    tool_simulate_bench_draw(r->bench, w->draw > 0, w->draw ? w->draw - 1 : 0);
    bt_err e = tool_replay_result_begin(&result, r->plan->len, fault);
    if (e == BT_OK) e = tool_simulate_play(&facts, &result, r->bench, r->plan, prefills, decodes, fault);
    if (e == BT_OK) e = tool_replay_figures_of(&figures, &result, r->slo, fault);
    if (e == BT_OK)
        *ret =
            (tool_simulate_point){.draw = w->draw,
                                  .prefill = w->prefill,
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
                                  .joules = facts.no_joules[0] ? -1 : facts.joules};
    tool_replay_result_done(&result);
    return e;
}

static bt_err try_one(void *ud, tool_simulate_point *ret, uint32_t decode, bt_fault *fault)
{
    row *w = ud;
    char line[TOOL_SIMULATE_LINE_BYTES];
    const tool_simulate_point *before = points_find(w->known, w->prefill, decode);
    if (before) {
        *ret = *before;
        return BT_OK;
    }
    if (w->to < 0) {
        w->lacks = true;
        return bt_fail(fault, BT_ECANCEL, "not tried");
    }
    bt_err e = play_one(w, ret, decode, fault);
    if (e == BT_OK) e = points_add(w->known, ret, fault);
    if (e < 0) return e;
    tool_simulate_points_line(line, ret, w->r->key);
    return farm_say(w->to, line, fault);
}

/* ---- all of them --------------------------------------------------------------------------------- */

typedef struct whole {
    const tool_simulate_range *r;
    tool_simulate_found *found;
    size_t prefill_group, decode_group;
    int file;
    uint32_t *row; /* [rows]: prefill nodes */
    size_t rows, told;
} whole;

static row row_of(const whole *w, uint32_t draw, uint32_t prefill, int to)
{
    return (row){.r = w->r,
                 .known = points_of(w->found, draw),
                 .prefill_group = w->prefill_group,
                 .decode_group = w->decode_group,
                 .draw = draw,
                 .prefill = prefill,
                 .to = to};
}

static bt_err row_run(row *one, tool_simulate_point *ret, bool *ret_found, bt_fault *fault)
{
    const tool_simulate_group *g = &one->r->setup->decode.group[one->decode_group];
    return tool_simulate_row(ret, ret_found, g->least, g->most, try_one, one, fault);
}

/* A piece is a row of a draw: all rows as priced come first, then those of each draw. */
static bt_err work(void *ud, uint32_t piece, int to, bt_fault *fault)
{
    const whole *w = ud;
    row one = row_of(w, (uint32_t)(piece / w->rows), w->row[piece % w->rows], to);
    tool_simulate_point p;
    bool found;
    return row_run(&one, &p, &found, fault);
}

static bt_err on_line(void *ud, const char *text, bt_fault *fault)
{
    whole *w = ud;
    tool_simulate_point p;
    if (!tool_simulate_points_parse(&p, text, w->r->key) || !points_of(w->found, p.draw))
        return bt_fail(fault, BT_EIO, "a process of the sweep wrote '%.80s', which is no point of it", text);
    bt_err e = points_add(points_of(w->found, p.draw), &p, fault);
    if (e == BT_OK && w->file >= 0) e = farm_say(w->file, text, fault);
    if (w->r->progress) w->r->progress(w->r->ud, ++w->told, w->rows * (w->r->draws + 1));
    return e;
}

/* The frontier of a draw, with room for all rows. least: [rows], each `draws` behind the one before; NULL:
 * not asked. */
static bt_err gather_draw(const whole *w, uint32_t draw, tool_simulate_point *ret, size_t *ret_len,
                          uint32_t *least, bt_fault *fault)
{
    bt_err e = BT_OK;
    *ret_len = 0;
    for (size_t i = 0; e == BT_OK && i < w->rows; i++) {
        row one = row_of(w, draw, w->row[i], -1);
        bool found;
        e = row_run(&one, &ret[*ret_len], &found, fault);
        if (e < 0) break;
        if (least) least[i * w->r->draws] = found ? ret[*ret_len].decode : TOOL_SIMULATE_UNMET;
        *ret_len += found;
    }
    *ret_len = tool_simulate_frontier(ret, *ret_len);
    return e;
}

static bt_err gather(const whole *w, bt_fault *fault)
{
    tool_simulate_found *f = w->found;
    tool_simulate_votes *v = &f->votes;
    const size_t n = w->rows ? w->rows : 1;
    tool_simulate_point *drawn = calloc(n, sizeof *drawn);
    f->point = calloc(n, sizeof *f->point);
    bt_err e = drawn && f->point ? gather_draw(w, 0, f->point, &f->len, NULL, fault)
                                 : bt_fail(fault, BT_ENOMEM, "out of memory for a sweep");
    f->cheapest = tool_simulate_cheapest(&w->r->rates, f->point, f->len);
    for (size_t i = 0; i < v->rows; i++) v->row[i] = w->row[i];
    for (uint32_t k = 0; e == BT_OK && k < v->draws; k++) {
        size_t len;
        e = gather_draw(w, k + 1, drawn, &len, &v->least[k], fault);
        const size_t best = tool_simulate_cheapest(&w->r->rates, drawn, len);
        if (e == BT_OK && best < len)
            v->vote[v->votes++] = (tool_simulate_vote){drawn[best].prefill, drawn[best].decode, 1, false};
    }
    if (e == BT_OK)
        e = tool_simulate_votes_count(v, f->cheapest < f->len ? &f->point[f->cheapest] : NULL, fault);
    free(drawn);
    return e;
}

/* To add lines to. A line that a killed sweep wrote in part ends here. */
static bt_err open_points(int *ret, const char *path, bt_fault *fault)
{
    char last = '\n';
    const int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return bt_fail(fault, BT_EIO, "cannot open '%.150s': %s", path, strerror(errno));
    const off_t end = lseek(fd, 0, SEEK_END);
    *ret = fd; /* closed by the caller */
    if (end > 0 && pread(fd, &last, 1, end - 1) != 1)
        return bt_fail(fault, BT_EIO, "cannot read '%.150s': %s", path, strerror(errno));
    return last == '\n' ? BT_OK : farm_say(fd, "\n", fault);
}

/* The rows of the range, or of its shard. */
static bt_err set_rows(whole *w, bt_fault *fault)
{
    const tool_simulate_side *side = &w->r->setup->prefill;
    const tool_simulate_shard *shard = &w->r->shard;
    const uint32_t least = side->len ? side->group[w->prefill_group].least : 0,
                   most = side->len ? side->group[w->prefill_group].most : 0;
    w->row = calloc(most - least + 1, sizeof *w->row);
    if (!w->row) return bt_fail(fault, BT_ENOMEM, "out of memory for a sweep");
    for (uint32_t p = least; p <= most; p++)
        if (!shard->of || (p - least) % shard->of == shard->part - 1) w->row[w->rows++] = p;
    return BT_OK;
}

bt_err tool_simulate_range_run(tool_simulate_found *ret, const tool_simulate_range *r, bt_fault *fault)
{
    whole w = {.r = r, .found = ret, .file = -1};
    const farm workers = {work, on_line, &w, r->jobs};
    bool varies;
    *ret = (tool_simulate_found){0};
    bt_err e = tool_simulate_varies(&varies, &w.prefill_group, &r->setup->prefill, "prefill", fault);
    if (e == BT_OK) e = tool_simulate_varies(&varies, &w.decode_group, &r->setup->decode, "decode", fault);
    if (e == BT_OK) e = set_rows(&w, fault);
    if (e == BT_OK && r->draws && !(ret->drawn = calloc(r->draws, sizeof *ret->drawn)))
        e = bt_fail(fault, BT_ENOMEM, "out of memory for %u draws", (unsigned)r->draws);
    if (e == BT_OK && w.rows) e = tool_simulate_votes_begin(&ret->votes, w.rows, r->draws, fault);
    if (e == BT_OK && r->points_path) e = points_read(ret, r->points_path, r->key, fault);
    if (e == BT_OK && r->points_path) e = open_points(&w.file, r->points_path, fault);
    /* TOOL_SIMULATE_NODES rows at most */
    if (e == BT_OK) e = farm_run(&workers, (uint32_t)w.rows * (r->draws + 1), fault);
    if (e == BT_OK) e = gather(&w, fault);
    if (w.file >= 0) close(w.file);
    free(w.row);
    return e;
}

void tool_simulate_found_done(tool_simulate_found *f)
{
    points_done(&f->tried);
    for (uint32_t i = 0; f->drawn && i < f->votes.draws; i++) points_done(&f->drawn[i]);
    free(f->drawn);
    tool_simulate_votes_done(&f->votes);
    free(f->point);
    *f = (tool_simulate_found){0};
}
