#ifndef BT_ENGINE_CHUNKS_H
#define BT_ENGINE_CHUNKS_H
#include "engine/overflow.h"
#include "engine/prefill.h"
#include "npu/pkg/pkg_format.h"
#include "npu/pkg/shapes.h"

/* A prompt in chunks of static shapes, for all engines with programs of such shapes. This file cuts, owns the arena,
 * and reports each layer's rows to the hooks; the engine runs one chunk at a time. */
typedef struct bt_chunks {
    bt_shapes shapes;
    size_t vocab;
    void *arena;
    size_t arena_bytes; /* 64-byte aligned; its pages cost nothing before a shape uses them */
} bt_chunks;

/* One chunk: `valid` tokens at position pos in a shape of `rows` rows. */
typedef struct bt_chunk {
    const bt_kv_view *kv;
    const int32_t *ids; /* [valid] */
    size_t pos, valid, rows;
    const bt_prefill_hooks *hooks; /* may be NULL */
    float *logits;                 /* out LAST: [V]; ALL: [valid, V] */
    bt_pkg_out out;
    bt_overflow *overflow; /* of the chunk's prompt */
} bt_chunk;
typedef bt_err bt_chunks_fn(void *ud, const bt_chunk *chunk, bt_fault *fault);

/* shapes and vocab are set by the caller before. BT_ENOMEM. */
bt_err bt_chunks_map(bt_chunks *c, size_t arena_bytes, bt_fault *fault);
void bt_chunks_done(bt_chunks *c); /* zeros are fine */
/* bt_prefill_run, without its checks, which came before. */
bt_err bt_chunks_run(const bt_chunks *c, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                     const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_chunks_fn *fn, void *ud,
                     bt_fault *fault);
/* on_kv and cancel of an executor's run of this chunk; ud is the chunk. The hooks do not see a layer whose rows, or the
 * values that made them, were infinite or NaN. */
void bt_chunk_on_kv(void *ud, uint32_t layer);
static inline bool bt_chunk_has_on_kv(const bt_chunk *c) { return c->hooks && c->hooks->on_kv; }
static inline const atomic_bool *bt_chunk_cancel(const bt_chunk *c) { return c->hooks ? c->hooks->cancel : NULL; }
#endif
