#ifndef BT_TOOLS_SEQUENCES_H
#define BT_TOOLS_SEQUENCES_H
#include "kv/kv_pages.h"
#include "model/model.h"

/* Sequences of one length for a measurement: their KV pages, and room for what an engine makes of them. */
typedef struct tool_sequences {
    bt_kv_pages *pages;
    size_t count, vocab, logits_rows;
    bt_kv_seq *seq;   /* [count] */
    bt_kv_view *view; /* [count] */
    int32_t *ids;     /* [tokens] of a made-up prompt, the same for every model of this vocabulary */
    float *logits;    /* [logits_rows, V] */
} tool_sequences;

/* Pages for `count` sequences of `tokens` each. elem_bytes: of the engine that fills them. tool_sequences_close also
 * after a failure; zeros are fine. BT_ENOMEM, BT_ELIMIT. */
bt_err tool_sequences_open(tool_sequences *ret, const bt_model *m, uint32_t elem_bytes, size_t count, size_t tokens,
                           size_t logits_rows, bt_fault *fault);
void tool_sequences_close(tool_sequences *s);
#endif
