/* The check of a package's programs. Each is walked once as the executor would walk it, with a description of
 * each value in place of its contents. An instruction may only read what an earlier one wrote, in the same
 * form, shape and unit, and not overwritten since. It may touch the arena only inside a place of the plan
 * that is alive, and its operands overlap only where it works in place. So the executor meets no operand,
 * index, width or list of shadow entries that this check has not seen. */
#include "npu/pkg/pkg_private.h"
#include "kernels/int_ops.h"
#include "model/arch.h"
#include "model/weight.h"
#include "npu/pkg/pkg_layout.h"
#include "npu/pkg/recipe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct area {
    uint64_t at, bytes;
} area;
typedef struct value {
    uint8_t form; /* bt_pkg_form */
    uint8_t out_rows;
    uint32_t width, stride, site; /* site: whose unit WIDE and PLANES have; else NONE */
    area part[3];                 /* the rows; PLANES: also lo and aux (bytes 0: absent) */
} value;

typedef struct begin {
    uint32_t first_inst, index;
} begin;

/* One walk over a program. */
typedef struct walk {
    const bt_pkg *pkg;
    const bt_pkg_header *h;
    const bt_pkg_program *prog;
    const bt_pkg_place *place;
    begin *order;                                /* places by first_inst */
    uint32_t live[BT_PKG_MAX_LIVE], lives, next; /* places alive at `at`; index in `order` of the next one */
    value val[BT_PKG_MAX_LIVE];
    uint32_t vals;
    uint32_t program, at;       /* for messages */
    uint32_t cluster, clusters; /* cluster of the instruction before; clusters that have begun */
    uint32_t layer, stored;     /* the layer of the last instruction in a layer; layers whose KV is stored */
    bool layered, tail, logits, capped; /* the walk has reached the layers; has left them; logits were
                                           written; and capped */
    uint32_t session;                   /* the mapped session; BT_PKG_NONE before the first SESSION */
    bt_fault *fault;
} walk;

__attribute__((format(printf, 2, 3))) static bt_err bad(const walk *w, const char *fmt, ...);
static bt_err bad(const walk *w, const char *fmt, ...)
{
    char what[160];
    const bt_pkg_inst *in = bt_pkg_code(w->pkg, w->program) + w->at;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return bt_fail(w->fault, BT_EFORMAT, "program %u, instruction %u (%s): %s", w->program, w->at,
                   bt_pkg_op_name((bt_pkg_op)in->op), what);
}

/* ---- the plan ---- */

static bool overlap(area a, area b)
{
    return a.bytes && b.bytes && a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}
static bool inside(area a, area b) { return a.at >= b.at && a.at + a.bytes <= b.at + b.bytes; }
static area place_area(const bt_pkg_place *p) { return (area){p->offset, p->bytes}; }

/* Moves the plan to instruction w->at: places that ended before it go, with the values in them; then the
 * places that begin here come alive. */
static bt_err move_plan(walk *w)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->lives; i++) {
        const bt_pkg_place *p = &w->place[w->live[i]];
        if (p->last_inst >= w->at) {
            w->live[kept++] = w->live[i];
            continue;
        }
        for (uint32_t v = 0; v < w->vals;)
            if (overlap(w->val[v].part[0], place_area(p))) w->val[v] = w->val[--w->vals];
            else v++;
    }
    w->lives = kept;
    for (; w->next < w->prog->places && w->order[w->next].first_inst == w->at; w->next++) {
        const uint32_t index = w->order[w->next].index;
        const bt_pkg_place *p = &w->place[index];
        for (uint32_t i = 0; i < w->lives; i++)
            if (overlap(place_area(p), place_area(&w->place[w->live[i]])))
                return bt_fail(w->fault, BT_EFORMAT,
                               "program %u: places %u and %u overlap while both are alive", w->program, index,
                               w->live[i]);
        if (w->lives == BT_PKG_MAX_LIVE)
            return bt_fail(w->fault, BT_EFORMAT, "program %u: more than %d places are alive at once",
                           w->program, BT_PKG_MAX_LIVE);
        w->live[w->lives++] = index;
    }
    return BT_OK;
}

