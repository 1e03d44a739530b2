/* Lowering: which instruction each operator of the graph becomes, where quantisation stands, and what lives
 * when. */
#include "npu/compile/lower_build.h"
#include "base/num.h"
#include "graph/place.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* No operator becomes more instructions or values than this. */
enum { INSTS_PER_OP = 4, VALUES_PER_OP = 6 };

/* ---- the list ---- */

size_t bt_lower_build_rows(const bt_lower_build *b, bool is_out) { return is_out ? b->in->out : b->in->seq; }

uint32_t bt_lower_build_bytes(bt_lower_build *b, uint32_t name, size_t bytes)
{
    assert(b->values < b->values_cap);
    b->value[b->values] = (bt_lower_value){name, bytes};
    return (uint32_t)b->values++;
}

uint32_t bt_lower_build_value(bt_lower_build *b, uint32_t name, size_t rows, size_t stride)
{
    size_t bytes = 0;
    if (!bt_mul_size(&bytes, rows, stride)) b->too_large = true;
    return bt_lower_build_bytes(b, name, bytes);
}

static bool is_out(const bt_lower_build *b, uint32_t tensor)
{
    return b->in->graph->tensor[tensor].rows.exp[BT_SYM_OUT] != 0;
}

bt_pkg_inst *bt_lower_build_emit(bt_lower_build *b, bt_pkg_op op, bt_pkg_unit unit, size_t graph_op)
{
    const bt_op *o = &b->in->graph->op[graph_op];
    assert(b->insts < b->insts_cap);
    bt_pkg_inst *i = &b->inst[b->insts++];
    *i = (bt_pkg_inst){.op = (uint8_t)op,
                       .unit = (uint8_t)unit,
                       .group = 1,
                       .out_rows = is_out(b, o->out),
                       .layer = o->layer,
                       .tensor = BT_PKG_NONE,
                       .site = BT_PKG_NONE,
                       .in0 = BT_PKG_NOWHERE,
                       .in1 = BT_PKG_NOWHERE,
                       .out = BT_PKG_NOWHERE,
                       .aux = BT_PKG_NOWHERE};
    if (unit == BT_PKG_NPU && b->in->cluster) i->cluster = b->in->cluster[graph_op];
    return i;
}

static uint32_t name_of(const char *name)
{
    for (uint32_t v = 1; v < BT_PKG_VALUE_OTHER; v++)
        if (!strcmp(bt_pkg_value_name(v), name)) return v;
    return BT_PKG_VALUE_OTHER;
}

uint64_t bt_lower_build_tensor(bt_lower_build *b, uint32_t tensor)
{
    if (tensor == BT_GRAPH_NO_TENSOR) return BT_PKG_NOWHERE;
    const bt_tensor *t = &b->in->graph->tensor[tensor];
    if (t->kind != BT_TENSOR_ACT) return BT_PKG_NOWHERE;
    if (b->tensor_value[tensor] == BT_PKG_NONE)
        b->tensor_value[tensor] = bt_lower_build_value(
            b, name_of(t->name), bt_lower_build_rows(b, is_out(b, tensor)), (size_t)t->width * 4);
    return b->tensor_value[tensor];
}

uint64_t bt_lower_build_renew(bt_lower_build *b, uint32_t tensor, size_t elem_bytes)
{
    const bt_tensor *t = &b->in->graph->tensor[tensor];
    b->tensor_value[tensor] = bt_lower_build_value(
        b, name_of(t->name), bt_lower_build_rows(b, is_out(b, tensor)), t->width * elem_bytes);
    return b->tensor_value[tensor];
}

size_t bt_lower_build_group(const bt_lower_build *b, size_t i)
{
    const bt_op *o = b->in->graph->op;
    size_t n = 1;
    while (n < BT_PKG_MAX_GROUP && i + n < b->ops && o[i + n].kind == BT_OP_LINEAR &&
           o[i + n].in[0] == o[i].in[0] && !b->in->on_npu[i] == !b->in->on_npu[i + n])
        n++;
    return n;
}

