/* Chooses an engine by name; holds what all share: limits, counts, the check of a call. */
#include "engine/decode.h"
#include "engine/decode_backend.h"
#include "engine/limits.h"
#include "engine/overflow.h"

#include <stdlib.h>

struct bt_decode {
    const bt_decode_backend *backend;
    void *state;
    const bt_model *model;
    size_t ctx_tokens, rows_max;
    uint32_t kv_elem_bytes;
    bt_decode_stats stats;
};

static bt_err open_engine(bt_decode *d, bt_decode_config *c, bt_fault *fault)
{
    const bt_decode_backend *b = bt_decode_backend_of(c->engine);
    if (!b) return bt_engine_unknown(c->engine, bt_engine_decode_names, fault);
    d->backend = b;
    if (!c->rows_max) c->rows_max = 1;
    if (c->rows_max > BT_DECODE_MAX_ROWS)
        return bt_fail(fault, BT_EARG, "%zu rows in a step; 1 to %d are possible", c->rows_max,
                       BT_DECODE_MAX_ROWS);
    bt_err e = bt_limits_resolve(&c->kv_elem_bytes, &c->ctx_tokens, &b->facts, &d->model->hp,
                                 c->kv_memory_bytes, fault);
    d->ctx_tokens = c->ctx_tokens;
    d->rows_max = c->rows_max;
    d->kv_elem_bytes = c->kv_elem_bytes;
    if (e == BT_OK) e = b->load(&d->state, d->model, c, fault);
    if (e == BT_OK) d->stats.weight_bytes = b->weight_bytes(d->state);
    return e;
}

bt_err bt_decode_new(bt_decode **ret, const bt_model *m, const bt_decode_config *config, bt_fault *fault)
{
    bt_decode_config c = *config;
    bt_decode *d = calloc(1, sizeof *d);
    if (!d) return bt_fail(fault, BT_ENOMEM, "out of memory making an engine");
    d->model = m;
    const bt_err e = open_engine(d, &c, fault);
    if (e < 0) bt_decode_free(d);
    else *ret = d;
    return e;
}

void bt_decode_free(bt_decode *d)
{
    if (!d) return;
    if (d->backend) d->backend->free(d->state);
    free(d);
}

const char *bt_decode_name(const bt_decode *d) { return d->backend->facts.name; }
const char *bt_decode_isa(const bt_decode *d) { return d->backend->isa(d->state); }
const char *bt_decode_weights(const bt_decode *d) { return d->backend->weights(d->state); }
uint32_t bt_decode_kv_elem_bytes(const bt_decode *d) { return d->kv_elem_bytes; }
const char *bt_decode_quant(const bt_decode *d)
{
    return d->backend->quant ? d->backend->quant(d->state) : bt_decode_weights(d);
}
const bt_weights *bt_decode_shared_weights(const bt_decode *d)
{
    return d->backend->shared_weights ? d->backend->shared_weights(d->state) : NULL;
}
const bt_pkg *bt_decode_shared_package(const bt_decode *d)
{
    return d->backend->shared_package ? d->backend->shared_package(d->state) : NULL;
}
size_t bt_decode_ctx_tokens(const bt_decode *d) { return d->ctx_tokens; }
size_t bt_decode_vocab(const bt_decode *d) { return d->model->hp.vocab; }
size_t bt_decode_rows_max(const bt_decode *d) { return d->rows_max; }
bt_decode_stats bt_decode_stats_of(const bt_decode *d) { return d->stats; }
bt_report_work bt_decode_work(const bt_decode *d)
{
    return d->backend->work ? d->backend->work(d->state) : (bt_report_work){0};
}

static bt_err check(const bt_decode *d, const bt_decode_seq *s, bt_fault *fault)
{
    const bt_hparams *hp = &d->model->hp;
    const bt_kv_view *kv = s->kv;
    const size_t room = kv->tokens_capacity < d->ctx_tokens ? kv->tokens_capacity : d->ctx_tokens;
    if (s->count < 1 || s->out > s->count)
        return bt_fail(fault, BT_EARG,
                       "%u tokens of a sequence in a step, %u of them with logits: at least 1, and no more "
                       "logits than tokens",
                       s->count, s->out);
    if (s->pos > room || s->count > room - s->pos)
        return bt_fail(fault, BT_ELIMIT,
                       "%u tokens from position %zu do not fit the %zu positions of the sequence", s->count,
                       s->pos, room);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->tokens[i] < 0 || (uint32_t)s->tokens[i] >= hp->vocab)
            return bt_fail(fault, BT_EARG, "token id %d: the vocabulary has %u", s->tokens[i], hp->vocab);
    return bt_limits_view(kv, hp, d->kv_elem_bytes, fault);
}

static void look_at_logits(const bt_decode *d, const bt_decode_seq *seq, size_t n, bt_overflow *any,
                           const float *logits)
{
    for (const bt_decode_seq *s = seq; s < seq + n; s++) {
        bt_overflow_look_at_logits(s->overflow ? s->overflow : any, s->pos + s->count - s->out, logits,
                                   s->out, d->model->hp.vocab);
        if (s->out) logits += (size_t)s->out * d->model->hp.vocab;
    }
}

bt_err bt_decode_step(bt_decode *d, const bt_decode_seq *seq, size_t n, const atomic_bool *cancel,
                      float *logits, bt_fault *fault)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        const bt_err e = check(d, &seq[i], fault);
        if (e < 0) return e;
        rows += seq[i].count;
    }
    if (rows > d->rows_max)
        return bt_fail(fault, BT_EARG, "%llu rows in a step; at most %zu are possible",
                       (unsigned long long)rows, d->rows_max);
    bt_overflow any = {0};
    bt_err e = d->backend->step(d->state, seq, n, &any, cancel, logits, fault);
    d->stats.kv_bytes_written = d->backend->kv_bytes_written(d->state);
    if (e == BT_OK) {
        look_at_logits(d, seq, n, &any, logits);
        e = bt_overflow_fail(&any, d->kv_elem_bytes, fault);
    }
    if (e < 0) return e;
    d->stats.steps++;
    d->stats.read_bytes = d->stats.steps * d->stats.weight_bytes +
                          (d->backend->more_bytes ? d->backend->more_bytes(d->state) : 0);
    d->stats.rows += rows;
    return BT_OK;
}
