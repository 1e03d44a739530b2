/* Packing programs: cuts them at the borders of layers and finds the bodies that are there already. */
#include "npu/lower/bodies.h"

#include <stdlib.h>
#include <string.h>

/* Elements in one array, and the runs of elements that are bodies. */
typedef struct pool {
    size_t elem_bytes, count, room;
    uint8_t *elem;
    size_t runs, runs_room;
    struct run {
        uint32_t first, count;
    } * run;
} pool;
struct bt_bodies {
    pool inst, place, params;
};

bt_err bt_bodies_new(bt_bodies **ret, bt_fault *fault)
{
    bt_bodies *b = calloc(1, sizeof *b);
    if (!b) return bt_fail(fault, BT_ENOMEM, "out of memory packing programs");
    b->inst.elem_bytes = sizeof(bt_pkg_inst);
    b->place.elem_bytes = sizeof(bt_pkg_place);
    b->params.elem_bytes = sizeof(uint32_t);
    *ret = b;
    return BT_OK;
}

void bt_bodies_free(bt_bodies *b)
{
    if (!b) return;
    pool *all[] = {&b->inst, &b->place, &b->params};
    for (size_t i = 0; i < 3; i++) {
        free(all[i]->elem);
        free(all[i]->run);
    }
    free(b);
}

/* Makes room for n more elements of `bytes` bytes each. */
static bool grow(void **list, size_t *room, size_t count, size_t n, size_t bytes)
{
    if (count + n <= *room) return true;
    const size_t wanted = 2 * (count + n);
    void *grown = realloc(*list, wanted * bytes);
    if (!grown) return false;
    *list = grown;
    *room = wanted;
    return true;
}

/* The index of these n elements in the pool, added if they are new. false: memory is out. */
static bool intern(uint32_t *ret, pool *p, const void *elem, size_t n)
{
    void *list = p->elem, *runs = p->run;
    *ret = 0;
    if (!n) return true;
    for (size_t i = 0; i < p->runs; i++)
        if (p->run[i].count == n &&
            !memcmp(p->elem + p->run[i].first * p->elem_bytes, elem, n * p->elem_bytes)) {
            *ret = p->run[i].first;
            return true;
        }
    const bool fits = grow(&list, &p->room, p->count, n, p->elem_bytes) &&
                      grow(&runs, &p->runs_room, p->runs, 1, sizeof *p->run);
    p->elem = list;
    p->run = runs;
    if (!fits) return false;
    memcpy(p->elem + p->count * p->elem_bytes, elem, n * p->elem_bytes);
    p->run[p->runs++] = (struct run){(uint32_t)p->count, (uint32_t)n};
    *ret = (uint32_t)p->count;
    p->count += n;
    return true;
}

/* ---- one piece ---- */

static bool has_params(const bt_pkg_inst *i)
{
    return i->params && i->params != BT_PKG_NONE && i->op != BT_PKG_SESSION;
}

/* The least cluster of the instructions, minus one; 0: they have no cluster. */
static uint32_t cluster_base(const bt_pkg_inst *inst, size_t n)
{
    uint32_t least = 0;
    for (size_t i = 0; i < n; i++)
        if (inst[i].cluster && (!least || inst[i].cluster < least)) least = inst[i].cluster;
    return least ? least - 1 : 0;
}

/* Makes a body of the instructions: to[n], and params[n], the parameters that it names. Returns how many
 * those are. */
static size_t make_body(bt_pkg_inst *to, uint32_t *params, const bt_pkg_inst *inst, const bt_pkg_piece *q)
{
    const bool in_layer = q->layer != UINT32_MAX;
    size_t used = 0;
    memcpy(to, inst, q->insts * sizeof *to);
    for (uint32_t i = 0; i < q->insts; i++) {
        if (in_layer) to[i].layer = 0;
        if (in_layer && to[i].tensor != BT_PKG_NONE) to[i].tensor -= q->layer * BT_PKG_LAYER_TENSORS;
        if (in_layer && to[i].site != BT_PKG_NONE) to[i].site -= q->layer * BT_PKG_LAYER_SITES;
        if (to[i].cluster) to[i].cluster -= q->cluster;
        if (!has_params(&to[i])) continue;
        params[used++] = (uint32_t)to[i].params;
        to[i].params = used;
    }
    return used;
}

/* Scratch for a whole program. */
typedef struct scratch {
    bt_pkg_inst *inst;
    bt_pkg_place *place;
    uint32_t *params;
    bt_pkg_piece *piece;
} scratch;

/* Packs the piece that begins at instruction `first`; its places begin at `place`. */
static bool pack_piece(bt_bodies *b, bt_pkg_piece *q, scratch *s, const bt_lowered *l, size_t first,
                       size_t place)
{
    size_t end = first, places = 0;
    while (end < l->insts && l->inst[end].layer == l->inst[first].layer) end++;
    *q = (bt_pkg_piece){.insts = (uint32_t)(end - first), .layer = l->inst[first].layer};
    q->cluster = cluster_base(l->inst + first, end - first);
    const size_t params = make_body(s->inst, s->params, l->inst + first, q);
    for (; place + places < l->places && l->place[place + places].first_inst < end; places++) {
        s->place[places] = l->place[place + places];
        s->place[places].first_inst -= (uint32_t)first;
        s->place[places].last_inst -= (uint32_t)first;
    }
    q->places = (uint32_t)places;
    return intern(&q->inst, &b->inst, s->inst, q->insts) && intern(&q->place, &b->place, s->place, places) &&
           intern(&q->params, &b->params, s->params, params);
}

bt_err bt_bodies_pack(bt_bodies *b, bt_lowered *l, bt_pkg_writer *w, bt_fault *fault)
{
    scratch s = {.inst = malloc(l->insts * sizeof *s.inst), .place = malloc(l->places * sizeof *s.place),
                 .params = malloc(l->insts * sizeof *s.params), .piece = malloc(l->insts * sizeof *s.piece)};
    bool ok = s.inst && s.place && s.params && s.piece;
    size_t n = 0;
    for (size_t first = 0, place = 0; ok && first < l->insts; n++) {
        ok = pack_piece(b, &s.piece[n], &s, l, first, place);
        first += s.piece[n].insts;
        place += s.piece[n].places;
    }
    if (ok) {
        l->program.code = bt_pkg_writer_const(w, BT_PKG_CONST_PIECES, s.piece, n * sizeof *s.piece);
        l->program.plan = BT_PKG_NONE;
    }
    free(s.inst);
    free(s.place);
    free(s.params);
    free(s.piece);
    return ok ? BT_OK : bt_fail(fault, BT_ENOMEM, "out of memory packing programs");
}

void bt_bodies_write(const bt_bodies *b, bt_pkg_writer *w, bt_pkg_header *h)
{
    const struct {
        const pool *pool;
        bt_pkg_const_kind kind;
        uint32_t *to;
    } all[] = {{&b->inst, BT_PKG_CONST_CODE, &h->body_code},
               {&b->place, BT_PKG_CONST_PLAN, &h->body_plan},
               {&b->params, BT_PKG_CONST_TABLE, &h->body_params}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].pool->count)
            *all[i].to = bt_pkg_writer_const(w, all[i].kind, all[i].pool->elem,
                                             all[i].pool->count * all[i].pool->elem_bytes);
}
