#ifndef BT_TOOLS_PERPLEXITY_SIDE_H
#define BT_TOOLS_PERPLEXITY_SIDE_H
#include "decode-node/engine/engine.h"
#include "kv/kv_dtype.h"
#include "kv/kv_pages.h"
#include "prefill-node/engine.h"

/* One engine of a measurement, with the KV pages and the logits of one window: an engine of the prefill node (npu, host,
 * reference), or the decode node's ("decode"), whose rows come in steps of several. */
typedef struct tool_side_config {
    const char *isa;
    bt_obtain_want want;                   /* npu */
    const char *weights;                    /* decode: dc_engine_config */
    uint32_t kv_elem_bytes;                 /* 0 f16, 1 int8; the reference has f32 whatever this says */
    size_t ctx_tokens;                      /* of one window */
    bt_pool *pool;                          /* decode; borrowed */
    size_t threads;                         /* the others */
    bool quiet;                             /* no progress on stderr */
} tool_side_config;

typedef struct tool_side {
    pf_engine *pf;                          /* one of the two */
    dc_engine *dc;
    bt_kv_pages *pages; bt_kv_seq seq; bt_kv_view view;
    float *logits;                          /* [ctx_tokens, V] of the last window */
} tool_side;

/* tool_side_close also after a failure; zeros are fine. */
bt_err tool_side_open(tool_side *ret, const bt_model *m, const tool_side_config *c, const char *engine, bt_fault *fault);
void   tool_side_close(tool_side *s);
/* Runs ids[ctx_tokens] from position 0. */
bt_err tool_side_run(tool_side *s, const int32_t *ids, size_t ctx_tokens, size_t vocab, bt_fault *fault);
#endif
