/* Figures of a package that both views need. See package_view.h. */
#include "tools/package_view.h"
#include "device/time.h"
#include "kernels/int_kernels.h"
#include "model/weight.h"
#include "npu/pkg/pkg_layout.h"
#include "npu/pkg/recipe.h"

#include <stdio.h>
#include <string.h>

char *tool_package_tensor_name(char ret[TOOL_PACKAGE_NAME_BYTES], const bt_pkg_tensor *t)
{
    const char *name = bt_weight_name((bt_weight)t->weight);
    if (t->layer == UINT32_MAX) snprintf(ret, TOOL_PACKAGE_NAME_BYTES, "%s", name);
    else snprintf(ret, TOOL_PACKAGE_NAME_BYTES, "layer %u %s", t->layer, name);
    return ret;
}

char *tool_package_site_name(char ret[TOOL_PACKAGE_NAME_BYTES], const bt_pkg_site *s)
{
    const char *name = bt_site_kind_name((bt_site_kind)s->kind);
    if (s->layer == UINT32_MAX) snprintf(ret, TOOL_PACKAGE_NAME_BYTES, "%s", name);
    else snprintf(ret, TOOL_PACKAGE_NAME_BYTES, "layer %u %s", s->layer, name);
    return ret;
}

static void widen(tool_package_range *r, double v)
{
    if (!r->count++) r->lo = r->hi = v;
    if (v < r->lo) r->lo = v;
    if (v > r->hi) r->hi = v;
}

tool_package_range tool_package_scales(const bt_pkg *p, const bt_pkg_tensor *t)
{
    tool_package_range r = {0};
    const float *v = t->n ? bt_pkg_const_at(p, t->wscale) : NULL;
    const size_t n = v ? bt_pkg_consts(p)[t->wscale].bytes / sizeof *v : 0;
    for (size_t i = 0; i < n; i++) widen(&r, (double)v[i]);
    return r;
}

/* Whole panels of all matrices of a tensor, and whether a lane of them is an output. */
static size_t lanes_of(const bt_pkg *p, const bt_pkg_tensor *t)
{
    return 16 * bt_int_panels(t->n) * bt_pkg_matrices(bt_pkg_header_of(p), t->weight);
}
static bool is_output(const bt_pkg_tensor *t, size_t lane)
{
    return lane % (16 * bt_int_panels(t->n)) < t->n;
}

tool_package_range tool_package_mults(const bt_pkg *p, const bt_pkg_tensor *t)
{
    tool_package_range r = {0};
    const int32_t *v = t->n ? bt_pkg_const_at(p, t->mult) : NULL;
    for (size_t i = 0; v && i < lanes_of(p, t); i++)
        if (is_output(t, i)) widen(&r, v[i]);
    return r;
}

tool_package_range tool_package_shifts(const bt_pkg *p, const bt_pkg_tensor *t)
{
    tool_package_range r = {0};
    const uint8_t *v = t->n ? bt_pkg_const_at(p, t->shift) : NULL;
    for (size_t i = 0; v && i < lanes_of(p, t); i++)
        if (is_output(t, i)) widen(&r, v[i]);
    return r;
}

uint32_t tool_package_largest(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_row *rows = bt_pkg_rows(p), *best = rows;
    for (uint32_t i = 1; i < h->rows.count; i++)
        if (rows[i].seq > best->seq) best = &rows[i];
    return best->program[BT_PKG_OUT_LAST];
}

tool_package_switches tool_package_switches_of(const bt_pkg *p, uint32_t program)
{
    tool_package_switches r = {0};
    const bt_pkg_inst *inst = bt_pkg_code(p, program);
    for (uint32_t i = 0; i < bt_pkg_programs(p)[program].insts; i++) {
        if (inst[i].op != BT_PKG_SESSION) continue;
        r.count++;
        r.ns += inst[i].params;
    }
    return r;
}

/* A row at position t sees t + 1 of ctx columns, whatever the chunk; in a window layer, the window's first
 * layer being 0, at most the window. */
tool_package_bucket tool_package_bucket_of(const bt_pkg *p, uint32_t row)
{
    const bt_pkg_row *r = &bt_pkg_rows(p)[row];
    const bt_pkg_program *g = &bt_pkg_programs(p)[r->program[BT_PKG_OUT_LAST]];
    const bt_pkg_header *h = bt_pkg_header_of(p);
    tool_package_bucket b = {.ctx = g->ctx};
    if (!b.ctx) return b;
    if (row && r[-1].batch == r->batch && r[-1].seq == r->seq) b.first = r[-1].ctx;
    b.masked = 1 - ((double)b.first + 1 + b.ctx) / (2.0 * b.ctx);
    if (!h->window) return b;
    b.window_columns = bt_pkg_columns(h, g, 0);
    const double rows = b.ctx - b.first, pairs = (double)bt_time_pairs(b.first, b.ctx - b.first, h->window);
    b.window_masked = 1 - pairs / (rows * b.window_columns);
    return b;
}