static int by_first_inst(const void *a, const void *b)
{
    const begin *x = a, *y = b;
    if (x->first_inst != y->first_inst) return x->first_inst < y->first_inst ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static bt_err check_plan(walk *w)
{
    const bt_pkg_program *g = w->prog;
    uint64_t peak = 0;
    for (uint32_t i = 0; i < g->places; i++) {
        const bt_pkg_place *p = &w->place[i];
        if (!p->name || p->name >= BT_PKG_VALUES || p->reserved || p->first_inst > p->last_inst ||
            p->last_inst >= g->insts || !p->bytes || p->offset % BT_PKG_ALIGN || p->offset > g->arena_bytes ||
            p->bytes > g->arena_bytes - p->offset)
            return bt_fail(w->fault, BT_EFORMAT,
                           "program %u: place %u (%s): name, instructions %u to %u, offset %llu or %llu "
                           "bytes are out of range",
                           w->program, i, bt_pkg_value_name(p->name), p->first_inst, p->last_inst,
                           (unsigned long long)p->offset, (unsigned long long)p->bytes);
        if (p->offset + p->bytes > peak) peak = p->offset + p->bytes;
        w->order[i] = (begin){p->first_inst, i};
    }
    if (bt_pkg_align(peak) != g->arena_bytes)
        return bt_fail(w->fault, BT_EFORMAT, "program %u: arena_bytes is %llu, and the plan reaches %llu",
                       w->program, (unsigned long long)g->arena_bytes, (unsigned long long)peak);
    qsort(w->order, g->places, sizeof *w->order, by_first_inst);
    return BT_OK;
}

static bool in_live_place(const walk *w, area a)
{
    for (uint32_t i = 0; i < w->lives; i++)
        if (inside(a, place_area(&w->place[w->live[i]]))) return true;
    return false;
}

/* ---- what an instruction names beside the arena ---- */

static const bt_pkg_tensor *tensor_of(const walk *w, uint32_t index)
{
    return index < w->h->tensors.count && bt_pkg_tensors(w->pkg)[index].n ? &bt_pkg_tensors(w->pkg)[index]
                                                                          : NULL;
}

/* The outputs that a linear computes: of its matrix, or of the part of the output matrix that it names. */
static uint32_t outputs_of(const walk *w, const bt_pkg_inst *in, const bt_pkg_tensor *t)
{
    const uint32_t part = bt_pkg_is_linear(in) && t->weight == BT_WEIGHT_OUTPUT ? bt_pkg_part_of(in) : 0;
    return part <= bt_pkg_layout_parts(&w->h->layout, t->n) ? bt_pkg_layout_part(&w->h->layout, t->n, part).n
                                                            : 0;
}

static bt_err check_tensor(const walk *w, const bt_pkg_inst *in, const bt_pkg_op_info *r)
{
    const bt_pkg_tensor *t = tensor_of(w, in->tensor);
    if (r->tensor == BT_PKG_TENSOR_S16_UNIT && (in->tensor == BT_PKG_NONE) == (in->site == BT_PKG_NONE))
        return bad(w, "its unit must be that of a tensor or of a site, not of both");
    if (r->tensor == BT_PKG_TENSOR_NONE ||
        ((r->tensor == BT_PKG_TENSOR_NORM || r->tensor == BT_PKG_TENSOR_S16_UNIT) &&
         in->tensor == BT_PKG_NONE))
        return in->tensor == BT_PKG_NONE ? BT_OK : bad(w, "names tensor %u, and takes none", in->tensor);
    if (!t) return bad(w, "tensor %u is not there", in->tensor);
    if (t->layer != in->layer) return bad(w, "tensor %u is of layer %d", in->tensor, (int)t->layer);
    if (bt_pkg_is_linear(in) && bt_pkg_is_experts(in) != bt_pkg_is_of_experts(w->h, t->weight))
        return bad(w, "tensor %u (%s) is of experts, or is not", in->tensor,
                   bt_weight_name((bt_weight)t->weight));
    const bool vector = bt_pkg_is_vector(t->weight),
               head = t->weight == BT_WEIGHT_Q_NORM || t->weight == BT_WEIGHT_K_NORM;
    bool fits = false;
    switch ((bt_pkg_tensor_rule)r->tensor) {
    case BT_PKG_TENSOR_NONE: break;
    case BT_PKG_TENSOR_NORM:
        fits = vector && !head && t->n == (uint64_t)in->out_width * bt_op_infos[r->of].vectors;
        break;
    case BT_PKG_TENSOR_HEAD_NORM: /* of heads of head_dim, or of the row as one, which has no form in integers
                                   */
        fits = head && in->out_width == (uint64_t)in->arg * t->n &&
               (t->n == w->h->head_dim || r->params == BT_PKG_PARAMS_NONE);
        break;
    case BT_PKG_TENSOR_MATRIX:
        fits = !vector && t->bits != 16 && in->site == t->site && in->in_width == t->k &&
               in->out_width == outputs_of(w, in, t);
        break;
    case BT_PKG_TENSOR_F16_MATRIX:
        fits = !vector && t->bits == 16 && in->in_width == t->k && in->out_width == outputs_of(w, in, t);
        break;
    case BT_PKG_TENSOR_SCALED:
    case BT_PKG_TENSOR_S16_UNIT: fits = !vector && t->out_scale > 0 && in->out_width == t->n; break;
    }
    if (fits && r->out == BT_PKG_FORM_S16 && bt_pkg_is_linear(in)) fits = t->mult != BT_PKG_NONE;
    if (fits && r->params == BT_PKG_PARAMS_NORM) fits = t->norm_q != BT_PKG_NONE;
    return fits ? BT_OK
                : bad(w, "tensor %u (%s, %u x %u, %u bits) does not fit", in->tensor,
                      bt_weight_name((bt_weight)t->weight), t->n, t->k, t->bits);
}

static bt_err check_site(const walk *w, const bt_pkg_inst *in, const bt_pkg_op_info *r)
{
    if (r->site == BT_PKG_SITE_NONE || (r->site != BT_PKG_SITE_SITE && in->site == BT_PKG_NONE))
        return in->site == BT_PKG_NONE ? BT_OK : bad(w, "names site %u, and takes none", in->site);
    if (in->site >= w->h->sites.count) return bad(w, "site %u is not there", in->site);
    const bt_pkg_site *s = &bt_pkg_sites(w->pkg)[in->site];
    if (!s->k) return bad(w, "site %u is not there", in->site);
    if (s->layer != in->layer) return bad(w, "site %u is of layer %d", in->site, (int)s->layer);
    if (s->k != in->in_width)
        return bad(w, "in_width is %u, and site %u has %u", in->in_width, in->site, s->k);
    if (bt_pkg_is_by_expert(in) && s->kind != BT_SITE_UP && s->kind != BT_SITE_DOWN)
        return bad(w, "rows by expert in units of site %u, which is of no expert", in->site);
    if (r->site == BT_PKG_SITE_S16_SITE && !(s->a16_scale > 0))
        return bad(w, "site %u has no a16_scale", in->site);
    return BT_OK;
}

static bt_err check_multipliers(const walk *w, const bt_pkg_int_params *q, const bt_pkg_op_info *r)
{
    for (int i = 0; i < 4; i++) {
        /* A norm's m[0] is a weight and s[0] its shift, not a multiplier. */
        const bool is_weight = r->params == BT_PKG_PARAMS_NORM && i == 0;
        if (is_weight ? q->m[i] == INT32_MIN : q->m[i] && q->m[i] < 1 << 30)
            return bad(w, "params: m[%d] %d is out of range", i, q->m[i]);
        if (q->s[i] > (is_weight ? 32 : 62)) return bad(w, "params: s[%d] %u is out of range", i, q->s[i]);
    }
    if (q->k_shift < -16 || q->k_shift > 30 || q->v_shift < -16 || q->v_shift > 30)
        return bad(w, "params: k_shift %d or v_shift %d is outside -16 to 30", q->k_shift, q->v_shift);
    if (q->eps < 0 || q->eps >= INT64_C(1) << 62)
        return bad(w, "params: eps %lld is negative, or 2^62 or more", (long long)q->eps);
    for (size_t i = 0; i < sizeof q->reserved; i++)
        if (q->reserved[i] || q->zero) return bad(w, "params: reserved bytes are not zero");
    return BT_OK;
}

static bt_err check_params(const walk *w, const bt_pkg_inst *in, const bt_pkg_op_info *r)
{
    if (r->params == BT_PKG_PARAMS_NONE)
        return !in->params || in->params == BT_PKG_NONE ? BT_OK : bad(w, "has params, and takes none");
    const uint32_t count = bt_pkg_is_by_expert(in) ? w->h->experts : 1;
    if (in->params >= w->h->consts.count ||
        bt_pkg_consts(w->pkg)[in->params].bytes != count * sizeof(bt_pkg_int_params))
        return bad(w, "params %llu names no constant of integer parameters", (unsigned long long)in->params);
    const bt_pkg_int_params *q = bt_pkg_const_at(w->pkg, (uint32_t)in->params);
    bt_err e = BT_OK;
    for (uint32_t i = 0; e == BT_OK && i < count; i++) e = check_multipliers(w, &q[i], r);
    return e;
}

/* Whether the instruction stands only in layers. */
static bool is_of_layers(const bt_pkg_op_info *r)
{
    return r->shape == BT_SHAPE_HEADS || r->shape == BT_SHAPE_STORE || r->shape == BT_SHAPE_ATTEND ||
           r->shape == BT_SHAPE_ROUTE || r->shape == BT_SHAPE_GATHER || r->shape == BT_SHAPE_EXPERTS ||
           r->shape == BT_SHAPE_MIX;
}

static uint32_t route_width(const bt_pkg_header *h) { return 3 * h->experts_used + h->experts; }

/* Whether the instruction may have the rows that out_rows says. */
static bool rows_fit(const walk *w, const bt_pkg_inst *in, const bt_pkg_op_info *r)
{
    const bool is_free =
                   r->shape == BT_SHAPE_ROWS || r->shape == BT_SHAPE_PAIR || r->shape == BT_SHAPE_BLOCKS,
               makes = r->shape == BT_SHAPE_GATHER || r->shape == BT_SHAPE_EXPERTS;
    if (bt_pkg_is_by_expert(in))
        return (is_free || makes) && w->h->experts && in->out_rows == 1 + w->h->experts_used &&
               in->layer != UINT32_MAX;
    if (makes || (bt_pkg_is_out(in) && !w->prog->out)) return false;
    return !bt_pkg_is_out(in) || (r->shape != BT_SHAPE_IDS && !is_of_layers(r));
}

/* Layers ascend. Instructions outside layers come before or after all of them. */
static bt_err check_layer(walk *w, const bt_pkg_inst *in, const bt_pkg_op_info *r)
{
    if (in->layer == UINT32_MAX) {
        if (is_of_layers(r)) return bad(w, "stands outside a layer");
        if (w->layered) w->tail = true;
        return BT_OK;
    }
    if (in->layer >= w->h->layers || w->tail || (w->layered && in->layer < w->layer))
        return bad(w, "layer %u is not there, or comes after a later one", in->layer);
    w->layer = in->layer;
    w->layered = true;
    if (r->shape == BT_SHAPE_STORE) {
        if (in->layer != w->stored) return bad(w, "layer %u, and %u is to come", in->layer, w->stored);
        w->stored++;
    }
    if (r->shape == BT_SHAPE_ATTEND && in->layer + 1 != w->stored)
        return bad(w, "comes before the layer's keys and values are stored");
    return BT_OK;
}

/* The width of the rows that a rotation turns; 0: the package has no such rotation. */
static uint32_t turned(const bt_pkg_header *h, uint32_t by)
{
    return by == BT_ROTATION_R1 && h->r1.base   ? h->dim
           : by == BT_ROTATION_R2 && h->r2.base ? h->heads * h->head_dim
           : by == BT_ROTATION_R4 && h->r4.base ? h->ffn
                                                : 0;
}

/* Whether the instruction norms q or k as one row; then its tensor decides the width. */
static bool is_row_norm(const walk *w, const bt_pkg_op_info *r)
{
    return r->tensor == BT_PKG_TENSOR_HEAD_NORM && bt_arch_of((bt_arch)w->h->arch)->qk_norm == BT_ARCH_ROWS;
}

/* Checks arg, and the widths that no tensor or site decides. */
static bt_err check_widths(const walk *w, const bt_pkg_inst *in, const bt_pkg_op_info *r)
{
    const bt_pkg_header *h = w->h;
    bool arg = !in->arg, width = in->in_width == in->out_width;
    switch ((bt_op_shape)r->shape) {
    case BT_SHAPE_IDS: width = in->out_width == h->dim; break;
    case BT_SHAPE_NORM: width = width && in->out_width == h->dim; break;
    case BT_SHAPE_EXPERTS:
    case BT_SHAPE_MATRIX: /* the tensor decides the width */
        arg = true;       /* check_pieces checks it */
        width = in->macs_per_row == (uint64_t)in->in_width * in->out_width;
        break;
    case BT_SHAPE_HEADS:
        arg = in->arg == h->heads || in->arg == h->kv_heads || (in->arg == 1 && is_row_norm(w, r));
        width = width && (in->out_width == in->arg * h->head_dim || is_row_norm(w, r));
        break;
    case BT_SHAPE_STORE: width = in->in_width == h->kv_heads * h->head_dim; break;
    case BT_SHAPE_ATTEND:
        arg = true; /* check_pieces checks it */
        width = width && in->out_width == h->heads * h->head_dim;
        break;
    case BT_SHAPE_BLOCKS: /* in integers: R2, or arg 0, a change of unit */
        if (in->unit == BT_PKG_NPU && !in->arg) break;
        arg = turned(h, in->arg) && (in->unit != BT_PKG_NPU || in->arg == BT_ROTATION_R2);
        width = width && in->out_width == turned(h, in->arg);
        break;
    case BT_SHAPE_ROWS:
    case BT_SHAPE_PAIR:
    case BT_SHAPE_SELECT: break;
    case BT_SHAPE_LOGITS: width = !in->in_width && !in->out_width; break;
    case BT_SHAPE_ROUTE:
        width = h->experts && in->in_width == h->dim && in->out_width == route_width(h);
        break;
    case BT_SHAPE_GATHER:
    case BT_SHAPE_MIX: width = width && h->experts && in->out_width == h->dim; break;
    }
    if (!arg) return bad(w, "arg %u does not fit the operator", in->arg);
    return width ? BT_OK
                 : bad(w, "in_width %u, out_width %u, or macs_per_row does not fit the operator",
                       in->in_width, in->out_width);
}

/* Slices of attention, and parts of the output matrix, come without a gap and one after the other. They
 * differ only in what they cover, so together they make the whole. index: from 1 to count; step: by how much
 * the next one's arg is greater. */
static bt_err check_series(const walk *w, const bt_pkg_inst *in, uint64_t index, uint64_t count,
                           uint32_t step)
{
    if (index > count)
        return bad(w, "arg %u, piece %llu of %llu is not there", in->arg, (unsigned long long)index,
                   (unsigned long long)count);
    for (int to = 0; to < 2; to++) {
        if (to ? index == count : index <= 1) continue;
        const bool is_there = to ? w->at + 1 < w->prog->insts : w->at > 0;
        if (!is_there) return bad(w, "arg %u, and a piece beside it is missing", in->arg);
        bt_pkg_inst a = *in, b = to ? in[1] : in[-1];
        const bool follows = to ? b.arg == a.arg + step : b.arg + step == a.arg;
        a.arg = b.arg = a.out_width = b.out_width = 0;
        a.macs_per_row = b.macs_per_row = 0;
        if (!follows || memcmp(&a, &b, sizeof a) != 0)
            return bad(w, "arg %u, and a piece beside it is missing", in->arg);
    }
    return BT_OK;
}

/* Checks arg of attention (the slice) and of a linear (the loop order, and the part of the output matrix). */
static bt_err check_pieces(const walk *w, const bt_pkg_inst *in)
{
    const bt_pkg_layout *l = &w->h->layout;
    if (bt_pkg_is_attention(in))
        return in->arg ? check_series(w, in, in->arg, bt_pkg_layout_slices(l, w->prog->seq, w->h->heads), 1)
                       : BT_OK;
    if (!bt_pkg_is_linear(in)) return BT_OK;
    const bool has_order = bt_pkg_is_npu_linear(in) && l->on_chip_bytes;
    if (has_order ? !bt_pkg_order_of(in) || bt_pkg_order_of(in) >= BT_PKG_ORDERS : bt_pkg_order_of(in) != 0)
        return bad(w, "arg %u, loop order %u does not fit the layout", in->arg, bt_pkg_order_of(in));
    const bt_pkg_tensor *t = tensor_of(w, in->tensor);
    if (!bt_pkg_part_of(in)) return BT_OK;
    if (t->weight != BT_WEIGHT_OUTPUT)
        return bad(w, "arg %u, a part of %s, which has no parts", in->arg,
                   bt_weight_name((bt_weight)t->weight));
    return check_series(w, in, bt_pkg_part_of(in), bt_pkg_layout_parts(l, t->n), 256);
}

static uint64_t rows_of(const walk *w, const bt_pkg_inst *in) { return bt_pkg_rows_of(in, w->prog); }

static bt_err check_group(const walk *w, const bt_pkg_inst *in)
{
    if (!in->group || in->group > BT_PKG_MAX_GROUP || (in->group > 1 && !bt_pkg_is_linear(in)) ||
        in->group > w->prog->insts - w->at)
        return bad(w, "group %u is 0, too large, or not of linears", in->group);
    for (uint32_t i = 1; i < in->group; i++) {
        const bt_pkg_inst *b = &in[i];
        if (b->op != in->op || b->unit != in->unit || b->group != 1 || b->layer != in->layer ||
            b->site != in->site || b->in_width != in->in_width || b->in0 != in->in0 || b->in1 != in->in1 ||
            b->aux != in->aux || b->in_stride != in->in_stride || b->out_rows != in->out_rows)
            return bad(w, "group %u, and the instruction %u further is not like it", in->group, i);
        for (uint32_t k = 0; k < i; k++) {
            const area x = {in[k].out, rows_of(w, in) * in[k].out_stride},
                       y = {b->out, rows_of(w, in) * b->out_stride};
            if (in[k].out == BT_PKG_NOWHERE || b->out == BT_PKG_NOWHERE || overlap(x, y))
                return bad(w, "group %u, and outputs %u and %u overlap or one is no output", in->group, k, i);
        }
    }
    return BT_OK;
}

/* ---- the arena ---- */

static bt_err check_area(const walk *w, const char *name, area a)
{
    if (a.at % BT_PKG_ALIGN || a.at > w->prog->arena_bytes || a.bytes > w->prog->arena_bytes - a.at)
        return bad(w, "%s %llu and its %llu bytes are not in the arena", name, (unsigned long long)a.at,
                   (unsigned long long)a.bytes);
    return in_live_place(w, a) ? BT_OK : bad(w, "%s lies in no place of the plan that is alive", name);
}

/* Finds the value at `at` in the form and shape in which the instruction reads it. */
static bt_err read_value(const walk *w, const value **ret, const char *name, const bt_pkg_inst *in,
                         uint64_t at, uint32_t f, uint32_t stride, uint8_t out_rows)
{
    const uint32_t width = f == BT_PKG_FORM_ROUTES ? route_width(w->h) : in->in_width;
    if (f == BT_PKG_FORM_ROUTES) stride = bt_pkg_layout_stride(&w->h->layout, width, 4);
    for (uint32_t i = 0; i < w->vals; i++) {
        const value *v = &w->val[i];
        if (v->part[0].at != at || (v->form != f && (f != BT_PKG_FORM_F32 || v->form != BT_PKG_FORM_FLOAT16)))
            continue;
        if (v->width != width || v->stride != stride || v->out_rows != out_rows)
            return bad(w, "%s has %u elements in rows of %u bytes, and not %u in %u, or other rows", name,
                       v->width, v->stride, width, stride);
        if ((f == BT_PKG_FORM_WIDE || f == BT_PKG_FORM_PLANES) && v->site != in->site)
            return bad(w, "%s is in units of site %u", name, v->site);
        const uint64_t lo = v->part[1].bytes ? v->part[1].at : BT_PKG_NOWHERE,
                       aux = v->part[2].bytes ? v->part[2].at : BT_PKG_NOWHERE;
        if (f == BT_PKG_FORM_PLANES && (in->in1 != lo || in->aux != aux))
            return bad(w, "in1 or aux is not the one that was written with %s", name);
        bt_err e = BT_OK;
        for (int k = 0; k < 3 && e == BT_OK; k++)
            if (v->part[k].bytes) e = check_area(w, name, v->part[k]);
        *ret = v;
        return e;
    }
    return bad(w, "%s: no value of its kind was written there", name);
}

/* Describes the value that the instruction writes. */
static bt_err plan_output(const walk *w, value *ret, const bt_pkg_inst *in, uint32_t f)
{
    const bt_pkg_layout *l = &w->h->layout;
    const uint64_t rows = rows_of(w, in);
    const uint32_t align = l->last_axis_align_bytes ? l->last_axis_align_bytes : 1;
    value v = {.form = (uint8_t)f, .out_rows = in->out_rows, .width = in->out_width, .stride = in->out_stride,
               .site = BT_PKG_NONE};
    if (!in->out_width ||
        (f == BT_PKG_FORM_PLANES
             ? in->out_stride < in->out_width || in->out_stride % BT_PKG_ALIGN || in->out_stride % align
             : in->out_stride != bt_pkg_layout_stride(l, in->out_width, bt_pkg_form_bytes(f))))
        return bad(w, "out_width %u in rows of out_stride %u bytes", in->out_width, in->out_stride);
    v.part[0] = (area){in->out, rows * in->out_stride};
    if (f == BT_PKG_FORM_WIDE || f == BT_PKG_FORM_PLANES) v.site = in->site;
    if (f == BT_PKG_FORM_PLANES) {
        const bt_pkg_site *s = &bt_pkg_sites(w->pkg)[in->site];
        const bool shadow = s->shadow != BT_SHADOW_OFF && !s->pruned;
        if (s->bits == 16) v.part[1] = (area){in->in1, rows * in->out_stride};
        else if (in->in1 != BT_PKG_NOWHERE) return bad(w, "has in1, and site %u has 8 bits", in->site);
        if (shadow) v.part[2] = (area){in->aux, bt_pkg_shadow_bytes(rows, in->in_width)};
        else if (in->aux != BT_PKG_NOWHERE) return bad(w, "has aux, and site %u has no shadow", in->site);
    }
    *ret = v;
    return BT_OK;
}

static bt_err write_value(walk *w, const value *v, const value *const *read, size_t reads, bool in_place)
{
    bt_err e;
    static const char *const names[3] = {"out", "in1", "aux"};
    for (int i = 0; i < 3; i++) {
        const area a = v->part[i];
        if (!a.bytes) continue;
        if ((e = check_area(w, names[i], a)) < 0) return e;
        for (int k = 0; k < i; k++)
            if (overlap(a, v->part[k])) return bad(w, "%s overlaps %s", names[i], names[k]);
        for (size_t r = in_place; r < reads; r++)
            for (int k = 0; k < 3; k++)
                if (overlap(a, read[r]->part[k])) return bad(w, "%s overlaps an input", names[i]);
    }
    for (uint32_t i = 0; i < w->vals;) {
        /* Only one quantised input is valid at a time: LLM.int8 keeps its columns outside the arena. */
        bool over = v->form == BT_PKG_FORM_PLANES && w->val[i].form == BT_PKG_FORM_PLANES;
        /* Only the last routes are valid, and the rows that were gathered by them. */
        over = over || (v->form == BT_PKG_FORM_ROUTES &&
                        (w->val[i].form == BT_PKG_FORM_ROUTES || w->val[i].out_rows > 1));
        for (int k = 0; k < 9; k++) over = over || overlap(w->val[i].part[k / 3], v->part[k % 3]);
        if (over) w->val[i] = w->val[--w->vals];
        else i++;
    }
    if (w->vals == BT_PKG_MAX_LIVE) return bad(w, "more than %d values are alive at once", BT_PKG_MAX_LIVE);
    w->val[w->vals++] = *v;
    return BT_OK;
}

static bt_err check_logits(walk *w, const bt_pkg_inst *in, const bt_pkg_op_info *r)
{
    if (w->capped || (w->logits && bt_pkg_part_of(in) <= 1) || !in->out_rows || r->out != BT_PKG_FORM_F32 ||
        in->out_stride != tensor_of(w, in->tensor)->n * 4)
        return bad(w, "logits are written twice, or not as rows of f32 numbers");
    w->logits = true;
    return BT_OK;
}

static bt_err check_cap(walk *w, const bt_pkg_inst *in)
{
    if (!w->logits || w->capped || !in->out_rows || !(w->h->logit_cap > 0))
        return bad(w, "caps no logits, or logits that have no cap, or a second time");
    w->capped = true;
    return BT_OK;
}

/* out_rows of in0. */
static uint8_t rows_read(const walk *w, const bt_pkg_inst *in, const bt_pkg_op_info *r)
{
    if (r->shape == BT_SHAPE_MIX) return (uint8_t)(1 + w->h->experts_used);
    return r->shape == BT_SHAPE_SELECT || r->shape == BT_SHAPE_GATHER ? 0 : in->out_rows;
}

static bt_err check_operands(walk *w, const bt_pkg_inst *in, const bt_pkg_op_info *r)
{
    bt_err e;
    static const value none;
    const value *read[2] = {&none, &none};
    size_t reads = 0;
    uint32_t from = r->in0, second = r->in1, to = r->out;
    const bool select = r->shape == BT_SHAPE_SELECT;
    if (r->shape == BT_SHAPE_LOGITS && (e = check_cap(w, in)) < 0) return e;
    if (select && !in->out_rows) return bad(w, "out_rows 0, and a selection of rows needs 1");
    if (select)
        for (uint32_t i = 0; i < w->vals; i++)
            if (w->val[i].part[0].at == in->in0 &&
                (w->val[i].form == BT_PKG_FORM_RESIDUAL || w->val[i].form == BT_PKG_FORM_FLOAT16))
                from = to = w->val[i].form;
    if (bt_pkg_reads_float16(in)) {
        from = BT_PKG_FORM_FLOAT16;
        if (second == BT_PKG_FORM_F32) second = BT_PKG_FORM_FLOAT16;
    }
    if (bt_pkg_writes_float16(in)) to = BT_PKG_FORM_FLOAT16;
    if (in->op == BT_PKG_DEQUANTISE32 && in->site != BT_PKG_NONE) from = BT_PKG_FORM_WIDE;
    if (from == BT_PKG_FORM_NONE && in->in0 != BT_PKG_NOWHERE) return bad(w, "has in0, and takes none");
    if (r->in1 == BT_PKG_FORM_NONE && from != BT_PKG_FORM_PLANES && to != BT_PKG_FORM_PLANES &&
        in->in1 != BT_PKG_NOWHERE)
        return bad(w, "has in1, and takes none");
    if (from != BT_PKG_FORM_PLANES && to != BT_PKG_FORM_PLANES && in->aux != BT_PKG_NOWHERE)
        return bad(w, "has aux, and takes none");
    if (r->in_place && in->in0 != in->out) return bad(w, "in0 is not out, and the operator works in place");
    if (r->in_place && !r->in1 && in->in_stride != in->out_stride)
        return bad(w, "in_stride is not out_stride, and the operator works in place");
    if (from != BT_PKG_FORM_NONE) {
        const uint32_t stride = r->in_place ? in->out_stride : in->in_stride;
        if ((e = read_value(w, &read[reads++], "in0", in, in->in0, from, stride, rows_read(w, in, r))) < 0)
            return e;
    }
    const uint8_t second_rows = second == BT_PKG_FORM_ROUTES ? 0 : in->out_rows;
    if (r->in1 != BT_PKG_FORM_NONE &&
        (e = read_value(w, &read[reads++], "in1", in, in->in1, second, in->in_stride, second_rows)) < 0)
        return e;
    const bool head = bt_pkg_is_linear(in) && tensor_of(w, in->tensor)->weight == BT_WEIGHT_OUTPUT;
    if (to == BT_PKG_FORM_NONE || in->out == BT_PKG_NOWHERE) {
        if (in->out != BT_PKG_NOWHERE) return bad(w, "has out, and gives none");
        if (to == BT_PKG_FORM_NONE) return BT_OK;
        return head ? check_logits(w, in, r) : bad(w, "has no out, and gives one");
    }
    if (head) return bad(w, "the head's out is not the caller's logits");
    value v = {.form = BT_PKG_FORM_NONE};
    if ((e = plan_output(w, &v, in, to)) < 0) return e;
    return write_value(w, &v, read, reads, r->in_place);
}

/* ---- sessions ---- */

static bt_err enter_session(walk *w, const bt_pkg_inst *in)
{
    enum { MOST_NS = 1000000000 };
    const bt_pkg_inst want = {.op = BT_PKG_SESSION,  .group = 1,
                              .layer = UINT32_MAX,   .tensor = BT_PKG_NONE,
                              .site = BT_PKG_NONE,   .arg = in->arg,
                              .in0 = BT_PKG_NOWHERE, .in1 = BT_PKG_NOWHERE,
                              .out = BT_PKG_NOWHERE, .aux = BT_PKG_NOWHERE,
                              .params = in->params};
    if (memcmp(in, &want, sizeof want) != 0)
        return bad(w, "has an operand, a layer or a unit, and takes none");
    if (w->h->sessions.count < 2 || in->arg >= w->h->sessions.count)
        return bad(w, "session %u of %u is not there", in->arg, w->h->sessions.count);
    if (in->arg == w->session) return bad(w, "session %u is mapped already", in->arg);
    if (in->params > MOST_NS)
        return bad(w, "costs %llu ns; at most %d are allowed", (unsigned long long)in->params, MOST_NS);
    w->session = in->arg;
    w->cluster = 0; /* a cluster does not go on behind a SESSION */
    return BT_OK;
}

/* The layer of an NPU instruction lies in the mapped session. */
static bt_err check_session(const walk *w, const bt_pkg_inst *in)
{
    if (w->h->sessions.count < 2 || in->unit == BT_PKG_COMPANION) return BT_OK;
    if (w->session == BT_PKG_NONE) return bad(w, "comes before a session is mapped");
    const bt_pkg_session *s = &bt_pkg_sessions(w->pkg)[w->session];
    const uint32_t part = in->layer != UINT32_MAX ? in->layer : w->layered ? w->h->layers : 0;
    return part >= s->first_layer && part <= s->last_layer
               ? BT_OK
               : bad(w, "is of layer %u, and session %u maps layers %u to %u", part, w->session,
                     s->first_layer, s->last_layer);
}

/* ---- the walk ---- */

/* A cluster's instructions are all the NPU's and follow each other, so that the cluster can run as one
 * call. */
static bt_err check_cluster(walk *w, const bt_pkg_inst *in)
{
    if (in->cluster && in->unit == BT_PKG_COMPANION)
        return bad(w, "has cluster %u, and runs on the companion", in->cluster);
    if (in->cluster && in->cluster != w->cluster && in->cluster != ++w->clusters)
        return bad(w, "cluster %u, and %u is to come: clusters lie together and ascend", in->cluster,
                   w->clusters);
    w->cluster = in->cluster;
    return BT_OK;
}

/* Integers run on the NPU, all else on the companion; what the NPU may run in floats also on NPU_FLOAT. R1
 * belongs to the embedding, so it stays on the companion. */
static bt_err check_unit(const walk *w, const bt_pkg_inst *in, const bt_pkg_op_info *r)
{
    const bool is_embedding = r->beside == BT_BESIDE_ROTATION && in->arg == BT_ROTATION_R1;
    const uint32_t on = is_embedding ? r->on & ~(uint32_t)BT_PKG_ON_NPU_FLOAT : r->on;
    if (in->unit >= BT_PKG_UNITS || !(on >> in->unit & 1))
        return bad(w, "unit %u cannot run the operator", in->unit);
    if (in->unit != BT_PKG_NPU_FLOAT) return BT_OK;
    if (!w->h->float_form) return bad(w, "runs in floats on the NPU, and float_form is 0");
    if (in->op == BT_PKG_ATTENTION && (w->h->sinks || w->h->score_cap > 0))
        return bad(w, "runs on the companion alone where there are sinks or soft caps of scores");
    return r->beside != BT_BESIDE_POSITIONS || w->h->rope_cos16
               ? BT_OK
               : bad(w, "unit %u without rope_cos16", in->unit);
}

/* Whether the instruction has integers other than the inputs of linears, which takes npu_ops all. */
static bool needs_all(const bt_pkg_op_info *r)
{
    const uint8_t form[] = {r->in0, r->out};
    bool needs = false;
    for (size_t i = 0; i < sizeof form; i++)
        needs = needs || form[i] == BT_PKG_FORM_RESIDUAL || form[i] == BT_PKG_FORM_WIDE ||
                form[i] == BT_PKG_FORM_S16;
    return needs;
}

/* Attention in integers is dense; a package with sparse attention has none. */
static bt_err check_scores(const walk *w, const bt_pkg_op_info *r)
{
    if (r->params != BT_PKG_PARAMS_SCORES) return BT_OK;
    if (w->h->sparse_ppm) return bad(w, "attends to all positions, and sparse_ppm is %u", w->h->sparse_ppm);
    if (w->h->sinks || w->h->score_cap > 0)
        return bad(w, "knows neither sinks nor soft caps of scores, and the header has them");
    return w->h->ctx_tokens <= BT_INT_ATTENTION_MAX_TOKENS
               ? BT_OK
               : bad(w, "ctx_tokens is %u, and attention in integers sums up to %d", w->h->ctx_tokens,
                     BT_INT_ATTENTION_MAX_TOKENS);
}

static bt_err check_inst(walk *w, const bt_pkg_inst *in)
{
    bt_err e;
    if (in->op == BT_PKG_SESSION) return enter_session(w, in);
    const bt_pkg_op_info *r = bt_pkg_op_info_of(in->op);
    if (!r->on) return bad(w, "op %u is unknown", in->op);
    if ((e = check_unit(w, in, r)) < 0) return e;
    if (w->h->npu_ops != BT_PKG_OPS_ALL && needs_all(r)) return bad(w, "needs npu_ops all");
    if ((e = check_scores(w, r)) < 0) return e;
    if (!rows_fit(w, in, r)) return bad(w, "out_rows %u is not allowed here", in->out_rows);
    if ((e = check_cluster(w, in)) < 0) return e;
    if ((e = check_layer(w, in, r)) < 0) return e;
    if ((e = check_session(w, in)) < 0) return e;
    if ((e = check_site(w, in, r)) < 0) return e;
    if ((e = check_tensor(w, in, r)) < 0) return e;
    if ((e = check_params(w, in, r)) < 0) return e;
    if ((e = check_widths(w, in, r)) < 0) return e;
    if ((e = check_pieces(w, in)) < 0) return e;
    if ((e = check_group(w, in)) < 0) return e;
    return check_operands(w, in, r);
}

static bt_err check_program(const bt_pkg *p, uint32_t index, bt_fault *fault)
{
    bt_err e;
    const bt_pkg_program *g = &bt_pkg_programs(p)[index];
    const bt_pkg_inst *code = bt_pkg_code(p, index);
    walk w = {
        .pkg = p,       .h = bt_pkg_header_of(p), .prog = g, .place = bt_pkg_plan(p, index), .program = index,
        .fault = fault, .session = BT_PKG_NONE};
    w.order = malloc(g->places * sizeof *w.order);
    if (!w.order) return bt_fail(fault, BT_ENOMEM, "out of memory checking a package");
    if ((e = check_plan(&w)) < 0) goto out;
    for (w.at = 0; w.at < g->insts; w.at++) {
        if ((e = move_plan(&w)) < 0) goto out;
        if ((e = check_inst(&w, &code[w.at])) < 0) goto out;
    }
    if (w.stored != w.h->layers)
        e = bt_fail(fault, BT_EFORMAT, "program %u stores keys and values of %u layers, not %u", index,
                    w.stored, w.h->layers);
    else if (w.logits != (g->out > 0))
        e = bt_fail(fault, BT_EFORMAT, "program %u: out %u, and %s logits", index, g->out,
                    w.logits ? "it writes" : "it writes no");
    else if (w.capped != (w.logits && w.h->logit_cap > 0))
        e = bt_fail(fault, BT_EFORMAT, "program %u: logits without their soft cap", index);
    else if (w.clusters != g->clusters)
        e = bt_fail(fault, BT_EFORMAT, "program %u: clusters is %u, and %u are there", index, g->clusters,
                    w.clusters);
out:
    free(w.order);
    return e;
}

bt_err bt_pkg_check_code(const bt_pkg *p, bt_fault *fault)
{
    bt_err e = BT_OK;
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->programs.count && e == BT_OK; i++)
        e = check_program(p, i, fault);
    return e;
}