bt_lower_planes bt_lower_build_planes(bt_lower_build *b, bt_pkg_op op, bt_pkg_unit unit, size_t graph_op,
                                      uint64_t input, uint32_t input_stride)
{
    const bt_lower_in *in = b->in;
    const bt_op *o = &in->graph->op[graph_op];
    const uint32_t kind = bt_pkg_site_of(o->weight), k = in->graph->tensor[o->in[0]].width;
    const bool of_out = is_out(b, o->in[0]), is_wide = in->recipe->input_bits[kind] == 16;
    const size_t rows = bt_lower_build_rows(b, of_out);
    bt_lower_planes p = {.lo = BT_PKG_NOWHERE,
                         .shadow = BT_PKG_NOWHERE,
                         .stride = (k + 63) / 64 * 64,
                         .site = bt_pkg_site_index(in->graph->hp.layers, o->layer, kind)};
    p.hi = bt_lower_build_value(b, BT_PKG_VALUE_PLANES, rows, p.stride);
    if (is_wide) p.lo = bt_lower_build_value(b, BT_PKG_VALUE_LO, rows, p.stride);
    if (in->recipe->shadow != BT_SHADOW_OFF && !(in->pruned && in->pruned[p.site]))
        p.shadow = bt_lower_build_bytes(b, BT_PKG_VALUE_SHADOW, bt_pkg_shadow_bytes(rows, k));
    bt_pkg_inst *i = bt_lower_build_emit(b, op, unit, graph_op);
    i->out_rows = of_out;
    i->site = p.site;
    i->in0 = input;
    i->out = p.hi;
    i->in1 = p.lo;
    i->aux = p.shadow;
    i->in_width = i->out_width = k;
    i->in_stride = input_stride;
    i->out_stride = p.stride;
    return p;
}

/* ---- npu_ops linear: the graph's operators one by one, linears on the NPU ---- */

static void lower_linears(bt_lower_build *b, size_t first, size_t group)
{
    const bt_graph *g = b->in->graph;
    const bt_op *o = &g->op[first];
    const bool on_npu = b->in->on_npu[first];
    const uint32_t k = g->tensor[o->in[0]].width;
    const uint64_t input = bt_lower_build_tensor(b, o->in[0]);
    const bt_lower_planes p =
        on_npu ? bt_lower_build_planes(b, BT_PKG_QUANTISE, BT_PKG_COMPANION, first, input, 4 * k)
               : (bt_lower_planes){.hi = input,
                                   .lo = BT_PKG_NOWHERE,
                                   .shadow = BT_PKG_NOWHERE,
                                   .site = BT_PKG_NONE,
                                   .stride = 4 * k};
    for (size_t j = 0; j < group; j++, o++) {
        const uint64_t out = bt_lower_build_tensor(b, o->out);
        bt_pkg_inst *i = on_npu ? bt_lower_build_emit(b, BT_PKG_LINEAR, BT_PKG_NPU, first + j)
                                : bt_lower_build_emit(b, BT_PKG_LINEAR_F16, BT_PKG_COMPANION, first + j);
        if (j == 0) i->group = (uint8_t)group;
        i->tensor = bt_pkg_tensor_index(g->hp.layers, o->layer, o->weight);
        i->site = p.site;
        i->in0 = p.hi;
        i->in1 = p.lo;
        i->aux = p.shadow;
        i->out = out;
        i->in_width = k;
        i->out_width = g->tensor[o->out].width;
        i->in_stride = p.stride;
        i->out_stride = 4 * i->out_width;
        i->macs_per_row = (uint64_t)k * i->out_width;
    }
}

