/* Times of heads from the terms of device/time.h, and their plan. */
#include "device/sparse.h"
#include "device/time.h"

static uint64_t plus(uint64_t a, uint64_t b) { return bt_time_plus(a, b); }
static uint64_t times(uint64_t a, uint64_t b) { return bt_time_times(a, b); }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t over(uint64_t n, uint64_t by) { return n / by + (n % by != 0); }
static uint64_t activation_rate(const bt_profile *p) { return bt_time_activation_rate(&p->time); }

uint64_t bt_sparse_dense(const bt_sparse *s, uint64_t first, uint64_t rows)
{
    return first < s->dense_rows ? least(rows, s->dense_rows - first) : 0;
}

/* The figures of a layer that do not depend on the head. */
typedef struct layer {
    const bt_sparse *s;
    const bt_sparse_engines *e;
    uint64_t rows, choosing, pairs, positions, columns; /* pairs: of a row and a position that it sees */
} layer;

static uint64_t estimate_ns(const layer *l)
{
    const bt_time_matrix m = {.rows = l->choosing, .inputs = l->s->head_dim, .outputs = l->columns,
                              .weight_bits = 8, .input_bits = 8};
    const bt_profile *npu = l->e->npu;
    const uint64_t passing = times(l->choosing, plus(l->s->head_dim, times(4, l->columns)));
    return most(bt_time_of_matrix(npu, &m) - npu->time.op_launch_ns,
                bt_time_of(passing, activation_rate(npu)));
}

/* Positions kept by the rows of a head. Rows that share a choice each have those up to their own beside it.
 */
static uint64_t kept_of(const layer *l, uint32_t head)
{
    const uint64_t chosen = bt_time_scale(l->pairs, l->s->ppm[head], 1000000);
    return least(l->pairs, plus(chosen, times(l->rows, l->s->rows - 1) / 2));
}

/* Attention of `heads` heads that have one list, kept positions all together. */
static uint64_t attend_ns(const layer *l, uint64_t kept, uint64_t heads)
{
    const bt_profile *on = l->e->attends == BT_SCHEDULE_NPU ? l->e->npu : l->e->companion;
    const uint64_t ops = times(kept, 4 * (uint64_t)l->s->head_dim),
                   tiles = times(over(l->rows, BT_SPARSE_TILE_ROWS), l->positions),
                   reads = least(kept / heads / l->s->rows, tiles),
                   row = (uint64_t)2 * l->s->head_dim * l->s->kv_elem_bits / 8;
    const uint64_t ns = most(bt_time_of(ops, bt_time_rate(&on->time, BT_SPARSE_TILE_ROWS, 16, 16)),
                             bt_time_of(times(reads, row), activation_rate(on)));
    return plus(ns, bt_time_of(kept, on->time.score_elements_per_us));
}

/* Times of all heads; heads that share a choice count as one. */
static uint32_t list_heads(bt_heads_times *head, bt_sparse_cost *cost, const layer *l)
{
    const bt_sparse *s = l->s;
    const uint32_t together = s->is_group ? s->heads / s->kv_heads : 1, n = s->heads / together;
    const uint64_t choosing_pairs = over(l->pairs, s->rows), estimate = estimate_ns(l),
                   choose = bt_time_of(times(8, choosing_pairs), activation_rate(l->e->companion));
    for (uint32_t i = 0; i < n; i++) {
        uint64_t kept = 0;
        for (uint32_t h = i * together; h < (i + 1) * together; h++) kept = plus(kept, kept_of(l, h));
        head[i] = (bt_heads_times){estimate, choose, attend_ns(l, kept, together)};
        cost->kept = plus(cost->kept, kept);
    }
    cost->seen = times(n, choosing_pairs);
    cost->ops = plus(times(times(n, times(l->choosing, l->columns)), 2 * (uint64_t)s->head_dim),
                     times(cost->kept, 4 * (uint64_t)s->head_dim));
    cost->bytes =
        plus(times(times(n, l->choosing), times(8, l->columns)),
             times(cost->kept / s->rows / together, (uint64_t)2 * s->head_dim * s->kv_elem_bits / 8));
    return n;
}

bt_sparse_cost bt_sparse_layer(const bt_sparse *s, const bt_sparse_engines *e, uint64_t first, uint64_t rows,
                               uint64_t ctx, bt_heads_plan *plan)
{
    const bt_profile_time *npu = &e->npu->time;
    const uint64_t seen = plus(first, rows), sync = bt_time_sync(npu, &e->companion->time);
    const layer l = {.s = s,
                     .e = e,
                     .rows = rows,
                     .choosing = over(rows, s->rows),
                     .positions = seen,
                     .columns = most(ctx, seen),
                     .pairs = bt_time_pairs(first, rows, 0)};
    bt_heads_times head[BT_HEADS_MAX];
    bt_heads_plan made;
    bt_sparse_cost cost = {0};
    const uint32_t n = list_heads(head, &cost, &l);
    const bt_heads_work work = {head, n, plus(npu->op_launch_ns, plus(npu->dispatch_ns, sync)),
                                BT_SPARSE_FUSED, e->attends};
    (void)bt_heads_make(&made, &work, NULL); /* heads are in range */
    const uint64_t elems = times(plus(times(s->kv_heads, seen), times(n, l.choosing)), s->head_dim),
                   prepare = bt_time_of(times(5, elems), activation_rate(e->companion));
    cost.bytes = plus(cost.bytes, times(5, elems));
    cost.ns = plus(plus(prepare, sync), made.ns);
    cost.busy_ns[BT_SCHEDULE_NPU] = plus(made.busy_ns[BT_SCHEDULE_NPU], sync);
    cost.busy_ns[BT_SCHEDULE_COMPANION] = plus(made.busy_ns[BT_SCHEDULE_COMPANION], prepare);
    if (plan) *plan = made;
    return cost;
}
