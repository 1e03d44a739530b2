/* Building the table of programs, and refusing what is not in it. */
#include "engine/host_shapes.h"

#include <stdlib.h>

enum { RANGE_STEP = 16 };

/* Rows of one shape, into `row` or, where that is NULL, only counted. */
static size_t list_rows(bt_host_shape *row, const bt_shape *s, size_t ctx_tokens)
{
    size_t n = 0, ctx;
    if (s->seq_min == s->seq) {
        for (; (ctx = bt_shapes_bucket(s, ctx_tokens, n)) != 0; n++)
            if (row) row[n] = (bt_host_shape){.seq_min = s->seq, .seq = s->seq, .ctx = ctx};
        return n;
    }
    for (size_t from = s->seq_min; from <= s->seq; n++) {
        size_t to = from == s->seq_min ? from : (from + RANGE_STEP - 1) / RANGE_STEP * RANGE_STEP;
        if (to > s->seq) to = s->seq;
        if (row) row[n] = (bt_host_shape){.seq_min = from, .seq = to, .ctx = ctx_tokens};
        from = to + 1;
    }
    return n;
}

static bt_err compile_row(bt_host_shapes *p, bt_host_shape *row, const bt_graph *graph, bt_fault *fault)
{
    const size_t out[BT_PKG_OUTS] = {0, 1, row->seq};
    for (int i = 0; i < BT_PKG_OUTS; i++) {
        bt_program *program;
        const bt_err e = bt_bind_program(&program, graph, 1, row->seq, out[i], row->ctx, fault);
        if (e < 0) return e;
        row->program[i] = program;
        p->compilations++;
        if (program->arena.fixed > p->arena_bytes) p->arena_bytes = program->arena.fixed;
    }
    return BT_OK;
}

bt_err bt_host_shapes_new(bt_host_shapes **ret, const bt_graph *graph, const bt_shapes *shapes,
                          size_t ctx_tokens, bt_fault *fault)
{
    if (ctx_tokens < 1 || ctx_tokens > BT_MODEL_MAX_CTX)
        return bt_fail(fault, BT_EARG, "a context of %zu tokens; 1 to %d are possible", ctx_tokens,
                       BT_MODEL_MAX_CTX);
    bt_err e = BT_OK;
    size_t rows = 0;
    for (size_t i = 0; i < shapes->shapes; i++) rows += list_rows(NULL, &shapes->shape[i], ctx_tokens);
    bt_host_shapes *p = calloc(1, sizeof *p);
    if (!p || !(p->row = calloc(rows, sizeof *p->row))) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory compiling %zu programs", rows);
        goto out;
    }
    for (size_t i = 0; i < shapes->shapes; i++)
        p->rows += list_rows(p->row + p->rows, &shapes->shape[i], ctx_tokens);
    for (size_t i = 0; i < p->rows; i++)
        if ((e = compile_row(p, &p->row[i], graph, fault)) < 0) goto out;
    *ret = p;
    p = NULL;
out:
    bt_host_shapes_free(p);
    return e;
}

void bt_host_shapes_free(bt_host_shapes *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->rows; i++)
        for (int j = 0; j < BT_PKG_OUTS; j++) bt_bind_free(p->row[i].program[j]);
    free(p->row);
    free(p);
}

bt_err bt_host_shapes_find(const bt_host_shape **ret, const bt_host_shapes *p, size_t seq, size_t end_tokens,
                           bt_fault *fault)
{
    const bt_host_shape *near = NULL; /* the smallest row that is larger in both, else the largest */
    for (size_t i = 0; i < p->rows; i++) {
        const bt_host_shape *r = &p->row[i];
        if (r->seq_min <= seq && seq <= r->seq && r->ctx >= end_tokens) {
            *ret = r;
            return BT_OK;
        }
        if (!near && r->seq >= seq && r->ctx >= end_tokens) near = r;
    }
    if (!near) near = &p->row[p->rows - 1];
    return bt_fail(fault, BT_ELIMIT,
                   "no program for seq %zu, ctx %zu; the nearest legal row is seq %zu, ctx %zu", seq,
                   end_tokens, near->seq, near->ctx);
}