tool_package_packing tool_package_packing_of(const bt_pkg *p)
{
    tool_package_packing r = {0};
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_const *c = bt_pkg_consts(p);
    const uint32_t body[] = {h->body_code, h->body_plan, h->body_params};
    for (size_t i = 0; i < sizeof body / sizeof *body; i++)
        if (body[i]) r.body_bytes += c[body[i]].bytes;
    for (uint32_t i = 0; i < h->consts.count; i++)
        if (c[i].kind == BT_PKG_CONST_PIECES) r.bytes += c[i].bytes;
    for (uint32_t i = 0; i < h->programs.count; i++) {
        const bt_pkg_program *g = &bt_pkg_programs(p)[i];
        if (c[g->code].kind != BT_PKG_CONST_PIECES) continue;
        r.packed++;
        r.unpacked_bytes +=
            (uint64_t)g->insts * sizeof(bt_pkg_inst) + (uint64_t)g->places * sizeof(bt_pkg_place);
    }
    r.bytes += r.body_bytes;
    return r;
}

uint64_t tool_package_values_bytes(const bt_pkg *p, uint32_t program)
{
    const bt_pkg_place *place = bt_pkg_plan(p, program);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < bt_pkg_programs(p)[program].places; i++) sum += place[i].bytes;
    return sum;
}

const char *tool_package_npu_ops(const bt_pkg *p)
{
    const uint32_t largest = tool_package_largest(p);
    const bt_pkg_inst *inst = bt_pkg_code(p, largest);
    for (uint32_t i = 0; i < bt_pkg_programs(p)[largest].insts; i++) {
        const bt_pkg_op_info *r = bt_pkg_op_info_of(inst[i].op);
        const bool converts = r->is_edge && r->of == BT_OP_NONE;
        if (inst[i].unit != BT_PKG_COMPANION && !bt_pkg_is_npu_linear(&inst[i]) && !converts) return "all";
    }
    return "linear";
}

size_t tool_package_placement(tool_package_place ret[TOOL_PACKAGE_MAX_PLACES], const bt_pkg *p)
{
    const uint32_t largest = tool_package_largest(p);
    const bt_pkg_program *g = &bt_pkg_programs(p)[largest];
    const bt_pkg_inst *inst = bt_pkg_code(p, largest);
    uint32_t last[TOOL_PACKAGE_MAX_PLACES]; /* the cluster seen last */
    size_t n = 0;
    for (uint32_t i = 0; i < g->insts; i++) {
        const char *op = bt_pkg_op_name((bt_pkg_op)inst[i].op), *unit = bt_pkg_unit_name(inst[i].unit);
        size_t k = 0;
        while (k < n && (strcmp(ret[k].op, op) != 0 || strcmp(ret[k].unit, unit) != 0)) k++;
        if (k == TOOL_PACKAGE_MAX_PLACES) continue; /* there are far fewer kinds */
        if (k == n) {
            ret[n++] = (tool_package_place){.op = op, .unit = unit};
            last[k] = 0;
        }
        ret[k].count++;
        ret[k].macs_per_row += inst[i].macs_per_row;
        if (inst[i].cluster != 0 && inst[i].cluster != last[k]) ret[k].clusters++;
        last[k] = inst[i].cluster;
    }
    return n;
}

bt_err tool_package_sharing(bt_sharing *ret, const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_hparams hp = {.arch = (bt_arch)h->arch,
                           .layers = h->layers,
                           .dim = h->dim,
                           .ffn = h->ffn,
                           .heads = h->heads,
                           .kv_heads = h->kv_heads,
                           .head_dim = h->head_dim,
                           .vocab = h->vocab,
                           .ctx = h->ctx_tokens,
                           .rope_dims = h->rope_dims,
                           .rope_neox = h->flags & BT_PKG_FLAG_NEOX,
                           .rms_eps = h->rms_eps,
                           .times = {.scores = h->attn_scale, .embed = h->embed_scale, .add = h->add_scale},
                           .tied_output = h->flags & BT_PKG_FLAG_TIED,
                           .rules = h->rules,
                           .qkv_bias = h->flags & BT_PKG_FLAG_QKV_BIAS,
                           .qk_norm = h->flags & BT_PKG_FLAG_QK_NORM};
    const bt_pkg_tensor *q = &bt_pkg_tensors(p)[bt_pkg_tensor_index(h->layers, 0, BT_WEIGHT_Q)];
    bt_graph *g = NULL;
    bt_err e = bt_graph_build(&g, &hp, NULL, fault);
    if (e == BT_OK)
        e = bt_sharing_of(ret, g, TOOL_PACKAGE_SHARING_TOKENS,
                          bt_pkg_programs(p)[tool_package_largest(p)].seq, q->bits, fault);
    bt_graph_free(g);
    return e;
}

const char *tool_package_attention(char ret[BT_ATTENTION_MAX_TEXT], const bt_pkg *p)
{
    const bt_attention a = bt_attention_of(bt_pkg_header_of(p));
    bt_attention_text(ret, &a);
    return ret;
}
