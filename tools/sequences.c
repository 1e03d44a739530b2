/* See sequences.h. */
#include "tools/sequences.h"
#include "base/num.h"

#include <stdlib.h>

bt_err tool_sequences_open(tool_sequences *ret, const bt_model *m, uint32_t elem_bytes, size_t count,
                           size_t tokens, size_t logits_rows, bt_fault *fault)
{
    const bt_hparams *hp = &m->hp;
    const size_t page = BT_KV_PAGES_USUAL_TOKENS;
    size_t all, floats;
    *ret = (tool_sequences){.vocab = hp->vocab, .logits_rows = logits_rows};
    if (!bt_mul_size(&all, count, (tokens + page - 1) / page * page) ||
        !bt_mul_size(&floats, logits_rows, hp->vocab))
        return bt_fail(fault, BT_ELIMIT,
                       "%zu sequences of %zu tokens, and %zu rows of logits, do not fit the address space",
                       count, tokens, logits_rows);
    bt_err e =
        bt_kv_pages_new(&ret->pages, hp->layers, hp->kv_heads, hp->head_dim, elem_bytes, page, all, fault);
    if (e < 0) return e;
    ret->count = count;
    ret->seq = calloc(count, sizeof *ret->seq);
    ret->view = calloc(count, sizeof *ret->view);
    ret->ids = calloc(tokens, sizeof *ret->ids);
    ret->logits = calloc(floats, sizeof *ret->logits);
    if (!ret->seq || !ret->view || !ret->ids || !ret->logits)
        return bt_fail(fault, BT_ENOMEM, "out of memory for %zu sequences and the logits of %zu tokens",
                       count, logits_rows);
    for (size_t i = 0; i < tokens; i++) ret->ids[i] = (int32_t)((i * 7919 + 13) % hp->vocab);
    for (size_t i = 0; e == BT_OK && i < count; i++) {
        e = bt_kv_pages_reserve(ret->pages, &ret->seq[i], tokens, fault);
        if (e == BT_OK) bt_kv_pages_view(&ret->view[i], ret->pages, &ret->seq[i]);
    }
    return e;
}

void tool_sequences_close(tool_sequences *s)
{
    for (size_t i = 0; i < s->count && s->seq; i++) bt_kv_pages_release(s->pages, &s->seq[i]);
    bt_kv_pages_free(s->pages);
    free(s->seq);
    free(s->view);
    free(s->ids);
    free(s->logits);
    *s = (tool_sequences){0};
}
