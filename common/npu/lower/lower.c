/* Lowering: the instructions of all operators, their order, the life and the place of each value, and the
 * program's sums. */
#include "npu/lower/lower.h"
#include "base/num.h"
#include "graph/place.h"
#include "npu/lower/lower_build.h"
#include "npu/lower/lower_form.h"
#include "npu/pkg/areas.h"
#include "npu/pkg/pkg_layout.h"

#include <stdlib.h>
#include <string.h>

/* Above the instructions and values that one operator becomes, without slices and parts. */
enum { INSTS_PER_OP = 4, VALUES_PER_OP = 6 };

/* ---- operators ---- */

static uint32_t width_of(const bt_lower_build *b, uint32_t tensor)
{
    return b->in->graph->tensor[tensor].width;
}

/* Emits one instruction for graph operator `at`, which reads tensors x and y and writes `to` (x where it
 * works in place). Both inputs have one stride; in place it is y's. */
static bt_pkg_inst *lower_to(bt_lower_build *b, size_t at, bt_pkg_op op, uint32_t x, uint32_t y, uint32_t to)
{
    const bt_pkg_op_info *r = bt_pkg_op_info_of(op);
    const bool has_y = r->in1 != BT_PKG_FORM_NONE;
    const bt_pkg_form from = (bt_pkg_form)(has_y ? r->in1 : r->in0);
    const uint64_t in0 = r->in_place ? bt_lower_form_in_place(b, at, to, (bt_pkg_form)r->in0)
                                     : bt_lower_form_read(b, at, x, (bt_pkg_form)r->in0),
                   in1 = has_y ? bt_lower_form_read(b, at, y, (bt_pkg_form)r->in1) : BT_PKG_NOWHERE,
                   out = r->in_place ? in0 : bt_lower_form_write(b, to, (bt_pkg_form)r->out);
    bt_pkg_inst *i = bt_lower_build_emit(b, op, BT_PKG_NPU, at);
    i->in0 = in0;
    i->in1 = in1;
    i->out = out;
    i->in_width = width_of(b, x);
    i->in_stride = bt_lower_build_stride(b, i->in_width, bt_pkg_form_bytes(from));
    i->out_width = width_of(b, to);
    i->out_stride = bt_lower_build_stride(b, i->out_width, bt_pkg_form_bytes(r->out));
    if (r->site == BT_PKG_SITE_SITE) i->site = bt_lower_form_site(b, at, to);
    if (r->params != BT_PKG_PARAMS_NONE) i->params = b->in->params[at];
    return i;
}

/* The input of the linears from graph operator `first` on, as s32 in units of their site. Attention writes
 * s16. Where nothing rotates them, INT_ROTATE with no rotation changes their unit to the o site's. All other
 * inputs are s32 already. */
static uint64_t int_site(bt_lower_build *b, size_t first)
{
    const uint32_t input = b->in->graph->op[first].in[0];
    return bt_lower_form_of(b, input) == BT_PKG_FORM_S16
               ? lower_to(b, first, BT_PKG_INT_ROTATE, input, BT_GRAPH_NO_TENSOR, input)->out
               : bt_lower_form_read(b, first, input, BT_PKG_FORM_WIDE);
}

/* Lowers an operator other than a linear in integers, by its row of INTEGERS (graph/op_list.h): the residual
 * stream is s32, outputs of linears are s16, inputs of linears are s32 in units of their site. */
static void lower_integers(bt_lower_build *b, size_t at)
{
    const bt_op *o = &b->in->graph->op[at];
    bt_pkg_inst *i = lower_to(b, at, bt_pkg_op_in_integers(o->kind), o->in[0], o->in[1], o->out);
    bt_lower_build_names(b, i, at);
    if (bt_pkg_is_attention(i)) bt_lower_build_split_attention(b);
}

