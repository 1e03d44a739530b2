/* Prompts that run together, run after run: who takes part, and whether that saves anything. */
#include "engine/together.h"

#include <stdlib.h>
#include <string.h>

bt_err bt_together_init(bt_together *ret, const bt_shapes *shapes, bt_fault *fault)
{
    bt_shapes largest;
    bt_together t = {.most = 1};
    bt_shapes_together(&largest, shapes, SIZE_MAX);
    t.most = largest.shape[0].batch;
    t.at = calloc(t.most, sizeof *t.at);
    t.chunk = calloc(t.most, sizeof *t.chunk);
    t.left = calloc(t.most, sizeof *t.left);
    t.overflow = calloc(t.most, sizeof *t.overflow);
    if (!t.at || !t.chunk || !t.left || !t.overflow) {
        bt_together_done(&t);
        return bt_fail(fault, BT_ENOMEM, "%zu prompts together", t.most);
    }
    *ret = t;
    return BT_OK;
}

void bt_together_done(bt_together *t)
{
    free(t->at);
    free(t->chunk);
    free(t->left);
    free(t->overflow);
    *t = (bt_together){0};
}

/* The next prompts that have tokens left, at most `places`, as chunks without rows yet. Those that are
 * cancelled end here. */
static size_t list(const bt_together *t, bt_prefill_seq *seq, size_t n, size_t places)
{
    size_t chunks = 0;
    for (size_t i = 0; i < n && chunks < places; i++) {
        bt_prefill_seq *s = &seq[i];
        if (s->result < 0 || t->at[i] == s->n) continue;
        if (s->hooks && s->hooks->cancel && atomic_load_explicit(s->hooks->cancel, memory_order_relaxed)) {
            s->result = bt_fail(&s->fault, BT_ECANCEL, "cancelled");
            continue;
        }
        t->left[chunks] = (bt_shapes_left){s->pos0 + t->at[i], s->pos0 + s->n};
        t->chunk[chunks++] =
            (bt_chunk){.kv = s->kv,       .ids = s->ids + t->at[i], .pos = s->pos0 + t->at[i],
                       .hooks = s->hooks, .logits = s->logits,      .overflow = &t->overflow[i]};
    }
    return chunks;
}

static void set_rows(const bt_together *t, size_t chunks, size_t rows)
{
    for (size_t i = 0; i < chunks; i++) {
        const size_t left = t->left[i].end - t->left[i].begin;
        t->chunk[i].rows = rows;
        t->chunk[i].valid = left < rows ? left : rows;
        t->chunk[i].out = left <= rows ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE;
    }
}

/* After a run: the chunks are those of the first prompts that had tokens left, in their order. */
static void advance(const bt_together *t, bt_prefill_seq *seq, size_t n, size_t chunks, bt_err e,
                    const bt_fault *fault)
{
    for (size_t i = 0, c = 0; i < n && c < chunks; i++) {
        if (seq[i].result < 0 || t->at[i] == seq[i].n) continue;
        if (e < 0) seq[i].result = e, seq[i].fault = *fault;
        else seq[i].result = bt_overflow_fail(&t->overflow[i], seq[i].kv->elem_bytes, &seq[i].fault);
        if (seq[i].result == BT_OK) t->at[i] += t->chunk[c].valid;
        c++;
    }
}

void bt_together_run(const bt_together *t, const bt_shapes *shapes, bt_prefill_seq *seq, size_t n,
                     bt_together_fn *fn, void *ud)
{
    bt_fault fault = {""};
    bt_shapes alone, of;
    bool is_apart = false; /* no program of a batch reaches as far as they are */
    bt_shapes_together(&alone, shapes, 1);
    memset(t->at, 0, n * sizeof *t->at);
    for (size_t i = 0; i < n; i++) bt_overflow_clear(&t->overflow[i]);
    for (size_t chunks; (chunks = list(t, seq, n, is_apart ? 1 : n)) > 0;) {
        size_t saved = 0; /* rows of the next chunks, each alone */
        bt_shapes_together(&of, shapes, chunks);
        if (chunks > of.shape[0].batch) chunks = of.shape[0].batch;
        for (size_t i = 0; i < chunks; i++)
            saved += alone.shape[0].batch * bt_shapes_next_together(&alone, &t->left[i], 1);
        size_t rows = bt_shapes_next_together(&of, t->left, chunks);
        if (chunks > 1 && of.shape[0].batch * rows > saved) chunks = 1;
        if (chunks == 1) {
            of = alone;
            rows = bt_shapes_next_together(&alone, t->left, 1);
        }
        set_rows(t, chunks, rows);
        const bt_err e = fn(ud, of.shape[0].batch, rows, t->chunk, chunks, &fault);
        is_apart = is_apart || (e == BT_ELIMIT && chunks > 1);
        if (e != BT_ELIMIT || chunks == 1) advance(t, seq, n, chunks, e, &fault);
    }
}
