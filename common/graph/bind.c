/* Binding: sizes from formulas, lives from the order of the operators, places by graph/place.h. Nothing here
 * runs anything. */
#include "graph/bind.h"
#include "base/num.h"

#include <stdlib.h>

/* The bytes of a tensor; where batch is open, b has 1 for it. */
static bt_err act_bytes(bt_extent *ret, const bt_tensor *t, bool is_open, const bt_bind *b, bt_fault *fault)
{
    const uint8_t power = is_open ? t->rows.exp[BT_SYM_BATCH] : 0;
    uint64_t rows;
    const bt_err e = bt_formula_eval(&rows, t->rows, b, fault);
    if (e < 0) return e;
    if (power > 1) return bt_fail(fault, BT_EARG, "tensor '%s' grows with the square of batch", t->name);
    size_t n;
    if (rows > SIZE_MAX || !bt_mul_size(&n, (size_t)rows, t->width) || !bt_mul_size(&n, n, 4))
        return bt_fail(fault, BT_ELIMIT, "tensor '%s' with %llu rows does not fit memory", t->name,
                       (unsigned long long)rows);
    *ret = power ? (bt_extent){0, n} : (bt_extent){n, 0};
    return BT_OK;
}

/* Collect the activations that the first `ops` operators use, with their lives. */
static bt_err lives(bt_program *p, size_t ops, const bt_bind *b, bt_fault *fault)
{
    const bt_graph *g = p->graph;
    uint32_t *index = malloc(g->tensors * sizeof *index); /* tensor -> place */
    bt_err e = BT_OK;
    if (!index) return bt_fail(fault, BT_ENOMEM, "out of memory binding a graph");
    for (size_t t = 0; t < g->tensors; t++) index[t] = UINT32_MAX;
    for (size_t i = 0; i < ops; i++) {
        const uint32_t names[3] = {g->op[i].in[0], g->op[i].in[1], g->op[i].out};
        for (int j = 0; j < 3; j++) {
            if (names[j] == BT_GRAPH_NO_TENSOR || g->tensor[names[j]].kind != BT_TENSOR_ACT) continue;
            uint32_t *at = &index[names[j]];
            if (*at == UINT32_MAX) {
                *at = (uint32_t)p->places;
                bt_placement *place = &p->place[p->places++];
                *place = (bt_placement){.tensor = names[j], .first_op = (uint32_t)i};
                if ((e = act_bytes(&place->bytes, &g->tensor[names[j]], !p->batch, b, fault)) < 0) goto out;
            }
            p->place[*at].last_op = (uint32_t)i;
        }
    }
out:
    free(index);
    return e;
}

static int by_tensor(const void *a, const void *b)
{
    const bt_placement *x = a, *y = b;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static bt_err place_all(bt_program *p, bt_fault *fault)
{
    qsort(p->place, p->places, sizeof *p->place, by_tensor);
    bt_place_item *item = malloc((p->places + 1) * sizeof *item);
    if (!item) return bt_fail(fault, BT_ENOMEM, "out of memory binding a graph");
    for (size_t i = 0; i < p->places; i++)
        item[i] = (bt_place_item){.bytes = p->place[i].bytes, .first = p->place[i].first_op,
                                  .last = p->place[i].last_op};
    const bt_err e = bt_place_items(&p->arena, item, p->places, fault);
    for (size_t i = 0; e == BT_OK && i < p->places; i++) {
        p->place[i].bytes = item[i].bytes;
        p->place[i].offset = item[i].offset;
    }
    free(item);
    return e;
}

static bt_extent offset_of(const bt_program *p, uint32_t tensor)
{
    const bt_placement key = {.tensor = tensor};
    const bt_placement *found = bsearch(&key, p->place, p->places, sizeof key, by_tensor);
    return found ? found->offset : BT_BIND_NOWHERE;
}

static void resolve(bt_program *p)
{
    const bt_graph *g = p->graph;
    for (size_t i = 0; i < p->steps; i++) {
        const bt_op *o = &g->op[i];
        bt_step *s = &p->step[i];
        p->rotates |= o->kind == BT_OP_ROTATE;
        *s = (bt_step){.kind = o->kind,
                       .layer = o->layer,
                       .weight = o->weight,
                       .in = {o->in[0], o->in[1]},
                       .out = o->out,
                       .heads = o->heads,
                       .rotation = o->rotation,
                       .group = 1,
                       .out_at = offset_of(p, o->out),
                       .out_width = g->tensor[o->out].width,
                       .rows = (size_t)g->tensor[o->out].rows.coef *
                               (g->tensor[o->out].rows.exp[BT_SYM_OUT] ? p->out : p->seq)};
        for (int j = 0; j < 2; j++) {
            s->in_at[j] = offset_of(p, o->in[j]);
            s->in_width[j] = o->in[j] == BT_GRAPH_NO_TENSOR ? 0 : g->tensor[o->in[j]].width;
        }
    }
    for (size_t i = 0; i < p->steps; i++)
        while (bt_op_infos[p->step[i].kind].price == BT_PRICED_MATRIX && i + p->step[i].group < p->steps) {
            const bt_step *next = &p->step[i + p->step[i].group];
            if (next->kind != p->step[i].kind || next->in[0] != p->step[i].in[0] ||
                p->step[i].group == BT_BIND_MAX_GROUP)
                break;
            p->step[i].group++;
        }
}

bt_err bt_bind_program(bt_program **ret, const bt_graph *g, size_t batch, size_t seq, size_t out,
                       uint64_t ctx, bt_fault *fault)
{
    if (seq < 1 || (out != 0 && out != 1 && out != seq))
        return bt_fail(fault, BT_EARG, "binding batch %zu, seq %zu, out %zu: out must be 0, 1 or seq", batch,
                       seq, out);
    bt_err e;
    bt_program *p = calloc(1, sizeof *p);
    if (!p) return bt_fail(fault, BT_ENOMEM, "out of memory binding a graph");
    const bt_bind b = {
        .value =
            {[BT_SYM_BATCH] = batch ? batch : 1, [BT_SYM_SEQ] = seq, [BT_SYM_CTX] = ctx, [BT_SYM_OUT] = out},
    };
    p->graph = g;
    p->batch = batch;
    p->seq = seq;
    p->out = out;
    p->ctx = ctx;
    p->steps = out ? g->ops : g->op_tail;
    p->step = calloc(p->steps, sizeof *p->step);
    p->place = calloc(g->tensors, sizeof *p->place);
    if (!p->step || !p->place) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory binding a graph");
        goto out;
    }
    if ((e = lives(p, p->steps, &b, fault)) < 0 || (e = place_all(p, fault)) < 0) goto out;
    resolve(p);
    *ret = p;
    p = NULL;
out:
    bt_bind_free(p);
    return e;
}

void bt_bind_free(bt_program *p)
{
    if (!p) return;
    free(p->step);
    free(p->place);
    free(p);
}

bt_err bt_bind_arena_bytes(size_t *ret, const bt_program *p, size_t batch, bt_fault *fault)
{
    size_t each, sum;
    if (!bt_mul_size(&each, p->arena.each, batch) || !bt_add_size(&sum, p->arena.fixed, each))
        return bt_fail(fault, BT_ELIMIT, "the arena of %zu sequences does not fit memory", batch);
    *ret = sum;
    return BT_OK;
}