/* Lowers an operator in floats: on the companion over f32 rows, or on NPU_FLOAT over 16-bit floats. */
static void lower_floats(bt_lower_build *b, size_t at)
{
    const bt_lower_in *in = b->in;
    const bt_graph *g = in->graph;
    const bt_op *o = &g->op[at];
    const bt_pkg_unit unit = in->on_npu[at] == BT_PKG_NPU_FLOAT ? BT_PKG_NPU_FLOAT : BT_PKG_COMPANION;
    /* SELECT_ROWS moves rows in any form */
    const bt_pkg_form form = bt_op_infos[o->kind].shape == BT_SHAPE_SELECT ? bt_lower_form_of(b, o->in[0])
                             : unit == BT_PKG_COMPANION                    ? BT_PKG_FORM_F32
                                                                           : BT_PKG_FORM_FLOAT16;
    const bool in_place = o->in[0] == o->out;
    const uint64_t in0 =
        in_place ? bt_lower_form_in_place(b, at, o->in[0], form) : bt_lower_form_read(b, at, o->in[0], form);
    const bt_pkg_op_info *r = bt_pkg_op_info_of(bt_pkg_op_in_floats(o->kind));
    const uint64_t in1 =
        bt_lower_form_read(b, at, o->in[1], r->in1 == BT_PKG_FORM_ROUTES ? BT_PKG_FORM_ROUTES : form);
    const uint64_t out =
        in_place ? in0
                 : bt_lower_form_write(b, o->out, r->out == BT_PKG_FORM_ROUTES ? BT_PKG_FORM_ROUTES : form);
    bt_pkg_inst *i = bt_lower_build_emit(b, bt_pkg_op_in_floats(o->kind), unit, at);
    i->in0 = in0;
    i->in1 = in1;
    i->out = out;
    i->in_width = in0 == BT_PKG_NOWHERE ? 0 : g->tensor[o->in[0]].width;
    i->in_stride = bt_lower_build_stride(b, i->in_width, 4);
    i->out_width = out == BT_PKG_NOWHERE ? 0 : g->tensor[o->out].width;
    i->out_stride = bt_lower_build_stride(b, i->out_width, 4);
    if (r->shape == BT_SHAPE_ROUTE) i->macs_per_row = o->macs.coef;
    bt_lower_build_names(b, i, at);
    if (bt_pkg_is_attention(i) && in->on_npu[at]) bt_lower_build_split_attention(b);
}

/* Whether an NPU operator other than a linear reads this tensor as operator `at` wrote it, before another
 * operator writes it in place. */
static bool is_read_as_integers(const bt_lower_build *b, size_t at, uint32_t tensor)
{
    const bt_op *o = b->in->graph->op;
    for (size_t i = at + 1; i < b->ops && o[i].layer == o[at].layer; i++) {
        const bool reads = o[i].in[0] == tensor || o[i].in[1] == tensor;
        if (reads && b->in->on_npu[i] == BT_PKG_NPU && !bt_op_is_linear(&o[i])) return true;
        if (o[i].out == tensor) return false;
    }
    return false;
}

/* The quantised input of a group of linears on the NPU. */
static bt_lower_planes planes_of(bt_lower_build *b, size_t first)
{
    const bt_op *o = &b->in->graph->op[first];
    const uint32_t stride = bt_lower_build_stride(b, b->in->graph->tensor[o->in[0]].width, 4);
    const bt_pkg_form form = bt_lower_form_of(b, o->in[0]);
    if (form == BT_PKG_FORM_F32 || form == BT_PKG_FORM_FLOAT16)
        return bt_lower_build_planes(b, BT_PKG_QUANTISE,
                                     form == BT_PKG_FORM_F32 ? BT_PKG_COMPANION : BT_PKG_NPU_FLOAT, first,
                                     bt_lower_form_read(b, first, o->in[0], form), stride);
    return bt_lower_build_planes(b, BT_PKG_INT_SPLIT, BT_PKG_NPU, first, int_site(b, first), stride);
}

static void lower_linears(bt_lower_build *b, size_t first, size_t group)
{
    const bt_graph *g = b->in->graph;
    const bt_op *o = &g->op[first];
    const bt_pkg_unit unit = (bt_pkg_unit)b->in->on_npu[first];
    const bool in_integers = unit == BT_PKG_NPU, is_narrow = b->in->narrow_outputs && b->in->params;
    const bt_pkg_form floats = unit == BT_PKG_NPU_FLOAT ? BT_PKG_FORM_FLOAT16 : BT_PKG_FORM_F32;
    const uint32_t k = g->tensor[o->in[0]].width;
    bool as_integers = false; /* all linears of a group have one kind of output */
    for (size_t j = 0; j < group; j++)
        as_integers = as_integers || (in_integers && ((is_narrow && o[j].weight != BT_WEIGHT_OUTPUT) ||
                                                      is_read_as_integers(b, first + j, o[j].out)));
    const bt_pkg_op op = !in_integers               ? bt_pkg_op_in_floats(o->kind)
                         : as_integers              ? bt_pkg_op_in_integers(o->kind)
                         : o->kind == BT_OP_EXPERTS ? BT_PKG_EXPERTS
                                                    : BT_PKG_LINEAR;
    const bt_pkg_form form = as_integers ? BT_PKG_FORM_S16 : floats;
    const bt_lower_planes p =
        in_integers ? planes_of(b, first)
                    : (bt_lower_planes){.hi = bt_lower_form_read(b, first, o->in[0], floats),
                                        .lo = BT_PKG_NOWHERE, .shadow = BT_PKG_NOWHERE, .site = BT_PKG_NONE,
                                        .stride = bt_lower_build_stride(b, k, 4)};
    for (size_t j = 0; j < group; j++, o++) {
        const uint64_t out = bt_lower_form_write(b, o->out, form);
        bt_pkg_inst *i = bt_lower_build_emit(b, op, unit, first + j);
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
        i->out_stride = out == BT_PKG_NOWHERE ? 4 * i->out_width
                                              : bt_lower_build_stride(b, i->out_width, as_integers ? 2 : 4);
        i->macs_per_row = (uint64_t)k * i->out_width;
        if (unit != BT_PKG_COMPANION && o->weight == BT_WEIGHT_OUTPUT) bt_lower_build_split_output(b);
    }
}

