/* Makes and frees the companion: scratch for each thread, and what passes and attention need. */
#include "graph/companion_private.h"

#include <stdlib.h>

enum { ALIGN = 64 };

static size_t thread_bytes(const bt_companion_sizes *sizes)
{
    size_t bytes = bt_attn_scratch_bytes(sizes->head_dim);
    if (bytes < sizes->rotate_elems * sizeof(float)) bytes = sizes->rotate_elems * sizeof(float);
    if (bytes < sizes->scratch_bytes) bytes = sizes->scratch_bytes;
    bytes += bt_companion_pass_scratch_bytes();
    return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

uint64_t bt_companion_bytes(const bt_companion_sizes *sizes, size_t threads)
{
    return (uint64_t)threads * thread_bytes(sizes) + bt_companion_spans_part_floats(sizes) * sizeof(float);
}

bt_err bt_companion_init(bt_companion *ret, const bt_kernels *kernels, bt_pool *pool,
                         const bt_companion_sizes *sizes, bt_fault *fault)
{
    const size_t bytes = thread_bytes(sizes);
    bt_companion c = {.kernels = kernels, .pool = pool, .scratch_bytes = bytes};
    c.scratch = aligned_alloc(ALIGN, bt_pool_threads(pool) * bytes);
    c.spans = c.scratch ? bt_companion_spans_new(sizes) : NULL;
    c.pass = c.spans ? bt_companion_pass_new() : NULL;
    if (!c.pass) {
        bt_companion_done(&c);
        return bt_fail(fault, BT_ENOMEM, "out of memory for %zu bytes of scratch for each thread", bytes);
    }
    *ret = c;
    return BT_OK;
}

void bt_companion_done(bt_companion *c)
{
    free(c->scratch);
    bt_companion_spans_free(c->spans);
    bt_companion_pass_free(c->pass);
}
