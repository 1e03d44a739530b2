/* The order of a program's instructions. Items are clusters, and single instructions of the companion; the
 * next item is the one that stands first in the old order and waits for nothing. */
#include "npu/lower/lower_order.h"
#include "npu/pkg/areas.h"
#include "npu/pkg/pkg_layout.h"

#include <stdlib.h>
#include <string.h>

typedef struct order {
    bt_lower_build *b;
    uint32_t *item;  /* [insts]: of an instruction: the first of its cluster, or itself */
    uint32_t *waits; /* [insts]: of an item: how many edges from items that are not done */
    uint32_t *edge;  /* [2 * edges]: instructions from, to */
    size_t edges, edges_cap;
    bt_pkg_inst *to; /* [insts]: the new order */
} order;

/* ---- numbers ---- */

/* Each run of instructions of one cluster is a cluster. */
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

/* Whether a cluster is left and entered again. seen[clusters + 1] */
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

/* ---- edges ---- */

typedef struct users { /* of a value, or of the planes, or of the cache */
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

/* More readers than there is room for: the last one waits for the one whose room it takes. */
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
    users *of = calloc(b->values + 2, sizeof *of), *planes = of + b->values, *kv = planes + 1;
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
    }
    free(of);
    return made;
}

/* ---- the new order ---- */

/* The first item that waits for nothing and is not done; insts: none. */
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

/* Conversions without a tensor or a site belong to no layer of their own. */
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

/* Linears of one input may stand in other places than before: groups anew. Parts of the output matrix run
 * one by one. */
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

/* false: there is no such order; o->to is then of no use. */
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

bt_err bt_lower_order(bt_lower_build *b, bt_fault *fault)
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
    return made ? BT_OK : bt_fail(fault, BT_ENOMEM, "ordering %zu instructions", b->insts);
}