/* Lowers every operator for the unit that in->on_npu gives it. Tensors are converted to the form that their
 * reader wants (lower_form.h). */
static void lower_operators(bt_lower_build *b)
{
    for (size_t i = 0; i < b->ops;) {
        const size_t group = bt_op_is_linear(&b->in->graph->op[i]) ? bt_lower_build_group(b, i) : 0;
        if (group) lower_linears(b, i, group);
        else if (b->in->on_npu[i] == BT_PKG_NPU && b->in->params) lower_integers(b, i);
        else lower_floats(b, i);
        i += group ? group : 1;
    }
}

/* ---- order ---- */

/* Reordering. Items are clusters, and single instructions of the companion. The next item is the first one,
 * in the old order, that waits for nothing. */
typedef struct order {
    bt_lower_build *b;
    uint32_t *item;  /* [insts]: the first instruction of its cluster, or the instruction itself */
    uint32_t *waits; /* [insts]: for an item: edges from items that are not done */
    uint32_t *edge;  /* [2 * edges]: instructions from, to */
    size_t edges, edges_cap;
    bt_pkg_inst *to; /* [insts]: the new order */
} order;

/* Makes each run of instructions of one cluster a cluster of its own. */
static void number_runs(bt_lower_build *b)
{
    uint32_t clusters = 0, before = 0;
    for (size_t i = 0; i < b->insts; i++) {
        const uint32_t cluster = b->inst[i].cluster;
        if (cluster && cluster != before) clusters++;
        before = cluster;
        if (cluster) b->inst[i].cluster = clusters;
    }
}

/* Whether some cluster's instructions do not follow each other. seen: [clusters + 1]. */
static bool is_apart(const bt_lower_build *b, uint8_t *seen)
{
    uint32_t before = 0;
    for (size_t i = 0; i < b->insts; i++) {
        const uint32_t cluster = b->inst[i].cluster;
        if (cluster && cluster != before && seen[cluster]++) return true;
        before = cluster;
    }
    return false;
}

typedef struct users { /* writer and readers of a value, of the planes, of the KV cache, or of the logits */
    uint32_t writer;
    uint32_t reader[16];
    size_t readers;
    bool is_written;
} users;

static bool add_edge(order *o, uint32_t from, uint32_t to)
{
    if (from == to) return true;
    if (o->edges == o->edges_cap) {
        const size_t cap = o->edges_cap ? 2 * o->edges_cap : 1024;
        uint32_t *more = realloc(o->edge, cap * 2 * sizeof *more);
        if (!more) return false;
        o->edge = more;
        o->edges_cap = cap;
    }
    o->edge[2 * o->edges] = from;
    o->edge[2 * o->edges + 1] = to;
    o->edges++;
    return true;
}

/* Notes a reader. With more readers than there is room for, the new one waits for the one whose room it
 * takes. */
static bool reads(order *o, users *u, uint32_t at)
{
    if (u->is_written && !add_edge(o, u->writer, at)) return false;
    const size_t room = sizeof u->reader / sizeof *u->reader;
    if (u->readers == room && !add_edge(o, u->reader[--u->readers], at)) return false;
    u->reader[u->readers++] = at;
    return true;
}

static bool writes(order *o, users *u, uint32_t at)
{
    bool made = !u->is_written || add_edge(o, u->writer, at);
    for (size_t i = 0; i < u->readers; i++) made = made && add_edge(o, u->reader[i], at);
    *u = (users){.writer = at, .is_written = true};
    return made;
}

