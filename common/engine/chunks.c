/* Chunk after chunk through a table of shapes; which program that is, and who runs it, the engine knows. */
#include "engine/chunks.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { READY_BYTES = 16 << 20 };

bt_err bt_chunks_map(bt_chunks *c, size_t arena_bytes, bt_fault *fault)
{
    void *arena =
        mmap(NULL, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        return bt_fail(fault, BT_ENOMEM, "cannot map %zu MiB for the arena of the programs: %s",
                       arena_bytes >> 20, strerror(errno));
    /* fewer faults and TLB misses; without it only slower */
    (void)madvise(arena, arena_bytes, MADV_HUGEPAGE);
    bt_memory_ready(arena, arena_bytes, READY_BYTES);
    c->arena = arena;
    c->arena_bytes = arena_bytes;
    return BT_OK;
}

void bt_chunks_done(bt_chunks *c)
{
    if (c->arena) (void)munmap(c->arena, c->arena_bytes);
    c->arena = NULL;
}

void bt_chunk_on_kv(void *ud, uint32_t layer)
{
    const bt_chunk *c = ud;
    if (!bt_overflow_get(NULL, c->overflow)) c->hooks->on_kv(c->hooks->ud, layer, c->pos, c->valid);
}

bt_err bt_chunks_run(const bt_chunks *c, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                     const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_chunks_fn *fn,
                     void *ud, bt_fault *fault)
{
    bt_overflow overflow = {0};
    for (size_t begin = 0; begin < n;) {
        const bt_shapes_chunk next = bt_shapes_next(&c->shapes, pos0 + n, pos0 + begin);
        const bt_chunk chunk = {.kv = kv,
                                .ids = ids + begin,
                                .pos = pos0 + begin,
                                .valid = next.valid,
                                .rows = next.rows,
                                .hooks = hooks,
                                .overflow = &overflow,
                                .logits = out == BT_PREFILL_ALL ? logits + begin * c->vocab : logits,
                                .out = out == BT_PREFILL_ALL     ? BT_PKG_OUT_ALL
                                       : begin + next.valid == n ? BT_PKG_OUT_LAST
                                                                 : BT_PKG_OUT_NONE};
        if (begin && bt_prefill_pauses(hooks, chunk.pos)) return bt_prefill_paused(hooks, chunk.pos, fault);
        bt_prefill_tell_chunk(hooks, chunk.pos, chunk.valid, false);
        bt_err e = fn(ud, &chunk, fault);
        if (e == BT_OK) e = bt_overflow_fail(&overflow, kv->elem_bytes, fault);
        if (e < 0) return e;
        bt_prefill_tell_chunk(hooks, chunk.pos, chunk.valid, true);
        begin += next.valid;
    }
    return BT_OK;
}
