/* The reference: the whole prompt at once, or in pieces where it may pause, through the oracle of common/ref,
 * then its f32 rows into the pages. */
#include "engine/overflow.h"
#include "engine/prefill_backend.h"
#include "ref/ref_pages.h"

#include <stdlib.h>

enum { PIECE_TOKENS = 256 };

typedef struct reference_state {
    bt_ref *ref;
    bt_ref_kv *kv;
    uint32_t layers, vocab;
    uint64_t rows;
} reference_state;

static void reference_free(void *state)
{
    reference_state *s = state;
    if (!s) return;
    bt_ref_kv_free(s->kv);
    bt_ref_free(s->ref);
    free(s);
}

static bt_err reference_load(void **ret, const bt_model *m, const bt_prefill_config *config, bt_fault *fault)
{
    bt_err e;
    reference_state *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory making an engine");
    s->layers = m->hp.layers;
    s->vocab = m->hp.vocab;
    if ((e = bt_ref_new(&s->ref, m, config->pool, fault)) < 0) goto out;
    if ((e = bt_ref_kv_new(&s->kv, s->ref, config->ctx_tokens, fault)) < 0) goto out;
    *ret = s;
    s = NULL;
out:
    reference_free(s);
    return e;
}

/* Rows before pos are in s->kv. */
static bt_err run_piece(reference_state *s, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos,
                        const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault)
{
    bt_overflow overflow = {0};
    bt_prefill_tell_chunk(hooks, pos, n, false);
    bt_err e = bt_ref_forward(s->ref, s->kv, ids, n, pos, logits, out == BT_PREFILL_ALL,
                              hooks ? hooks->cancel : NULL, fault);
    if (e < 0) return e;
    bt_ref_pages_store(kv, s->kv, pos, n, &overflow);
    if ((e = bt_overflow_fail(&overflow, kv->elem_bytes, fault)) < 0) return e;
    for (uint32_t l = 0; hooks && hooks->on_kv && l < s->layers; l++) hooks->on_kv(hooks->ud, l, pos, n);
    bt_prefill_tell_chunk(hooks, pos, n, true);
    s->rows += n;
    return BT_OK;
}

/* The whole prompt at once; in pieces where it may be asked to pause. */
static bt_err reference_run(void *state, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                            const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault)
{
    reference_state *s = state;
    const size_t most = hooks && hooks->pause ? PIECE_TOKENS : n;
    bt_err e = BT_OK;
    bt_ref_pages_load(s->kv, kv, 0, pos0);
    for (size_t at = 0, piece; at < n && e == BT_OK; at += piece) {
        float *of = out == BT_PREFILL_ALL ? logits + at * s->vocab : logits;
        piece = n - at < most ? n - at : most;
        if (at && bt_prefill_pauses(hooks, pos0 + at)) return bt_prefill_paused(hooks, pos0 + at, fault);
        e = run_piece(s, kv, ids + at, piece, pos0 + at, hooks, of, out, fault);
    }
    return e;
}

static bt_report_work reference_work(const void *state)
{
    return (bt_report_work){.rows = ((const reference_state *)state)->rows};
}

static bt_report_engine reference_about(const void *state)
{
    (void)state;
    return (bt_report_engine){.quant = "f32", .shape_policy = "whole", .profile = "", .weights = "f32"};
}

static const char *reference_isa(const void *state)
{
    (void)state;
    return "ref";
}

const bt_prefill_backend bt_prefill_reference = {
    .facts = {.name = "reference", .kv_elem_bytes = {4, 0}},
    .load = reference_load,
    .run = reference_run,
    .work = reference_work,
    .about = reference_about,
    .isa = reference_isa,
    .free = reference_free,
};
