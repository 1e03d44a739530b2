/* Two threads drive one schedule: the caller's takes what the NPU may do, one of its own what the companion
 * may do. The lock guards the schedule and the list of chunks, never the work. */
#include "engine/overlap.h"
#include "npu/lower/stages.h"
#include "npu/pkg/pkg_layout.h"
#include "npu/run/exec_steps.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct program { /* of a program of one sequence */
    bt_stage *stage;
    bt_schedule_stage *as_stage;
    uint64_t *macs; /* of a stage, for a whole chunk */
    size_t stages;
} program;

typedef struct slot { /* of a chunk under way */
    bt_exec_steps *steps;
    bt_chunks arena;
    bt_exec_seq seq;
    const program *program;
    size_t rows;
    uint32_t stored; /* layers whose rows are final */
} slot;

typedef struct call { /* of bt_overlap_run */
    const bt_kv_view *kv;
    const int32_t *ids;
    size_t n, pos0;
    const bt_prefill_hooks *hooks;
    float *logits;
    bt_prefill_out out;
    size_t begin, prepared;        /* tokens, chunks that have a slot or had one */
    size_t begun, begun_tokens;    /* chunks up to the last one that has begun, and their tokens */
    size_t told_chunk, told_begin; /* rows of chunks before were reported */
    uint32_t told_layers;          /* and so many layers of that one */
    bt_err result;
    bt_fault fault;
    bool is_cancelled, is_paused;
    bt_overflow overflow;
} call;

struct bt_overlap {
    bt_overlap_config c;
    program *program; /* [programs]: by the package's index */
    slot slot[BT_OVERLAP_WINDOW];
    bt_pool *pool[BT_SCHEDULE_ENGINES];
    bt_exec *exec[BT_SCHEDULE_ENGINES];
    uint64_t rows;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;            /* any of the fields below */
    bool is_running, is_over, is_idle; /* a call; the end; the companion's thread has left the call */
    bt_schedule schedule;
    call call;
};

/* ---- stages ---- */

static uint64_t macs_of(const bt_pkg *p, uint32_t index, const bt_stage *stage)
{
    const bt_pkg_inst *code = bt_pkg_code(p, index) + stage->first;
    const bt_pkg_program *g = &bt_pkg_programs(p)[index];
    const bt_pkg_header *h = bt_pkg_header_of(p);
    uint64_t sum = 1;
    for (uint32_t i = 0; i < stage->insts; i++) {
        const uint64_t rows = bt_pkg_rows_of(&code[i], g);
        sum += bt_pkg_is_attention(&code[i]) ? rows * rows * h->heads * h->head_dim
                                             : rows * code[i].macs_per_row;
    }
    return sum;
}

static bt_err find_stages(program *ret, const bt_pkg *p, uint32_t index, bt_fault *fault)
{
    ret->stages = bt_stages_of(NULL, NULL, 0, p, index);
    ret->stage = calloc(ret->stages, sizeof *ret->stage);
    ret->as_stage = calloc(ret->stages, sizeof *ret->as_stage);
    ret->macs = calloc(ret->stages, sizeof *ret->macs);
    if (!ret->stage || !ret->as_stage || !ret->macs)
        return bt_fail(fault, BT_ENOMEM, "out of memory for the stages of a program");
    bt_stages_of(ret->stage, ret->as_stage, ret->stages, p, index);
    for (size_t j = 0; j < ret->stages; j++) ret->macs[j] = macs_of(p, index, &ret->stage[j]);
    return BT_OK;
}

/* Programs that run in one schedule have the same stages, as far as both go. */
static bt_err check_stages(const program *a, const program *b, bt_fault *fault)
{
    const size_t n = a->stages < b->stages ? a->stages : b->stages;
    for (size_t j = 0; j < n; j++)
        if (a->as_stage[j].engine != b->as_stage[j].engine || a->as_stage[j].joins != b->as_stage[j].joins)
            return bt_fail(fault, BT_EARG,
                           "stage %zu is not the same in all programs of the package: take --schedule serial",
                           j);
    return BT_OK;
}

static bt_err find_programs(bt_overlap *o, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(o->c.pkg);
    const bt_pkg_row *row = bt_pkg_rows(o->c.pkg);
    const program *longest = NULL;
    o->program = calloc(h->programs.count, sizeof *o->program);
    if (!o->program) return bt_fail(fault, BT_ENOMEM, "out of memory for the stages of a package");
    for (uint32_t r = 0; r < h->rows.count; r++)
        for (int out = 0; row[r].batch == 1 && out < BT_PKG_OUTS; out++) {
            program *p = &o->program[row[r].program[out]];
            bt_err e = p->stages ? BT_OK : find_stages(p, o->c.pkg, row[r].program[out], fault);
            if (e == BT_OK && longest) e = check_stages(longest, p, fault);
            if (e < 0) return e;
            if (!longest || p->stages > longest->stages) longest = p;
        }
    return BT_OK;
}

