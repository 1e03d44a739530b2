/* The subgraphs of a layer, and which of them chunks can share, read off the graph's formulas. */
#include "npu/lower/sharing.h"

#include <stdbool.h>

/* Whether an operator begins a subgraph. before: the operator before it in its layer; NULL: it is the
 * first. */
static bool begins(const bt_op *o, const bt_op *before)
{
    if (!before) return true;
    if (o->weight == BT_WEIGHT_O || o->weight == BT_WEIGHT_FFN_NORM || o->weight == BT_WEIGHT_DOWN)
        return true;
    if (bt_op_infos[before->kind].shape == BT_SHAPE_NORM && o->kind == BT_OP_LINEAR)
        return before->weight == BT_WEIGHT_ATTN_NORM;
    return before->weight == BT_WEIGHT_V && before->kind == BT_OP_LINEAR;
}

static bool depends_on_ctx(const bt_graph *g, const bt_op *o)
{
    const uint32_t t[3] = {o->in[0], o->in[1], o->out};
    bool does = o->macs.exp[BT_SYM_CTX] != 0;
    for (int i = 0; i < 3; i++)
        does = does || (t[i] != BT_GRAPH_NO_TENSOR && g->tensor[t[i]].rows.exp[BT_SYM_CTX] != 0);
    return does;
}

static uint64_t matrices_of(const bt_graph *g, const bt_op *o)
{
    return o->kind == BT_OP_EXPERTS ? g->hp.experts : 1;
}

/* Bytes of one subgraph, operators [first, end). An activation belongs to the subgraph that writes it
 * first. */
static bt_err subgraph_bytes(uint64_t *ret, const bt_graph *g, size_t first, size_t end, size_t chunk,
                             unsigned weight_bits, bt_fault *fault)
{
    const bt_bind b = {.value = {1, chunk, 0, 1}};
    uint64_t bytes = 0;
    for (size_t i = first; i < end; i++) {
        const bt_op *o = &g->op[i];
        const uint64_t k = g->tensor[o->in[0]].width, n = g->tensor[o->out].width;
        if (bt_op_is_linear(o)) bytes += ((n * k * weight_bits + 7) / 8 + 4 * n) * matrices_of(g, o);
        if (bt_op_infos[o->kind].shape == BT_SHAPE_NORM) bytes += 4 * n * bt_op_infos[o->kind].vectors;
    }
    for (uint32_t t = 0; t < g->tensors; t++) {
        uint64_t rows;
        size_t writer = 0;
        while (writer < end && g->op[writer].out != t) writer++;
        if (g->tensor[t].kind != BT_TENSOR_ACT || writer < first || writer >= end) continue;
        const bt_err e = bt_formula_eval(&rows, g->tensor[t].rows, &b, fault);
        if (e < 0) return e;
        if (__builtin_mul_overflow(rows, (uint64_t)g->tensor[t].width * 4, &rows) ||
            __builtin_add_overflow(bytes, rows, &bytes))
            return bt_fail(fault, BT_ELIMIT, "the bytes of a subgraph do not fit 64 bits");
    }
    *ret = bytes;
    return BT_OK;
}

bt_err bt_sharing_of(bt_sharing *ret, const bt_graph *g, size_t prompt_tokens, size_t chunk_tokens,
                     unsigned weight_bits, bt_fault *fault)
{
    if (!prompt_tokens || !chunk_tokens)
        return bt_fail(fault, BT_EARG, "a prompt of %zu in chunks of %zu", prompt_tokens, chunk_tokens);
    const uint64_t chunks = prompt_tokens / chunk_tokens + (prompt_tokens % chunk_tokens != 0);
    if (chunks > UINT32_MAX) return bt_fail(fault, BT_ELIMIT, "more than 2^32 chunks");
    bt_sharing r = {.chunks = (uint32_t)chunks};
    for (size_t i = 0; i < g->op_tail;) {
        const bt_op *o = &g->op[i];
        size_t end = i + 1;
        uint64_t bytes = 0, all;
        bool by_ctx = depends_on_ctx(g, o);
        if (o->layer == BT_GRAPH_NO_LAYER) {
            i++;
            continue;
        }
        for (; end < g->op_tail && g->op[end].layer == o->layer && !begins(&g->op[end], &g->op[end - 1]);
             end++)
            by_ctx = by_ctx || depends_on_ctx(g, &g->op[end]);
        const bt_err e = subgraph_bytes(&bytes, g, i, end, chunk_tokens, weight_bits, fault);
        if (e < 0) return e;
        if (__builtin_mul_overflow(bytes, chunks, &all) ||
            __builtin_add_overflow(r.naive_bytes, all, &r.naive_bytes))
            return bt_fail(fault, BT_ELIMIT, "the bytes of %u chunks do not fit 64 bits", r.chunks);
        r.shared_bytes += by_ctx ? all : bytes;
        r.subgraphs++;
        *(by_ctx ? &r.unshared : &r.shared) += 1;
        i = end;
    }
    r.ratio = r.naive_bytes ? (double)r.shared_bytes / (double)r.naive_bytes : 1;
    *ret = r;
    return BT_OK;
}