static bool find_edges(order *o)
{
    const bt_lower_build *b = o->b;
    users *of = calloc(b->values + 3, sizeof *of), *planes = of + b->values, *kv = planes + 1,
          *logits = kv + 1;
    bool made = of != NULL;
    for (uint32_t i = 0; made && i < b->insts; i++) {
        const bt_pkg_inst *n = &b->inst[i];
        const bool makes = bt_areas_makes_planes(n);
        if (n->in0 != BT_PKG_NOWHERE) made = made && reads(o, &of[n->in0], i);
        if (n->in1 != BT_PKG_NOWHERE) made = made && (makes ? writes : reads)(o, &of[n->in1], i);
        if (n->aux != BT_PKG_NOWHERE) made = made && (makes ? writes : reads)(o, &of[n->aux], i);
        if (n->out != BT_PKG_NOWHERE) made = made && writes(o, &of[n->out], i);
        if (makes || bt_areas_reads_planes(n)) made = made && (makes ? writes : reads)(o, planes, i);
        if (bt_pkg_op_info_of(n->op)->shape == BT_SHAPE_STORE) made = made && writes(o, kv, i);
        if (bt_pkg_is_attention(n)) made = made && reads(o, kv, i);
        /* parts of the logits come in any order, their cap behind all */
        if (bt_pkg_is_linear(n) && n->out == BT_PKG_NOWHERE) made = made && reads(o, logits, i);
        if (bt_pkg_op_info_of(n->op)->shape == BT_SHAPE_LOGITS) made = made && writes(o, logits, i);
    }
    free(of);
    return made;
}

/* The first item that waits for nothing and is not done; insts: there is none. */
static uint32_t next_item(const order *o)
{
    uint32_t i = 0;
    while (i < o->b->insts && (o->item[i] != i || o->waits[i])) i++;
    return i;
}

static size_t take(order *o, uint32_t item, size_t done)
{
    for (uint32_t i = item; i < o->b->insts; i++)
        if (o->item[i] == item) o->to[done++] = o->b->inst[i];
    for (size_t e = 0; e < o->edges; e++) {
        const uint32_t from = o->item[o->edge[2 * e]], to = o->item[o->edge[2 * e + 1]];
        if (from == item && to != item) o->waits[to]--;
    }
    o->waits[item] = UINT32_MAX; /* done */
    return done;
}

/* Whether layers ascend. A conversion without a tensor or a site belongs to no layer, and gets the layer of
 * the instruction behind it where that makes them ascend. */
static bool layers_ascend(bt_pkg_inst *inst, size_t insts)
{
    for (size_t i = insts; i-- > 1;) {
        bt_pkg_inst *n = &inst[i - 1];
        const uint32_t next = inst[i].layer;
        const bool is_late = n->layer != UINT32_MAX && next != UINT32_MAX && n->layer > next;
        const bt_pkg_op_info *r = bt_pkg_op_info_of(n->op);
        if (is_late && r->is_edge && r->tensor == BT_PKG_TENSOR_NONE && r->site == BT_PKG_SITE_NONE)
            n->layer = next;
    }
    bool layered = false, tail = false, ascend = true;
    uint32_t last = 0;
    for (size_t i = 0; i < insts; i++) {
        const uint32_t layer = inst[i].layer;
        if (layer == UINT32_MAX) tail = layered;
        else {
            ascend = ascend && !tail && (!layered || layer >= last);
            layered = true;
            last = layer;
        }
    }
    return ascend;
}

/* Groups linears of one input anew, since they may stand in other places than before. Parts of the output
 * matrix run one by one. */
static void group_linears(bt_pkg_inst *inst, size_t insts)
{
    for (size_t i = 0, n; i < insts; i += n) {
        n = 1;
        if (!bt_pkg_is_linear(&inst[i]) || bt_pkg_part_of(&inst[i])) continue;
        while (n < BT_PKG_MAX_GROUP && i + n < insts && inst[i + n].op == inst[i].op &&
               inst[i + n].unit == inst[i].unit && inst[i + n].in0 == inst[i].in0)
            inst[i + n++].group = 1;
        inst[i].group = (uint8_t)n;
    }
}

/* Fills o->to. false: there is no order that keeps clusters together, and o->to is unusable. */
static bool find_order(order *o)
{
    const size_t insts = o->b->insts;
    size_t done = 0;
    memset(o->waits, 0, insts * sizeof *o->waits);
    for (size_t e = 0; e < o->edges; e++) {
        const uint32_t from = o->item[o->edge[2 * e]], to = o->item[o->edge[2 * e + 1]];
        if (from != to) o->waits[to]++;
    }
    while (done < insts) {
        const uint32_t item = next_item(o);
        if (item == insts) return false;
        done = take(o, item, done);
    }
    group_linears(o->to, insts);
    return layers_ascend(o->to, insts);
}

/* Brings the instructions of each cluster together, so that a cluster can run as one call, and numbers
 * clusters from 1 in the order of the program. Readers stay behind writers, planes stay in their order, and
 * layers ascend. Linears that the new order separates form no group. A program whose clusters lie together
 * stays as it is. Where there is no such order, each run of a cluster's instructions becomes a cluster of its
 * own. */