/* ---- a call ---- */

static uint64_t cost(const void *ud, size_t chunk, size_t stage)
{
    const bt_overlap *o = ud;
    const program *p = o->slot[chunk % BT_OVERLAP_WINDOW].program;
    return stage < p->stages ? p->macs[stage] : 0;
}

/* Puts each chunk that the window has reached into a free slot. */
static void prepare(bt_overlap *o)
{
    call *c = &o->call;
    const bt_schedule *s = &o->schedule;
    while (c->result == BT_OK && c->prepared < s->plan.chunks && c->prepared < s->first + s->plan.window) {
        slot *at = &o->slot[c->prepared % BT_OVERLAP_WINDOW];
        const bt_shapes_chunk next = bt_shapes_next(o->c.shapes, c->pos0 + c->n, c->pos0 + c->begin);
        const bool is_last = c->begin + next.valid == c->n, is_all = c->out == BT_PREFILL_ALL;
        const bt_pkg_out out = is_all ? BT_PKG_OUT_ALL : is_last ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE;
        const bt_pkg_row *row;
        at->seq = (bt_exec_seq){.ids = c->ids + c->begin, .kv = c->kv, .pos0 = c->pos0 + c->begin,
                                .valid = next.valid, .overflow = &c->overflow};
        const bt_exec_io io = {.seq = &at->seq, .seqs = 1, .rows = next.rows,
                               .logits = is_all ? c->logits + c->begin * o->c.vocab : c->logits};
        c->result = bt_pkg_find_row(&row, o->c.pkg, 1, next.rows, at->seq.pos0 + next.valid, &c->fault);
        if (c->result == BT_OK)
            c->result = bt_exec_steps_begin(at->steps, o->exec[BT_SCHEDULE_NPU], row, out, at->arena.arena,
                                            &io, &c->fault);
        if (c->result < 0) return;
        at->program = &o->program[row->program[out]];
        at->stored = 0;
        at->rows = next.rows;
        c->begin += next.valid;
        c->prepared++;
    }
}

/* Whether the call begins no more chunks. */
static bool is_stopped(bt_overlap *o)
{
    call *c = &o->call;
    const atomic_bool *cancel = c->hooks ? c->hooks->cancel : NULL;
    if (cancel && atomic_load_explicit(cancel, memory_order_relaxed)) c->is_cancelled = true;
    return c->is_cancelled || c->result < 0;
}

/* The schedule ends with the last chunk that has begun. */
static void look_at_pause(bt_overlap *o)
{
    call *c = &o->call;
    if (c->is_paused || !c->begun || c->begun == o->schedule.plan.chunks ||
        !bt_prefill_pauses(c->hooks, c->pos0 + c->begun_tokens))
        return;
    c->is_paused = true;
    o->schedule.plan.chunks = c->begun;
}

static void begin_chunk(bt_overlap *o, const slot *s, size_t chunk)
{
    call *c = &o->call;
    bt_prefill_tell_chunk(c->hooks, s->seq.pos0, s->seq.valid, false);
    o->rows += s->rows;
    if (chunk < c->begun) return;
    c->begun = chunk + 1;
    c->begun_tokens = s->seq.pos0 + s->seq.valid - c->pos0;
}

/* Takes one stage and runs it, without the lock. false: nothing is ready for this engine. */
static bool step(bt_overlap *o, bt_schedule_engine engine)
{
    bt_schedule_task task;
    if (is_stopped(o)) return false;
    look_at_pause(o);
    if (!bt_schedule_take(&o->schedule, engine, &task)) return false;
    slot *s = &o->slot[task.chunk % BT_OVERLAP_WINDOW];
    const program *p = s->program;
    if (task.stage == 0) begin_chunk(o, s, task.chunk);
    if (task.stage < p->stages) {
        const bt_stage *stage = &p->stage[task.stage];
        pthread_mutex_unlock(&o->lock);
        bt_exec_steps_run(s->steps, o->exec[engine], stage->first + stage->insts);
        pthread_mutex_lock(&o->lock);
        if (stage->stores != UINT32_MAX) s->stored = stage->stores + 1;
        if (task.stage + 1 == p->stages)
            bt_prefill_tell_chunk(o->call.hooks, s->seq.pos0, s->seq.valid, true);
    }
    bt_schedule_end(&o->schedule, task);
    prepare(o);
    pthread_cond_broadcast(&o->changed);
    return true;
}