void bt_lower_build_companion(bt_lower_build *b, size_t at)
{
    static const bt_pkg_op to[BT_OP_KINDS] = {
        [BT_OP_EMBED] = BT_PKG_EMBED,
        [BT_OP_RMSNORM] = BT_PKG_RMSNORM,
        [BT_OP_QK_NORM] = BT_PKG_QK_NORM,
        [BT_OP_ROPE] = BT_PKG_ROPE,
        [BT_OP_KV_STORE] = BT_PKG_KV_STORE,
        [BT_OP_ATTENTION] = BT_PKG_ATTENTION,
        [BT_OP_ADD] = BT_PKG_ADD,
        [BT_OP_SILU_MUL] = BT_PKG_SILU_MUL,
        [BT_OP_SELECT_ROWS] = BT_PKG_SELECT_ROWS,
        [BT_OP_ROTATE] = BT_PKG_ROTATE,
    };
    const bt_lower_in *in = b->in;
    const bt_graph *g = in->graph;
    const bt_op *o = &g->op[at];
    const uint64_t in0 = bt_lower_build_tensor(b, o->in[0]), in1 = bt_lower_build_tensor(b, o->in[1]);
    const uint64_t out = bt_lower_build_tensor(b, o->out);
    bt_pkg_inst *i = bt_lower_build_emit(b, to[o->kind], BT_PKG_COMPANION, at);
    i->in0 = in0;
    i->in1 = in1;
    i->out = out;
    i->in_width = in0 == BT_PKG_NOWHERE ? 0 : g->tensor[o->in[0]].width;
    i->in_stride = 4 * i->in_width;
    i->out_width = out == BT_PKG_NOWHERE ? 0 : g->tensor[o->out].width;
    i->out_stride = 4 * i->out_width;
    i->arg = o->kind == BT_OP_ROTATE ? (o->layer == BT_GRAPH_NO_LAYER ? 1 : 2) : o->heads;
    if (o->kind == BT_OP_QK_NORM ||
        (o->kind == BT_OP_RMSNORM && (!in->has_norm_weight || in->has_norm_weight[at])))
        i->tensor = bt_pkg_tensor_index(g->hp.layers, o->layer, o->weight);
}

static void lower_linear_mode(bt_lower_build *b)
{
    for (size_t i = 0; i < b->ops;) {
        const size_t group = b->in->graph->op[i].kind == BT_OP_LINEAR ? bt_lower_build_group(b, i) : 0;
        if (group) lower_linears(b, i, group);
        else bt_lower_build_companion(b, i);
        i += group ? group : 1;
    }
}

/* ---- places ---- */

static void touch(bt_place_item *item, uint64_t value, uint32_t at)
{
    if (value == BT_PKG_NOWHERE) return;
    if (item[value].first == UINT32_MAX) item[value].first = at;
    item[value].last = at;
}

static void resolve(uint64_t *operand, const bt_place_item *item)
{
    if (*operand != BT_PKG_NOWHERE) *operand = item[*operand].offset.fixed;
}