static bt_err order_clusters(bt_lower_build *b, bt_fault *fault)
{
    uint32_t clusters = 0;
    for (size_t i = 0; i < b->insts; i++)
        if (b->inst[i].cluster > clusters) clusters = b->inst[i].cluster;
    order o = {.b = b, .item = malloc((b->insts + 1) * sizeof *o.item),
               .waits = malloc((b->insts + 1) * sizeof *o.waits),
               .to = malloc((b->insts + 1) * sizeof *o.to)};
    uint8_t *seen = calloc((size_t)clusters + 1, 1);
    uint32_t *first = malloc(((size_t)clusters + 1) * sizeof *first);
    bool made = o.item && o.waits && o.to && seen && first;
    if (made && is_apart(b, seen)) {
        for (size_t c = 0; c <= clusters; c++) first[c] = UINT32_MAX;
        for (uint32_t i = 0; i < b->insts; i++) {
            const uint32_t c = b->inst[i].cluster;
            if (c && first[c] == UINT32_MAX) first[c] = i;
            o.item[i] = c ? first[c] : i;
        }
        made = find_edges(&o);
        if (made && find_order(&o)) memcpy(b->inst, o.to, b->insts * sizeof *b->inst);
    }
    if (made) number_runs(b);
    free(first);
    free(seen);
    free(o.item);
    free(o.waits);
    free(o.edge);
    free(o.to);
    return made ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory ordering %zu instructions", b->insts);
}

/* ---- places ---- */

static void touch(bt_lower_build *b, uint64_t value, uint32_t at)
{
    if (value == BT_PKG_NOWHERE) return;
    if (b->value[value].first == UINT32_MAX) b->value[value].first = at;
    b->value[value].last = at;
}

