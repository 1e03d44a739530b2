/* See perplexity_side.h. */
#include "tools/perplexity_side.h"
#include "base/num.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

enum { DECODE_ROWS = 128 };                 /* of one step */

static bt_err open_engine(tool_side *s, const bt_model *m, const tool_side_config *c, const char *engine, bt_fault *fault)
{
    tool_compiling show = { .quiet = c->quiet };
    const dc_engine_config dc = { .isa = c->isa, .weights = c->weights, .kv_elem_bytes = c->kv_elem_bytes, .pool = c->pool,
                                  .rows_max = DECODE_ROWS, .ctx_tokens = c->ctx_tokens };
    const pf_engine_config pf = { .engine = engine, .isa = c->isa, .want = c->want, .for_perplexity = true, .threads = c->threads,
                                  .kv_elem_bytes = strcmp(engine, "reference") == 0 ? 0 : c->kv_elem_bytes,
                                  .ctx_tokens = c->ctx_tokens, .progress = tool_progress_compiling, .progress_ud = &show };
    return strcmp(engine, "decode") == 0 ? dc_engine_new(&s->dc, m, &dc, fault) : pf_engine_new(&s->pf, m, &pf, fault);
}

bt_err tool_side_open(tool_side *s, const bt_model *m, const tool_side_config *c, const char *engine, bt_fault *fault)
{
    size_t bytes;
    bt_err e = open_engine(s, m, c, engine, fault);
    if (e == BT_OK)
        e = bt_kv_pages_new(&s->pages, m->hp.layers, m->hp.kv_heads, m->hp.head_dim,
                            s->dc ? dc_engine_kv_elem_bytes(s->dc) : pf_engine_kv_elem_bytes(s->pf), BT_KV_PAGES_USUAL_TOKENS, c->ctx_tokens, fault);
    if (e == BT_OK) e = bt_kv_pages_reserve(s->pages, &s->seq, c->ctx_tokens, fault);
    if (e < 0) return e;
    bt_kv_pages_view(&s->view, s->pages, &s->seq);
    if (!bt_mul_size(&bytes, c->ctx_tokens, (size_t)m->hp.vocab * sizeof(float)) || !(s->logits = malloc(bytes)))
        return bt_fail(fault, BT_ENOMEM, "the logits of %zu tokens", c->ctx_tokens);
    return BT_OK;
}

void tool_side_close(tool_side *s)
{
    if (s->pages) bt_kv_pages_release(s->pages, &s->seq);
    bt_kv_pages_free(s->pages);
    pf_engine_free(s->pf);
    dc_engine_free(s->dc);
    free(s->logits);
}

bt_err tool_side_run(tool_side *s, const int32_t *ids, size_t ctx_tokens, size_t vocab, bt_fault *fault)
{
    if (s->pf) return pf_engine_prefill(s->pf, &s->view, ids, ctx_tokens, 0, NULL, s->logits, BT_PREFILL_ALL, fault);
    bt_err e = BT_OK;
    for (size_t pos = 0; e == BT_OK && pos < ctx_tokens; pos += DECODE_ROWS) {
        const uint32_t count = (uint32_t)(ctx_tokens - pos < DECODE_ROWS ? ctx_tokens - pos : DECODE_ROWS);
        const dc_engine_seq rows = { .kv = &s->view, .pos = pos, .tokens = ids + pos, .count = count, .out = count };
        e = dc_engine_step(s->dc, &rows, 1, NULL, s->logits + pos * vocab, fault);
    }
    return e;
}
