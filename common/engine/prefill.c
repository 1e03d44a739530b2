/* Chooses an engine by name; holds what all share: threads, limits, the check of a call. */
#include "engine/prefill.h"
#include "engine/limits.h"
#include "engine/overflow.h"
#include "engine/prefill_backend.h"
#include "npu/pkg/attention.h"

#include <stdlib.h>

struct bt_prefill {
    const bt_prefill_backend *backend;
    void *state;
    const bt_model *model;
    bt_pool *own_pool; /* NULL: the caller's is used */
    uint32_t kv_elem_bytes;
    size_t ctx_tokens;
};

static bt_err check_config(const bt_engine_facts *f, const bt_prefill_config *c, bt_fault *fault)
{
    bt_attention attention;
    if (c->schedule != BT_SCHEDULE_SERIAL && !f->has_schedules)
        return bt_fail(fault, BT_EARG,
                       "--schedule %s does not fit engine '%s', whose chunks run one by one: leave "
                       "--schedule out, or take --engine npu",
                       bt_engine_schedules[c->schedule], f->name);
    const bt_err e = bt_attention_parse(&attention, c->want.attention, fault);
    if (e < 0 || !attention.ratio_ppm || f->is_sparse) return e;
    return bt_fail(fault, BT_EARG,
                   "--attention %s does not fit engine '%s', which attends densely: leave --attention out, "
                   "or take --engine npu",
                   c->want.attention, f->name);
}

static bt_err open_engine(bt_prefill *p, bt_prefill_config *c, bt_fault *fault)
{
    const bt_prefill_backend *b = bt_prefill_backend_of(c->engine);
    if (!b) return bt_engine_unknown(c->engine, bt_engine_prefill_names, fault);
    bt_err e = check_config(&b->facts, c, fault);
    if (e < 0) return e;
    p->backend = b;
    e = bt_limits_resolve(&c->kv_elem_bytes, &c->ctx_tokens, &b->facts, &p->model->hp, c->kv_memory_bytes,
                          fault);
    if (e == BT_OK && !c->pool) {
        e = bt_pool_new(&p->own_pool, c->threads, fault);
        c->pool = p->own_pool;
    }
    p->kv_elem_bytes = c->kv_elem_bytes;
    p->ctx_tokens = c->ctx_tokens;
    return e < 0 ? e : b->load(&p->state, p->model, c, fault);
}

bt_err bt_prefill_new(bt_prefill **ret, const bt_model *m, const bt_prefill_config *config, bt_fault *fault)
{
    bt_prefill_config c = *config;
    bt_prefill *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory making an engine");
    p->model = m;
    const bt_err e = open_engine(p, &c, fault);
    if (e < 0) bt_prefill_free(p);
    else *ret = p;
    return e;
}

void bt_prefill_free(bt_prefill *p)
{
    if (!p) return;
    if (p->backend) p->backend->free(p->state);
    bt_pool_free(p->own_pool);
    free(p);
}

const char *bt_prefill_isa(const bt_prefill *p) { return p->backend->isa(p->state); }
uint32_t bt_prefill_kv_elem_bytes(const bt_prefill *p) { return p->kv_elem_bytes; }
size_t bt_prefill_ctx_tokens(const bt_prefill *p) { return p->ctx_tokens; }
bt_report_work bt_prefill_work(const bt_prefill *p) { return p->backend->work(p->state); }

bt_report_engine bt_prefill_about(const bt_prefill *p)
{
    bt_report_engine about = p->backend->about(p->state);
    about.name = p->backend->facts.name;
    return about;
}

const bt_pkg *bt_prefill_pkg(const bt_prefill *p)
{
    return p->backend->pkg ? p->backend->pkg(p->state) : NULL;
}

size_t bt_prefill_grid_rows(const bt_prefill *p)
{
    const bt_pkg *pkg = bt_prefill_pkg(p);
    const uint32_t rows = pkg ? bt_attention_of(bt_pkg_header_of(pkg)).rows : 0;
    return rows ? rows : 1;
}

static bt_err check(const bt_prefill *p, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                    bool has_logits, bt_fault *fault)
{
    const bt_hparams *hp = &p->model->hp;
    const size_t room = kv->tokens_capacity;
    if (n < 1 || !has_logits)
        return bt_fail(fault, BT_EARG, "a prompt of %zu tokens: at least 1 is needed, and room for logits",
                       n);
    if (pos0 > room || n > room - pos0)
        return bt_fail(fault, BT_EARG, "%zu tokens from position %zu do not fit pages for %zu", n, pos0,
                       room);
    if (pos0 > p->ctx_tokens || n > p->ctx_tokens - pos0)
        return bt_fail(fault, BT_ELIMIT, "%zu tokens from position %zu: the context holds %zu", n, pos0,
                       p->ctx_tokens);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= hp->vocab)
            return bt_fail(fault, BT_EARG, "token id %d at %zu: the vocabulary has %u", ids[i], i, hp->vocab);
    return bt_limits_view(kv, hp, p->kv_elem_bytes, fault);
}

static bt_err check_logits(const bt_prefill *p, const bt_kv_view *kv, size_t pos0, const float *logits,
                           size_t rows, bt_fault *fault)
{
    bt_overflow overflow = {0};
    bt_overflow_look_at_logits(&overflow, pos0, logits, rows, p->model->hp.vocab);
    return bt_overflow_fail(&overflow, kv->elem_bytes, fault);
}

bt_err bt_prefill_run(bt_prefill *p, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                      const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault)
{
    bt_err e = check(p, kv, ids, n, pos0, logits != NULL, fault);
    if (e == BT_OK) e = p->backend->run(p->state, kv, ids, n, pos0, hooks, logits, out, fault);
    if (e == BT_OK && out == BT_PREFILL_ALL) e = check_logits(p, kv, pos0, logits, n, fault);
    else if (e == BT_OK) e = check_logits(p, kv, pos0 + n - 1, logits, 1, fault);
    return e;
}

size_t bt_prefill_batch_max(const bt_prefill *p)
{
    return p->backend->batch_max ? p->backend->batch_max(p->state) : 1;
}

size_t bt_prefill_packed_rows(const bt_prefill *p)
{
    return p->backend->packed_rows ? p->backend->packed_rows(p->state) : 0;
}

void bt_prefill_run_batch(bt_prefill *p, bt_prefill_seq *seq, size_t prompts)
{
    const size_t most = bt_prefill_batch_max(p);
    for (bt_prefill_seq *s = seq; s < seq + prompts; s++)
        s->result = check(p, s->kv, s->ids, s->n, s->pos0, s->logits || most > 1, &s->fault);
    for (size_t at = 0, n; at < prompts; at += n) {
        bt_prefill_seq *s = &seq[at];
        n = prompts - at < most ? prompts - at : most;
        if (n > 1 || (s->result == BT_OK && !s->logits)) p->backend->run_batch(p->state, s, n);
        else if (s->result == BT_OK)
            s->result = p->backend->run(p->state, s->kv, s->ids, s->n, s->pos0, s->hooks, s->logits,
                                        BT_PREFILL_LAST, &s->fault);
    }
    for (bt_prefill_seq *s = seq; s < seq + prompts; s++) {
        if (s->result < 0 || !s->logits) continue;
        if (s->overflow)
            bt_overflow_look_at_logits(s->overflow, s->pos0 + s->n - 1, s->logits, 1, p->model->hp.vocab);
        else s->result = check_logits(p, s->kv, s->pos0 + s->n - 1, s->logits, 1, &s->fault);
    }
}
