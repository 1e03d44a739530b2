/* The reference back end: the oracle of common/ref between pages of f32. It takes the rows of the sequence
 * from its pages at every step, so that it holds no state that could differ from them. */
#include "decode-node/engine/engine_backend.h"
#include "ref/ref_pages.h"

#include <stdlib.h>

typedef struct reference_state {
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

static bt_err reference_load(void **ret, const bt_model *m, const dc_engine_config *config, bt_pool *pool,
                             bt_fault *fault)
{
    bt_err e;
    reference_state *s = calloc(1, sizeof *s);
    if (!s) return bt_fail(fault, BT_ENOMEM, "making an engine");
    if ((e = bt_ref_new(&s->ref, m, pool, fault)) < 0) goto out;
    if ((e = bt_ref_kv_new(&s->kv, s->ref, config->ctx_tokens, fault)) < 0) goto out;
    *ret = s;
    s = NULL;
out:
    reference_free(s);
    return e;
}

static bt_err reference_step(void *state, const bt_kv_view *kv, int32_t token, size_t pos,
                             const atomic_bool *cancel, float *logits, bt_fault *fault)
{
    reference_state *s = state;
    bt_ref_pages_load(s->kv, kv, 0, pos);
    const bt_err e = bt_ref_forward(s->ref, s->kv, &token, 1, pos, logits, false, cancel, fault);
    if (e < 0) return e;
    bt_ref_pages_store(kv, s->kv, pos, 1);
    return BT_OK;
}

static const char *reference_isa(const void *state)
{
    (void)state;
    return "ref";
}

const dc_engine_backend dc_engine_reference = {
    "reference", 4, reference_load, reference_step, reference_isa, reference_free,
};
