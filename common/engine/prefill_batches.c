/* A batch of prompts, run after run: who takes part, and whether that saves anything. */
#include "engine/prefill_batches.h"

#include <stdlib.h>
#include <string.h>

static size_t longest(const bt_shapes *shapes) { return shapes->shape[shapes->shapes - 1].seq; }

bt_err bt_prefill_batches_init(bt_prefill_batches *ret, const bt_shapes *shapes, bool can_pack,
                               bt_fault *fault)
{
    bt_shapes largest;
    bt_prefill_batches t = {.most = 1};
    bt_shapes_batch(&largest, shapes, SIZE_MAX);
    t.most = largest.shape[0].batch;
    t.is_packed = can_pack && t.most == 1 && longest(shapes) > 1;
    if (t.is_packed)
        t.most = longest(shapes) < BT_PREFILL_BATCHES_PACKED ? longest(shapes) : BT_PREFILL_BATCHES_PACKED;
    t.at = calloc(t.most, sizeof *t.at);
    t.chunk = calloc(t.most, sizeof *t.chunk);
    t.left = calloc(t.most, sizeof *t.left);
    t.overflow = calloc(t.most, sizeof *t.overflow);
    if (!t.at || !t.chunk || !t.left || !t.overflow) {
        bt_prefill_batches_done(&t);
        return bt_fail(fault, BT_ENOMEM, "out of memory for a batch of %zu prompts", t.most);
    }
    *ret = t;
    return BT_OK;
}

void bt_prefill_batches_done(bt_prefill_batches *t)
{
    free(t->at);
    free(t->chunk);
    free(t->left);
    free(t->overflow);
    *t = (bt_prefill_batches){0};
}

size_t bt_prefill_batches_packed_rows(const bt_prefill_batches *t, const bt_shapes *shapes)
{
    return t->is_packed ? longest(shapes) : 0;
}

/* The next prompts that have tokens left, at most `places`, as chunks without rows yet. Cancelled prompts end
 * here. */
static size_t list(const bt_prefill_batches *t, bt_prefill_seq *seq, size_t n, size_t places)
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
        t->chunk[chunks++] = (bt_chunk){.kv = s->kv,
                                        .ids = s->ids + t->at[i],
                                        .pos = s->pos0 + t->at[i],
                                        .hooks = s->hooks,
                                        .logits = s->logits,
                                        .overflow = s->overflow ? s->overflow : &t->overflow[i]};
    }
    return chunks;
}

static bt_pkg_out out_of(const bt_chunk *c, size_t left)
{
    return c->valid == left && c->logits ? BT_PKG_OUT_LAST : BT_PKG_OUT_NONE;
}

static void set_rows(const bt_prefill_batches *t, size_t chunks, size_t rows)
{
    for (size_t i = 0; i < chunks; i++) {
        const size_t left = t->left[i].end - t->left[i].begin;
        t->chunk[i].rows = rows;
        t->chunk[i].valid = left < rows ? left : rows;
        t->chunk[i].out = out_of(&t->chunk[i], left);
    }
}

/* Packs prompts one behind the other; returns how many chunks. */
static size_t pack(const bt_prefill_batches *t, const bt_shapes *shapes, size_t chunks, size_t *ret_rows)
{
    size_t used = 0, far = 0, n = 0;
    for (; n < chunks && used < longest(shapes); n++) {
        const size_t left = t->left[n].end - t->left[n].begin, room = longest(shapes) - used;
        const size_t end = t->left[n].begin + (left < room ? left : room);
        used += end - t->left[n].begin;
        if (end > far) far = end;
    }
    if (far < used) far = used;
    const bt_shapes_chunk next = bt_shapes_next(shapes, far, far - used);
    size_t room = next.valid;
    for (n = 0; room > 0 && n < chunks; n++) {
        bt_chunk *c = &t->chunk[n];
        const size_t left = t->left[n].end - t->left[n].begin;
        c->rows = c->valid = left < room ? left : room;
        c->out = out_of(c, left);
        room -= c->valid;
    }
    *ret_rows = next.rows;
    if (n == 1) t->chunk[0].rows = next.rows;
    return n;
}

/* Chooses between a shape for several prompts and the first prompt alone; returns how many chunks, and the
 * shape's batch. */
static size_t choose(const bt_prefill_batches *t, const bt_shapes *shapes, const bt_shapes *alone,
                     size_t chunks, size_t *ret_rows, size_t *ret_batch)
{
    size_t saved = 0; /* rows of the next chunks, each alone */
    bt_shapes of;
    bt_shapes_batch(&of, shapes, chunks);
    if (chunks > of.shape[0].batch) chunks = of.shape[0].batch;
    for (size_t i = 0; i < chunks; i++)
        saved += alone->shape[0].batch * bt_shapes_next_batch(alone, &t->left[i], 1);
    *ret_rows = bt_shapes_next_batch(&of, t->left, chunks);
    *ret_batch = of.shape[0].batch;
    if (chunks > 1 && *ret_batch * *ret_rows > saved) chunks = 1;
    if (chunks == 1) {
        *ret_batch = alone->shape[0].batch;
        *ret_rows = bt_shapes_next_batch(alone, t->left, 1);
    }
    set_rows(t, chunks, *ret_rows);
    return chunks;
}

/* After a run: the chunks are those of the first prompts that had tokens left, in their order. */
static void advance(const bt_prefill_batches *t, bt_prefill_seq *seq, size_t n, size_t chunks, bt_err e,
                    const bt_fault *fault)
{
    for (size_t i = 0, c = 0; i < n && c < chunks; i++) {
        if (seq[i].result < 0 || t->at[i] == seq[i].n) continue;
        if (e < 0) seq[i].result = e, seq[i].fault = *fault;
        else if (!seq[i].overflow)
            seq[i].result = bt_overflow_fail(&t->overflow[i], seq[i].kv->elem_bytes, &seq[i].fault);
        if (seq[i].result == BT_OK) t->at[i] += t->chunk[c].valid;
        c++;
    }
}

void bt_prefill_batches_run(const bt_prefill_batches *t, const bt_shapes *shapes, bt_prefill_seq *seq,
                            size_t n, bt_prefill_batches_fn *fn, void *ud)
{
    bt_fault fault = {""};
    bt_shapes alone;
    bool is_apart = false; /* no program of a batch reaches as far as they are */
    bt_shapes_batch(&alone, shapes, 1);
    memset(t->at, 0, n * sizeof *t->at);
    for (size_t i = 0; i < n; i++) bt_overflow_clear(&t->overflow[i]);
    for (size_t chunks; (chunks = list(t, seq, n, is_apart ? 1 : n)) > 0;) {
        size_t rows, batch = 1;
        if (t->is_packed && chunks > 1) chunks = pack(t, shapes, chunks, &rows);
        else chunks = choose(t, shapes, &alone, chunks, &rows, &batch);
        const bt_err e = fn(ud, batch, rows, t->chunk, chunks, &fault);
        is_apart = is_apart || (e == BT_ELIMIT && chunks > 1);
        if (e != BT_ELIMIT || chunks == 1) advance(t, seq, n, chunks, e, &fault);
    }
}

void bt_prefill_batches_on_kv(void *ud, uint32_t layer)
{
    const bt_prefill_batches_list *l = ud;
    for (size_t i = 0; i < l->chunks; i++) {
        bt_chunk c = l->chunk[i];
        if (bt_chunk_has_on_kv(&c)) bt_chunk_on_kv(&c, layer);
    }
}