/* Sets the life of each value. */
static void set_lives(bt_lower_build *b)
{
    for (size_t v = 0; v < b->values; v++) b->value[v].first = UINT32_MAX;
    for (uint32_t i = 0; i < b->insts; i++) {
        touch(b, b->inst[i].in0, i);
        touch(b, b->inst[i].in1, i);
        touch(b, b->inst[i].out, i);
        touch(b, b->inst[i].aux, i);
    }
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The values by their first instruction: ret[values], the caller frees it. NULL: memory is out. */
static uint32_t *order_values(const bt_lower_build *b)
{
    uint64_t *key = malloc((b->values + 1) * sizeof *key);
    uint32_t *ret = malloc((b->values + 1) * sizeof *ret);
    if (key && ret) {
        for (size_t v = 0; v < b->values; v++) key[v] = (uint64_t)b->value[v].first << 32 | v;
        qsort(key, b->values, sizeof *key, by_number);
        for (size_t v = 0; v < b->values; v++) ret[v] = (uint32_t)key[v];
    } else {
        free(ret);
        ret = NULL;
    }
    free(key);
    return ret;
}

/* Bytes of a value of so many rows, as it is placed. false: they do not fit. */
static bool bytes_at(size_t *ret, const bt_lower_value *v, size_t rows)
{
    size_t bytes = 0;
    if (v->is_shadow) bytes = bt_pkg_shadow_bytes(rows, v->stride);
    else if (!bt_mul_size(&bytes, rows, v->stride)) return false;
    if (!bt_add_size(&bytes, bytes, BT_PLACE_ALIGN - 1)) return false;
    *ret = bytes / BT_PLACE_ALIGN * BT_PLACE_ALIGN;
    return true;
}

static bool bytes_of(size_t *ret, const bt_lower_build *b, const bt_lower_value *v)
{
    return bytes_at(ret, v, bt_lower_build_rows(b, v->out_rows));
}

static void resolve(uint64_t *operand, const size_t *offset)
{
    if (*operand != BT_PKG_NOWHERE) *operand = offset[*operand];
}

/* Lists the places by their first instruction, then by their offsets. by_first: the values by their first
 * instruction. */
static void list_places(bt_lowered *l, const bt_lower_build *b, const size_t *offset,
                        const uint32_t *by_first)
{
    for (size_t i = 0; i < b->values; i++) {
        const bt_lower_value *v = &b->value[by_first[i]];
        size_t bytes = 0, at = i;
        (void)bytes_of(&bytes, b, v); /* placing has checked it */
        const bt_pkg_place place = {.name = v->name, .first_inst = v->first, .last_inst = v->last,
                                    .offset = offset[by_first[i]], .bytes = bytes};
        for (; at && l->place[at - 1].first_inst == v->first && l->place[at - 1].offset > place.offset; at--)
            l->place[at] = l->place[at - 1];
        l->place[at] = place;
    }
    l->places = b->values;
}

/* Finds the offset of each value. */
static bt_err place_all(bt_lower_places *ret, const bt_lower_build *b, bt_fault *fault)
{
    bt_extent peak = {0, 0};
    bt_place_item *item = malloc((b->values + 1) * sizeof *item);
    size_t *offset = malloc((b->values + 1) * sizeof *offset);
    bt_err e = item && offset ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory lowering a graph");
    for (size_t v = 0; e == BT_OK && v < b->values; v++) {
        item[v] = (bt_place_item){.first = b->value[v].first, .last = b->value[v].last};
        if (!bytes_of(&item[v].bytes.fixed, b, &b->value[v]))
            e = bt_fail(fault, BT_ELIMIT, "a program for %zu rows does not fit memory", b->in->seq);
    }
    if (e == BT_OK) e = bt_place_items(&peak, item, b->values, fault);
    for (size_t v = 0; e == BT_OK && v < b->values; v++) offset[v] = item[v].offset.fixed;
    free(item);
    if (e < 0) free(offset);
    else
        *ret = (bt_lower_places){.seq = b->in->seq,   .out = b->in->out, .insts = b->insts,
                                 .values = b->values, .offset = offset,  .arena_bytes = peak.fixed};
    return e;
}

/* ---- figures ---- */

enum { FLOAT16_BYTES = 2 };

/* Bytes of a row of an operand as the device keeps it; in0, in1 and out are still numbers of values. */
static uint64_t kept(const bt_lower_build *b, uint64_t value, uint32_t stride, uint32_t width)
{
    const bool is_float16 = value != BT_PKG_NOWHERE && b->value[value].is_float16;
    return is_float16 ? bt_lower_build_stride(b, width, FLOAT16_BYTES) : stride;
}

/* Bytes of rows that are read at in0 and written at out. A slice moves its rows and heads, a part of the
 * output matrix its outputs. Together they move what the whole would, except that each part reads the input
 * again. */
static uint64_t rows_moved(const bt_lower_build *b, const bt_pkg_inst *i, uint64_t rows)
{
    const uint32_t heads = b->in->graph->hp.heads;
    const bool is_logits = bt_pkg_is_npu_linear(i) && i->out == BT_PKG_NOWHERE;
    const uint64_t in = kept(b, i->in0, bt_areas_in0_stride(i), i->in_width),
                   elem_bytes = i->unit == BT_PKG_NPU_FLOAT ? FLOAT16_BYTES : sizeof(float),
                   out = is_logits ? elem_bytes * i->out_width : kept(b, i->out, i->out_stride, i->out_width);
    if (bt_pkg_is_attention(i) && i->arg) {
        const bt_pkg_slice s = bt_pkg_layout_slice(b->in->layout, (uint32_t)rows, heads, i->arg);
        return (uint64_t)s.rows * s.heads * (in / heads + out / heads);
    }
    return rows * (in + out);
}

static uint64_t bytes_moved(const bt_lower_build *b)
{
    uint64_t sum = 0;
    for (size_t n = 0; n < b->insts; n++) {
        const bt_pkg_inst *i = &b->inst[n];
        const uint64_t rows = bt_lower_build_rows(b, i->out_rows);
        sum += rows_moved(b, i, rows);
        if (bt_pkg_op_info_of(i->op)->shape == BT_SHAPE_MIX) /* reads several rows for one */
            sum += rows * (b->in->graph->hp.experts_used - 1) * i->in_stride;
        if (i->in1 != BT_PKG_NOWHERE) sum += rows * kept(b, i->in1, bt_areas_in1_stride(i), i->in_width);
        if (bt_pkg_op_info_of(i->op)->shape == BT_SHAPE_STORE)
            sum += rows * i->in_width * 2 * 2; /* K and V in f16 */
    }
    return sum;
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
        *(i->unit == BT_PKG_COMPANION ? &p->companion_macs : &p->npu_macs) += rows * i->macs_per_row;
        if (i->cluster > p->clusters) p->clusters = i->cluster;
    }
}