static int by_first(const void *a, const void *b)
{
    const bt_pkg_place *x = a, *y = b;
    if (x->first_inst != y->first_inst) return x->first_inst < y->first_inst ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Lives, offsets, and operands from values to offsets. */
static bt_err place_all(bt_lowered *l, const bt_lower_build *b, bt_fault *fault)
{
    bt_extent peak = {0, 0};
    bt_place_item *item = malloc((b->values + 1) * sizeof *item);
    l->place = malloc((b->values + 1) * sizeof *l->place);
    bt_err e = BT_OK;
    if (!item || !l->place) {
        e = bt_fail(fault, BT_ENOMEM, "lowering a graph");
        goto out;
    }
    for (size_t v = 0; v < b->values; v++)
        item[v] = (bt_place_item){.bytes = {b->value[v].bytes, 0}, .first = UINT32_MAX};
    for (uint32_t i = 0; i < b->insts; i++) {
        touch(item, b->inst[i].in0, i);
        touch(item, b->inst[i].in1, i);
        touch(item, b->inst[i].out, i);
        touch(item, b->inst[i].aux, i);
    }
    if ((e = bt_place_items(&peak, item, b->values, fault)) < 0) goto out;
    for (size_t i = 0; i < b->insts; i++) {
        resolve(&b->inst[i].in0, item);
        resolve(&b->inst[i].in1, item);
        resolve(&b->inst[i].out, item);
        resolve(&b->inst[i].aux, item);
    }
    for (size_t v = 0; v < b->values; v++)
        l->place[v] = (bt_pkg_place){.name = b->value[v].name,
                                     .first_inst = item[v].first,
                                     .last_inst = item[v].last,
                                     .offset = item[v].offset.fixed,
                                     .bytes = item[v].bytes.fixed};
    qsort(l->place, b->values, sizeof *l->place, by_first);
    l->places = b->values;
    l->program.arena_bytes = peak.fixed;
out:
    free(item);
    return e;
}

static void count(bt_lowered *l, const bt_lower_build *b)
{
    bt_pkg_program *p = &l->program;
    p->seq = (uint32_t)b->in->seq;
    p->out = (uint32_t)b->in->out;
    p->insts = (uint32_t)l->insts;
    p->places = (uint32_t)l->places;
    for (size_t n = 0; n < l->insts; n++) {
        const bt_pkg_inst *i = &l->inst[n];
        const uint64_t rows = bt_lower_build_rows(b, i->out_rows);
        *(i->unit == BT_PKG_NPU ? &p->npu_macs : &p->companion_macs) += rows * i->macs_per_row;
        p->activation_bytes_moved += rows * ((uint64_t)i->in_stride + i->out_stride);
        if (i->in1 != BT_PKG_NOWHERE)
            p->activation_bytes_moved += rows * (i->op == BT_PKG_QUANTISE ? i->out_stride : i->in_stride);
        if (i->op == BT_PKG_KV_STORE)
            p->activation_bytes_moved += rows * i->in_width * 2 * 2; /* K and V in f16 */
        if (i->cluster > p->clusters) p->clusters = i->cluster;
    }
}

bt_err bt_lower(bt_lowered *ret, const bt_lower_in *in, bt_fault *fault)
{
    if (in->seq < 1 || in->seq > UINT32_MAX || (in->out != 0 && in->out != 1 && in->out != in->seq))
        return bt_fail(fault, BT_EARG, "lowering for %zu rows, %zu with logits: 0, 1 or all", in->seq,
                       in->out);
    if (in->npu_ops > BT_PKG_OPS_ALL) return bt_fail(fault, BT_EARG, "npu operators %u", in->npu_ops);
    const size_t tensors = in->graph->tensors;
    bt_lowered l = {0};
    bt_lower_build b = {.in = in, .ops = in->out ? in->graph->ops : in->graph->op_tail};
    b.insts_cap = b.ops * INSTS_PER_OP;
    b.values_cap = b.ops * VALUES_PER_OP + tensors;
    b.inst = calloc(b.insts_cap, sizeof *b.inst);
    b.value = calloc(b.values_cap, sizeof *b.value);
    b.tensor_value = malloc(tensors * sizeof *b.tensor_value);
    l.inst = b.inst;
    bt_err e = BT_OK;
    if (!b.inst || !b.value || !b.tensor_value) {
        e = bt_fail(fault, BT_ENOMEM, "lowering a graph");
        goto out;
    }
    for (size_t t = 0; t < tensors; t++) b.tensor_value[t] = BT_PKG_NONE;
    if (in->npu_ops == BT_PKG_OPS_LINEAR) lower_linear_mode(&b);
    else if ((e = bt_lower_int(&b, fault)) < 0) goto out;
    if (b.too_large) {
        e = bt_fail(fault, BT_ELIMIT, "a program for %zu rows does not fit memory", in->seq);
        goto out;
    }
    l.insts = b.insts;
    if ((e = place_all(&l, &b, fault)) < 0) goto out;
    count(&l, &b);
    *ret = l;
    l = (bt_lowered){0};
out:
    bt_lower_done(&l);
    free(b.value);
    free(b.tensor_value);
    return e;
}

void bt_lower_done(bt_lowered *l)
{
    free(l->inst);
    free(l->place);
    *l = (bt_lowered){0};
}
