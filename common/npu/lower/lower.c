/* Lowering: the instructions of all operators (lower_ops.c), then the life and the place of each value. */
#include "npu/lower/lower.h"
#include "graph/place.h"
#include "npu/lower/lower_build.h"
#include "npu/lower/lower_ops.h"
#include "npu/lower/lower_order.h"
#include "npu/pkg/areas.h"
#include "npu/pkg/pkg_layout.h"

#include <stdlib.h>

/* No operator becomes more instructions or values than this. */
enum { INSTS_PER_OP = 4, VALUES_PER_OP = 6 };

/* ---- places ---- */

static void touch(bt_place_item *item, uint64_t value, uint32_t at)
{
    if (value == BT_PKG_NOWHERE) return;
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all items are set before */
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
        l->place[v] =
            (bt_pkg_place){.name = b->value[v].name, .first_inst = item[v].first, .last_inst = item[v].last,
                           .offset = item[v].offset.fixed, .bytes = item[v].bytes.fixed};
    qsort(l->place, b->values, sizeof *l->place, by_first);
    l->places = b->values;
    l->program.arena_bytes = peak.fixed;
out:
    free(item);
    return e;
}

/* ---- figures ---- */

enum { FLOAT16_BYTES = 2 };

/* Bytes of a row of an operand as the device keeps it. Operands are values still. */
static uint64_t kept(const bt_lower_build *b, uint64_t value, uint32_t stride, uint32_t width)
{
    const bool is_float16 = value != BT_PKG_NOWHERE && b->value[value].is_float16;
    return is_float16 ? bt_lower_build_stride(b, width, FLOAT16_BYTES) : stride;
}

/* Bytes of rows that go in at in0 and out at out. A slice moves its rows and heads, a part of the output
 * matrix its columns: all of them what the whole would, but that each part reads the input again. */
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

/* Room for all instructions; 0: slices and parts make more than a program may have. */
static size_t insts_cap(const bt_lower_build *b, bt_fault *fault)
{
    const uint64_t plain = b->ops * INSTS_PER_OP + bt_lower_build_parts(b);
    const uint64_t slices = bt_lower_build_slices(b);
    uint64_t all = 0;
    for (size_t i = 0; i < b->ops; i++)
        if (b->in->graph->op[i].kind == BT_OP_ATTENTION && b->in->on_npu[i]) all += slices;
    const uint64_t switches = b->in->graph->hp.layers + 1; /* at most, put in later */
    if (slices == 1 || !all || plain + all + switches <= BT_PKG_MAX_INSTS) return (size_t)(plain + all);
    (void)bt_fail(fault, BT_ELIMIT,
                  "attention of %zu rows in %llu slices (query_slice_rows %u, attention_heads_max %u) makes "
                  "%llu instructions of a program, at most %d: fewer rows in a shape, or larger slices",
                  b->in->seq, (unsigned long long)slices, b->in->layout->query_slice_rows,
                  b->in->layout->attention_heads_max, (unsigned long long)(plain + all), BT_PKG_MAX_INSTS);
    return 0;
}

bt_err bt_lower(bt_lowered *ret, const bt_lower_in *in, bt_fault *fault)
{
    if (in->seq < 1 || in->seq > UINT32_MAX || (in->out != 0 && in->seq % in->out != 0))
        return bt_fail(fault, BT_EARG,
                       "lowering for %zu rows, %zu with logits: none, one of each sequence or all", in->seq,
                       in->out);
    for (size_t i = 0; i < in->graph->ops; i++) {
        const bt_op_kind kind = in->graph->op[i].kind;
        const bool needs_params =
            in->on_npu[i] == BT_PKG_NPU && kind != BT_OP_LINEAR && kind != BT_OP_ATTENTION;
        if (in->on_npu[i] >= BT_PKG_UNITS || (in->on_npu[i] && !bt_op_infos[kind].is_asked) ||
            (needs_params && !in->params))
            return bt_fail(fault, BT_EARG, "lowering: operator %zu, %s, cannot be on the NPU", i,
                           bt_op_name(kind));
    }
    const size_t tensors = in->graph->tensors;
    bt_lower_tensor nowhere = {.written = BT_PKG_FORM_F32};
    for (int f = 0; f < BT_PKG_FORMS; f++) nowhere.value[f] = BT_PKG_NONE;
    bt_lowered l = {0};
    bt_lower_build b = {.in = in, .ops = in->out ? in->graph->ops : in->graph->op_tail,
                        .planes_input = BT_PKG_NOWHERE};
    if ((b.insts_cap = insts_cap(&b, fault)) == 0) return BT_ELIMIT;
    b.values_cap = b.ops * VALUES_PER_OP + tensors;
    b.inst = calloc(b.insts_cap, sizeof *b.inst);
    b.value = calloc(b.values_cap, sizeof *b.value);
    b.tensor = malloc(tensors * sizeof *b.tensor);
    l.inst = b.inst;
    bt_err e = BT_OK;
    if (!b.inst || !b.value || !b.tensor) {
        e = bt_fail(fault, BT_ENOMEM, "lowering a graph");
        goto out;
    }
    for (size_t t = 0; t < tensors; t++) b.tensor[t] = nowhere;
    bt_lower_ops(&b);
    if (b.too_large) {
        e = bt_fail(fault, BT_ELIMIT, "a program for %zu rows does not fit memory", in->seq);
        goto out;
    }
    l.insts = b.insts;
    if ((e = bt_lower_order(&b, fault)) < 0) goto out;
    l.program.activation_bytes_moved = bytes_moved(&b);
    if ((e = place_all(&l, &b, fault)) < 0) goto out;
    count(&l, &b);
    *ret = l;
    l = (bt_lowered){0};
out:
    bt_lower_done(&l);
    free(b.value);
    free(b.tensor);
    return e;
}

void bt_lower_done(bt_lowered *l)
{
    free(l->inst);
    free(l->place);
    *l = (bt_lowered){0};
}