/* The number of instructions to make room for; 0: slices and parts make more than a program may have. */
static size_t insts_cap(const bt_lower_build *b, bt_fault *fault)
{
    const uint64_t plain = b->ops * INSTS_PER_OP + bt_lower_build_parts(b);
    const uint64_t slices = bt_lower_build_slices(b);
    uint64_t all = 0;
    for (size_t i = 0; i < b->ops; i++)
        if (b->in->graph->op[i].kind == BT_OP_ATTENTION && b->in->on_npu[i]) all += slices;
    const uint64_t switches = b->in->graph->hp.layers + 1; /* the most SESSIONs that switches.c may add */
    if (slices == 1 || !all || plain + all + switches <= BT_PKG_MAX_INSTS) return (size_t)(plain + all);
    (void)bt_fail(fault, BT_ELIMIT,
                  "attention of %zu rows in %llu slices (query_slice_rows %u, attention_heads_max %u) makes "
                  "%llu instructions of a program, at most %d: fewer rows in a shape, or larger slices",
                  b->in->seq, (unsigned long long)slices, b->in->layout->query_slice_rows,
                  b->in->layout->attention_heads_max, (unsigned long long)(plain + all), BT_PKG_MAX_INSTS);
    return 0;
}

/* Checks that the operators can be where they are placed. */
static bt_err check_units(const bt_lower_in *in, bt_fault *fault)
{
    for (size_t i = 0; i < in->graph->ops; i++) {
        const bt_op_kind kind = in->graph->op[i].kind;
        const bool needs_params =
            in->on_npu[i] == BT_PKG_NPU && !bt_op_is_linear(&in->graph->op[i]) && kind != BT_OP_ATTENTION;
        if (in->on_npu[i] >= BT_PKG_UNITS || (in->on_npu[i] && bt_op_infos[kind].class == BT_CLASS_EDGE) ||
            (needs_params && !in->params))
            return bt_fail(fault, BT_EARG, "lowering: operator %zu, %s, cannot be on the NPU", i,
                           bt_op_name(kind));
    }
    return BT_OK;
}

static bt_err check_rows(size_t seq, size_t out, bt_fault *fault)
{
    if (seq >= 1 && seq <= UINT32_MAX && (out == 0 || seq % out == 0)) return BT_OK;
    return bt_fail(fault, BT_EARG,
                   "lowering for %zu rows, %zu with logits: none, one of each sequence or all", seq, out);
}

/* ---- drafts ---- */

struct bt_lower_draft {
    bt_lower_in in;
    bt_lower_build b;
    uint32_t *by_first;   /* [values]: by their first instruction */
    bt_lower_places unit; /* for UNIT rows and as many with logits, or none; values 0: not found yet */
};

enum { UNIT = 16 };

/* Gives back the memory that the lists do not need. */
static void shrink(bt_lower_build *b)
{
    void *inst = realloc(b->inst, (b->insts + 1) * sizeof *b->inst),
         *value = realloc(b->value, (b->values + 1) * sizeof *b->value);
    if (inst) b->inst = inst;
    if (value) b->value = value;
    free(b->tensor);
    b->tensor = NULL;
}

static bt_err build(bt_lower_draft *d, bt_fault *fault)
{
    const size_t tensors = d->in.graph->tensors;
    bt_lower_build *b = &d->b;
    bt_lower_tensor nowhere = {.written = BT_PKG_FORM_F32};
    for (int f = 0; f < BT_PKG_FORMS; f++) nowhere.value[f] = BT_PKG_NONE;
    if ((b->insts_cap = insts_cap(b, fault)) == 0) return BT_ELIMIT;
    b->values_cap = b->ops * VALUES_PER_OP + tensors;
    b->inst = malloc(b->insts_cap * sizeof *b->inst);
    b->value = malloc(b->values_cap * sizeof *b->value);
    b->tensor = malloc(tensors * sizeof *b->tensor);
    if (!b->inst || !b->value || !b->tensor)
        return bt_fail(fault, BT_ENOMEM, "out of memory lowering a graph");
    for (size_t t = 0; t < tensors; t++) b->tensor[t] = nowhere;
    lower_operators(b);
    const bt_err e = order_clusters(b, fault);
    if (e < 0) return e;
    shrink(b);
    set_lives(b);
    d->by_first = order_values(b);
    return d->by_first ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory lowering a graph");
}

bt_err bt_lower_draft_new(bt_lower_draft **ret, const bt_lower_in *in, bt_fault *fault)
{
    bt_err e = check_rows(in->seq, in->out, fault);
    if (e == BT_OK) e = check_units(in, fault);
    if (e < 0) return e;
    bt_lower_draft *d = calloc(1, sizeof *d);
    if (!d) return bt_fail(fault, BT_ENOMEM, "out of memory lowering a graph");
    d->in = *in;
    d->b = (bt_lower_build){.in = &d->in, .ops = in->out ? in->graph->ops : in->graph->op_tail,
                            .planes_input = BT_PKG_NOWHERE};
    e = build(d, fault);
    if (e == BT_OK) *ret = d;
    else bt_lower_draft_free(d);
    return e;
}