/* Layers of that chunk whose rows are final. */
static uint32_t stored(const bt_overlap *o, size_t chunk)
{
    if (chunk < o->schedule.first) return bt_pkg_header_of(o->c.pkg)->layers;
    return chunk < o->call.prepared ? o->slot[chunk % BT_OVERLAP_WINDOW].stored : 0;
}

/* Reports final rows in the hooks' order: chunk by chunk, whatever was ready before its turn. */
static void tell(bt_overlap *o)
{
    call *c = &o->call;
    const uint32_t layers = bt_pkg_header_of(o->c.pkg)->layers;
    if (!c->hooks || !c->hooks->on_kv) return;
    while (c->told_chunk < o->schedule.plan.chunks) {
        const uint32_t ready = stored(o, c->told_chunk);
        if (ready == c->told_layers && ready < layers) return;
        const size_t valid = bt_shapes_next(o->c.shapes, c->pos0 + c->n, c->pos0 + c->told_begin).valid;
        bt_overflow_place at;
        if (bt_overflow_get(&at, &c->overflow) && at.pos < c->pos0 + c->told_begin + valid) return;
        pthread_mutex_unlock(&o->lock);
        for (; c->told_layers < ready; c->told_layers++)
            c->hooks->on_kv(c->hooks->ud, c->told_layers, c->pos0 + c->told_begin, valid);
        pthread_mutex_lock(&o->lock);
        if (ready < layers) continue;
        c->told_layers = 0;
        c->told_begin += valid;
        c->told_chunk++;
    }
}

static bool has_ended(bt_overlap *o)
{
    return bt_schedule_is_done(&o->schedule) || (is_stopped(o) && !o->schedule.running);
}

/* One engine's part of a call. is_both: the caller's thread does the companion's, too. */
static void drive(bt_overlap *o, bt_schedule_engine engine, bool is_both)
{
    while (!has_ended(o)) {
        if (engine == BT_SCHEDULE_NPU) tell(o);
        if (step(o, engine) || (is_both && step(o, BT_SCHEDULE_COMPANION))) continue;
        if (!has_ended(o)) pthread_cond_wait(&o->changed, &o->lock);
    }
    pthread_cond_broadcast(&o->changed);
}

