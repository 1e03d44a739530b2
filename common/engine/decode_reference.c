/* The reference: the oracle of common/ref between pages of f32. It takes the rows of the sequence
 * from its pages at every step, so that it holds no state that could differ from them. */
#include "engine/decode_backend.h"
#include "ref/ref_pages.h"

#include <stdbool.h>
#include <stdlib.h>

typedef struct reference_state {
    size_t vocab;
    uint64_t kv_bytes;
    bt_ref *ref;
    bt_ref_kv *kv;
} reference_state;

static void reference_free(void *state)
{
    reference_state *s = state;
    if (!s) return;
    bt_ref_kv_free(s->kv);
    bt_ref_free(s->ref);
    free(s);
}

static bt_err reference_load(void **ret, const bt_model *m, const bt_decode_config *config, bt_fault *fault)
{
    bt_err e;
    reference_state *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "out of memory making an engine");
    if ((e = bt_ref_new(&s->ref, m, config->pool, fault)) < 0) goto out;
    if ((e = bt_ref_kv_new(&s->kv, s->ref, config->ctx_tokens, fault)) < 0) goto out;
    s->vocab = m->hp.vocab;
    *ret = s;
    s = NULL;
out:
    reference_free(s);
    return e;
}

static bt_err reference_step(void *state, const bt_decode_seq *seq, size_t n, bt_overflow *any,
                             const atomic_bool *cancel, float *logits, bt_fault *fault)
{
    reference_state *s = state;
    for (size_t i = 0; i < n; i++) {
        bt_ref_pages_load(s->kv, seq[i].kv, 0, seq[i].pos);
        for (uint32_t r = 0; r < seq[i].count; r++) {
            const bool is_wanted = r + seq[i].out >= seq[i].count;
            const bt_err e = bt_ref_forward(s->ref, s->kv, &seq[i].tokens[r], 1, seq[i].pos + r,
                                            is_wanted ? logits : NULL, false, cancel, fault);
            if (e < 0) return e;
            if (is_wanted) logits += s->vocab;
        }
        bt_ref_pages_store(seq[i].kv, s->kv, seq[i].pos, seq[i].count,
                           seq[i].overflow ? seq[i].overflow : any);
        s->kv_bytes += seq[i].count * 2 * seq[i].kv->layers * seq[i].kv->kv_heads * seq[i].kv->head_bytes;
    }
    return BT_OK;
}

static const char *reference_isa(const void *state)
{
    (void)state;
    return "ref";
}
static const char *reference_weights(const void *state)
{
    (void)state;
    return "f32";
}
static uint64_t reference_weight_bytes(const void *state)
{
    (void)state;
    return 0;
}
static uint64_t reference_kv_bytes(const void *state) { return ((const reference_state *)state)->kv_bytes; }

const bt_decode_backend bt_decode_reference = {
    .facts = {.name = "reference", .kv_elem_bytes = {4, 0}},
    .load = reference_load,
    .step = reference_step,
    .isa = reference_isa,
    .weights = reference_weights,
    .weight_bytes = reference_weight_bytes,
    .kv_bytes_written = reference_kv_bytes,
    .free = reference_free,
};