void bt_lower_draft_free(bt_lower_draft *d)
{
    if (!d) return;
    free(d->b.inst);
    free(d->b.value);
    free(d->b.tensor);
    free(d->by_first);
    free(d->unit.offset);
    free(d);
}

bool bt_lower_draft_serves(const bt_lower_draft *d, size_t seq, size_t out)
{
    bt_lower_in in = d->in;
    const bt_lower_build b = {.in = &in};
    in.seq = seq;
    return !out == !d->in.out && bt_lower_build_slices(&b) == bt_lower_build_slices(&d->b);
}

static bt_err place_rows(bt_lower_places *ret, const bt_lower_draft *d, size_t seq, size_t out,
                         bt_fault *fault)
{
    bt_lower_in in = d->in;
    bt_lower_build b = d->b;
    in.seq = seq;
    in.out = out;
    b.in = &in;
    return place_all(ret, &b, fault);
}

/* Whether each value is `times` as large as at UNIT rows. */
static bool is_multiple(const bt_lower_draft *d, size_t times)
{
    for (size_t i = 0; i < d->b.values; i++) {
        size_t unit, all, whole;
        if (!bytes_at(&unit, &d->b.value[i], UNIT) || !bytes_at(&all, &d->b.value[i], UNIT * times) ||
            !bt_mul_size(&whole, unit, times) || all != whole)
            return false;
    }
    return true;
}

/* The places at UNIT rows, times `times`. First fit finds them where all sizes are multiples, because it only
 * adds and compares. false: memory is out, or an offset does not fit. */
static bool multiply(bt_lower_places *ret, const bt_lower_draft *d, size_t times)
{
    const bt_lower_places *u = &d->unit;
    size_t arena;
    if (!bt_mul_size(&arena, u->arena_bytes, times)) return false;
    size_t *offset = malloc((u->values + 1) * sizeof *offset);
    for (size_t i = 0; offset && i < u->values; i++) offset[i] = u->offset[i] * times;
    *ret = (bt_lower_places){.seq = u->seq * times, .out = u->out * times, .insts = u->insts,
                             .values = u->values,   .offset = offset,      .arena_bytes = arena};
    return offset != NULL;
}

bt_err bt_lower_draft_place(bt_lower_places *ret, bt_lower_draft *d, size_t seq, size_t out, bt_fault *fault)
{
    bt_err e = check_rows(seq, out, fault);
    if (e < 0) return e;
    const size_t times = seq / UNIT;
    if (seq % UNIT || (out && out != seq) || !is_multiple(d, times))
        return place_rows(ret, d, seq, out, fault);
    if (!d->unit.values) e = place_rows(&d->unit, d, UNIT, out ? UNIT : 0, fault);
    if (e < 0 || multiply(ret, d, times)) return e;
    return place_rows(ret, d, seq, out, fault);
}

bt_err bt_lower_draft_at(bt_lowered *ret, const bt_lower_draft *d, const bt_lower_places *places,
                         bt_fault *fault)
{
    bt_lower_in in = d->in;
    bt_lower_build b = d->b;
    bt_lowered l = {.inst = malloc((b.insts + 1) * sizeof *l.inst),
                    .place = malloc((b.values + 1) * sizeof *l.place), .insts = b.insts};
    if (!l.inst || !l.place) {
        bt_lower_done(&l);
        return bt_fail(fault, BT_ENOMEM, "out of memory lowering a graph");
    }
    in.seq = places->seq;
    in.out = places->out;
    b.in = &in;
    memcpy(l.inst, b.inst, b.insts * sizeof *l.inst);
    for (size_t i = 0; i < l.insts; i++) {
        resolve(&l.inst[i].in0, places->offset);
        resolve(&l.inst[i].in1, places->offset);
        resolve(&l.inst[i].out, places->offset);
        resolve(&l.inst[i].aux, places->offset);
    }
    list_places(&l, &b, places->offset, d->by_first);
    l.program.arena_bytes = places->arena_bytes;
    l.program.activation_bytes_moved = bytes_moved(&b);
    count(&l, &b);
    *ret = l;
    return BT_OK;
}

bt_err bt_lower(bt_lowered *ret, const bt_lower_in *in, bt_fault *fault)
{
    bt_lower_draft *d = NULL;
    bt_lower_places places = {.offset = NULL};
    bt_err e = bt_lower_draft_new(&d, in, fault);
    if (e == BT_OK) e = bt_lower_draft_place(&places, d, in->seq, in->out, fault);
    if (e == BT_OK) e = bt_lower_draft_at(ret, d, &places, fault);
    free(places.offset);
    bt_lower_draft_free(d);
    return e;
}

void bt_lower_done(bt_lowered *l)
{
    free(l->inst);
    free(l->place);
    *l = (bt_lowered){0};
}