static void *companion_thread(void *ud)
{
    bt_overlap *o = ud;
    pthread_mutex_lock(&o->lock);
    while (!o->is_over) {
        if (o->is_running && !o->is_idle) {
            drive(o, BT_SCHEDULE_COMPANION, false);
            o->is_idle = true;
            pthread_cond_broadcast(&o->changed);
        } else {
            pthread_cond_wait(&o->changed, &o->lock);
        }
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

/* The last chunk's stages are those of the schedule: no chunk has more. */
static bt_err plan(bt_overlap *o, bt_fault *fault)
{
    const call *c = &o->call;
    const bt_pkg_row *row;
    bt_shapes_chunk last = {0};
    size_t chunks = 0;
    for (size_t begin = 0; begin < c->n; begin += last.valid, chunks++)
        last = bt_shapes_next(o->c.shapes, c->pos0 + c->n, c->pos0 + begin);
    const bt_err e = bt_pkg_find_row(&row, o->c.pkg, 1, last.rows, c->pos0 + c->n, fault);
    if (e < 0) return e;
    const program *p = &o->program[row->program[c->out == BT_PREFILL_ALL ? BT_PKG_OUT_ALL : BT_PKG_OUT_LAST]];
    const bt_schedule_plan s = {.policy = o->c.policy,
                                .stage = p->as_stage,
                                .stages = p->stages,
                                .chunks = chunks,
                                .window = BT_OVERLAP_WINDOW,
                                .cost_ns = cost,
                                .ud = o};
    return bt_schedule_init(&o->schedule, &s, fault);
}

bt_err bt_overlap_run(bt_overlap *o, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                      const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault)
{
    call *c = &o->call;
    pthread_mutex_lock(&o->lock);
    *c = (call){.kv = kv, .ids = ids, .n = n, .pos0 = pos0, .hooks = hooks, .logits = logits, .out = out};
    c->result = plan(o, &c->fault);
    if (c->result == BT_OK) {
        prepare(o);
        o->is_idle = false;
        o->is_running = true;
        pthread_cond_broadcast(&o->changed);
        drive(o, BT_SCHEDULE_NPU, !o->has_thread);
        while (o->has_thread && !o->is_idle) pthread_cond_wait(&o->changed, &o->lock);
        o->is_running = false;
        if (bt_schedule_is_done(&o->schedule)) tell(o);
    }
    bt_err e = c->result;
    if (e < 0) (void)bt_fail(fault, e, "%s", c->fault.text);
    else if (!bt_schedule_is_done(&o->schedule)) e = bt_fail(fault, BT_ECANCEL, "cancelled");
    else e = bt_overflow_fail(&c->overflow, kv->elem_bytes, fault);
    if (e == BT_OK && c->is_paused) e = bt_prefill_paused(hooks, pos0 + c->begun_tokens, fault);
    pthread_mutex_unlock(&o->lock);
    return e;
}

/* ---- its life ---- */

static bt_err start_thread(bt_overlap *o, bt_fault *fault)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals belong to the thread with the event loop */
    const int err = pthread_create(&o->thread, NULL, companion_thread, o);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    o->has_thread = err == 0;
    return err ? bt_fail_thread(fault, "the thread of the companion", err) : BT_OK;
}

bt_err bt_overlap_new(bt_overlap **ret, const bt_overlap_config *config, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(config->pkg);
    bt_err e;
    bt_overlap *o = calloc(1, sizeof *o);
    if (!o) return bt_fail(fault, BT_ENOMEM, "out of memory making an engine");
    o->c = *config;
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    if ((e = find_programs(o, fault)) < 0) goto out;
    for (size_t i = 0; i < BT_OVERLAP_WINDOW; i++) {
        if ((e = bt_exec_steps_new(&o->slot[i].steps, config->pkg, fault)) < 0) goto out;
        if ((e = bt_chunks_map(&o->slot[i].arena, h->arena_bytes, fault)) < 0) goto out;
    }
    const size_t beside = config->threads / 2,
                 threads[BT_SCHEDULE_ENGINES] = {config->threads - beside, beside ? beside : 1};
    for (int i = 0; i < BT_SCHEDULE_ENGINES; i++) {
        if ((e = bt_pool_new(&o->pool[i], threads[i], fault)) < 0) goto out;
        if ((e = bt_exec_new(&o->exec[i], config->pkg, config->kernels, o->pool[i], fault)) < 0) goto out;
    }
    if (beside && (e = start_thread(o, fault)) < 0) goto out;
    *ret = o;
    o = NULL;
out:
    bt_overlap_free(o);
    return e;
}

void bt_overlap_free(bt_overlap *o)
{
    if (!o) return;
    if (o->has_thread) {
        pthread_mutex_lock(&o->lock);
        o->is_over = true;
        pthread_cond_broadcast(&o->changed);
        pthread_mutex_unlock(&o->lock);
        pthread_join(o->thread, NULL);
    }
    for (int i = 0; i < BT_SCHEDULE_ENGINES; i++) {
        bt_exec_free(o->exec[i]);
        bt_pool_free(o->pool[i]);
    }
    for (size_t i = 0; i < BT_OVERLAP_WINDOW; i++) {
        bt_exec_steps_free(o->slot[i].steps);
        bt_chunks_done(&o->slot[i].arena);
    }
    for (uint32_t i = 0; o->program && i < bt_pkg_header_of(o->c.pkg)->programs.count; i++) {
        free(o->program[i].stage);
        free(o->program[i].as_stage);
        free(o->program[i].macs);
    }
    free(o->program);
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

void bt_overlap_add(const bt_overlap *o, bt_exec_stats *stats, uint64_t *rows)
{
    for (int i = 0; i < BT_SCHEDULE_ENGINES; i++) {
        const bt_exec_stats s = bt_exec_stats_of(o->exec[i]);
        stats->npu_int16_macs += s.npu_int16_macs;
        stats->npu_float_macs += s.npu_float_macs;
        stats->npu_macs += s.npu_macs;
        stats->companion_macs += s.companion_macs;
        stats->tile_padding_macs += s.tile_padding_macs;
        stats->shadow_entries += s.shadow_entries;
        stats->masked_macs += s.masked_macs;
        stats->expert_rows += s.expert_rows;
        stats->expert_padding_rows += s.expert_padding_rows;
        stats->sparse_rows += s.sparse_rows;
        stats->dense_rows += s.dense_rows;
        stats->batch_padding_rows += s.batch_padding_rows;
        stats->kv_bytes += s.kv_bytes;
    }
    *rows += o->rows;
}
