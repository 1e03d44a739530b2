/* Asks the profile about each operator, and clusters the operators that the NPU takes. */
#include "npu/lower/offload.h"
#include "kernels/int_kernels.h"
#include "npu/lower/clusters.h"
#include "npu/pkg/pkg_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WHY = sizeof((bt_pkg_fallback *)0)->why };

static bool is_asked(const bt_op *op, uint32_t npu_ops)
{
    if (bt_op_is_linear(op)) return true;
    if (op->kind == BT_OP_SOFT_CAP) return npu_ops == BT_PKG_OPS_ALL; /* no device has it; it is listed */
    if (npu_ops != BT_PKG_OPS_ALL || bt_op_infos[op->kind].class == BT_CLASS_EDGE) return false;
    return op->rotation != BT_ROTATION_R1; /* R1 belongs to the embedding */
}

bool bt_offload_linear(char *why, const bt_profile *profile, const bt_recipe_layer *recipe, bt_site_kind site,
                       size_t k)
{
    const uint8_t can = profile->op[BT_OP_LINEAR];
    const unsigned bits = recipe->input_bits[site];
    why[0] = 0;
    if (!can) snprintf(why, MAX_WHY, "not in profile %s", profile->name);
    else if (!(can & (bits == 16 ? BT_PROFILE_INT16 : BT_PROFILE_INT8)))
        snprintf(why, MAX_WHY, "%u-bit inputs at %s", bits, bt_site_kind_name(site));
    else if (recipe->weight_bits == 4 && !(can & BT_PROFILE_INT4)) snprintf(why, MAX_WHY, "4-bit weights");
    else if (recipe->palette_bits && !(can & BT_PROFILE_LUT)) snprintf(why, MAX_WHY, "weights in palettes");
    else if (k > BT_INT_MAX_K) snprintf(why, MAX_WHY, "%zu inputs, an accumulator takes %d", k, BT_INT_MAX_K);
    return !why[0];
}

/* Whether an operator of this kind reads what op[at] writes. */
static bool is_read_by(const bt_graph *g, size_t at, bt_op_kind kind)
{
    const bt_op *o = g->op;
    for (size_t i = at + 1; i < g->ops && o[i].layer == o[at].layer; i++)
        if (o[i].kind == kind && o[i].in[0] == o[at].out) return true;
    return false;
}

/* Writes why the profile cannot run the operator in integers; "": it can. Integers in units of down's site
 * are too coarse to be rotated, so with R4 the operator that makes them stays in floats too. */
static void why_not(char *why, const bt_graph *g, size_t at, const bt_profile *profile,
                    const bt_recipe *recipe)
{
    const bt_op *op = &g->op[at];
    const bool is_turned = at + 1 < g->ops && op[1].rotation == BT_ROTATION_R4 && op[1].in[0] == op->out;
    const bt_site_kind site = (bt_site_kind)bt_pkg_site_of(op->weight);
    const uint8_t can = profile->op[op->kind];
    why[0] = 0;
    if (bt_op_is_linear(op))
        (void)bt_offload_linear(why, profile, bt_recipe_of(recipe, op->layer, site), site,
                                g->tensor[op->in[0]].width);
    else if (!can && op->kind != BT_OP_SOFT_CAP) snprintf(why, MAX_WHY, "not in profile %s", profile->name);
    else if (!bt_pkg_op_in_integers(op->kind)) snprintf(why, MAX_WHY, "no form in integers");
    else if (!(can & (profile->output_bits == 8 ? BT_PROFILE_INT8 : BT_PROFILE_INT16)))
        snprintf(why, MAX_WHY, "%u-bit values", (unsigned)profile->output_bits);
    else if (bt_op_infos[op->kind].beside == BT_BESIDE_POSITIONS && g->hp.rope.magnitude > 1.0f)
        snprintf(why, MAX_WHY, "cos and sin times %.6g, integer tables hold up to 1",
                 (double)g->hp.rope.magnitude);
    else if (is_turned || op->rotation == BT_ROTATION_R4) snprintf(why, MAX_WHY, "r4 rotates floats");
    else if (is_read_by(g, at, BT_OP_ROUTE)) snprintf(why, MAX_WHY, "rows are routed in floats");
    else if (op->kind == BT_OP_RMSNORM && !bt_graph_reader(g, op->out, at))
        snprintf(why, MAX_WHY, "a norm behind a linear");
    else if (op->kind == BT_OP_QK_NORM && g->tensor[op->out].width != op->heads * g->hp.head_dim)
        snprintf(why, MAX_WHY, "a norm of the whole row");
    else if (op->kind == BT_OP_ATTENTION && g->hp.score_cap > 0)
        snprintf(why, MAX_WHY, "soft caps of scores");
    else if (op->kind == BT_OP_ATTENTION && bt_arch_of(g->hp.arch)->scores == BT_ARCH_SINKS)
        snprintf(why, MAX_WHY, "sinks of heads");
    else if (op->kind == BT_OP_ADD && !bt_graph_added(g, at))
        snprintf(why, MAX_WHY, "adds what %s made",
                 g->op[at - 1].kind == BT_OP_MIX_ROWS ? "experts" : "a norm");
}

/* Counts an operator as a fallback. Operators come in the order of their layers. */
static bt_err record(bt_offload *p, const bt_op *op, const char *why, uint64_t macs, bt_fault *fault)
{
    const char *name = bt_op_name(op->kind);
    size_t i = 0;
    while (i < p->fallbacks && (strcmp(p->fallback[i].op, name) || strcmp(p->fallback[i].why, why))) i++;
    if (i == BT_OFFLOAD_MAX_FALLBACKS)
        return bt_fail(fault, BT_ELIMIT, "more than %zu reasons for fallbacks", i);
    if (i == p->fallbacks) {
        snprintf(p->fallback[i].op, sizeof p->fallback[i].op, "%s", name);
        snprintf(p->fallback[i].why, sizeof p->fallback[i].why, "%s", why);
        p->last_layer[i] = BT_GRAPH_NO_LAYER;
        p->fallbacks++;
    }
    p->fallback[i].count++;
    if (op->layer != BT_GRAPH_NO_LAYER && op->layer != p->last_layer[i]) p->fallback[i].layers++;
    p->last_layer[i] = op->layer;
    p->fallback[i].macs_per_row += macs;
    return BT_OK;
}

/* ---- the graph as nodes that read from nodes ----
 * Tensors are written in place. So an operator comes after the last writer of all that it reads and writes,
 * and after the readers of all that it writes. Only a tensor's last writer and the readers since then are
 * kept. */

typedef struct users {
    uint32_t writer, reader[8];
    uint32_t readers;
    bool written;
} users;

typedef struct edges {
    const bt_graph *g;
    users *of;       /* [tensors] */
    uint32_t *input; /* [ops * MAX_INPUTS]: the nodes' lists, one behind the other */
    size_t inputs;
    bt_clusters_node *node; /* [ops] */
    uint64_t *work;         /* [ops]: work of a dropped operator's cluster */
} edges;
enum { MAX_INPUTS = 32, MAX_READERS = sizeof((users *)0)->reader / sizeof(uint32_t) };

static void after(bt_clusters_node *node, uint32_t *list, uint32_t before)
{
    for (size_t i = 0; i < node->inputs; i++)
        if (list[i] == before) return;
    list[node->inputs++] = before;
}

static bt_err connect(edges *e, uint32_t v, bt_fault *fault)
{
    const bt_op *op = &e->g->op[v];
    uint32_t *list = e->input + e->inputs;
    bt_clusters_node *node = &e->node[v];
    node->input = list;
    for (int i = 0; i < 2; i++) {
        if (op->in[i] == BT_GRAPH_NO_TENSOR) continue;
        users *u = &e->of[op->in[i]];
        if (u->written) after(node, list, u->writer);
        if (u->readers == MAX_READERS)
            return bt_fail(fault, BT_ELIMIT, "tensor '%s' has too many readers",
                           e->g->tensor[op->in[i]].name);
        u->reader[u->readers++] = v;
    }
    node->reads = node->inputs;
    users *u = &e->of[op->out];
    if (u->written) after(node, list, u->writer);
    for (uint32_t i = 0; i < u->readers; i++)
        if (u->reader[i] != v) after(node, list, u->reader[i]);
    u->written = true;
    u->writer = v;
    u->readers = 0;
    e->inputs += node->inputs;
    return BT_OK;
}

/* Measures what an operator writes as it crosses a boundary: 4 bytes an element; 2 for rows of KV and for the
 * NPU's floats. Logits are the caller's memory. */
static bt_err measure(bt_clusters_node *node, const bt_graph *g, const bt_op *op, uint8_t unit,
                      const bt_bind *at, bt_fault *fault)
{
    const bt_tensor *t = &g->tensor[op->out];
    uint64_t rows = 0;
    bt_err e = bt_formula_eval(&node->macs, op->macs, at, fault);
    if (e == BT_OK) e = bt_formula_eval(&rows, t->rows, at, fault);
    node->bytes = rows * t->width * (t->kind == BT_TENSOR_KV || unit == BT_PKG_NPU_FLOAT ? 2 : 4);
    node->elements = t->kind == BT_TENSOR_KV ? 0 : rows * t->width;
    return e;
}

static bt_err cluster_all(bt_offload *p, edges *e, const bt_profile *profile, bt_fault *fault)
{
    const bt_bind at = {{1, BT_OFFLOAD_ROWS, BT_OFFLOAD_ROWS, 1}};
    const uint64_t launch_ns = (uint64_t)profile->time.op_launch_ns + profile->time.dispatch_ns;
    const bt_clusters_cost cost = {launch_ns, profile->boundary_bytes_per_us,
                                   profile->convert_elements_per_us};
    bt_err err = BT_OK;
    for (uint32_t v = 0; v < p->ops; v++) {
        if ((err = connect(e, v, fault)) < 0) return err;
        e->node[v].npu = p->on_npu[v] != BT_PKG_COMPANION;
        if ((err = measure(&e->node[v], e->g, &e->g->op[v], p->on_npu[v], &at, fault)) < 0) return err;
    }
    if ((err = bt_clusters_find(p->cluster, &p->clusters, e->node, p->ops, fault)) < 0) return err;
    return bt_clusters_merge_all(p->cluster, &p->clusters, e->node, p->ops, &cost, profile->min_cluster_macs,
                                 e->work, fault);
}

/* Lists the operators of dropped clusters as fallbacks: those on the NPU that are in no cluster. */
static bt_err list_dropped(bt_offload *p, const edges *e, const bt_profile *profile, const bt_bind *row,
                           bt_fault *fault)
{
    char why[MAX_WHY];
    bt_err err = BT_OK;
    for (size_t v = 0; err == BT_OK && v < p->ops; v++) {
        uint64_t a_row;
        if (!p->on_npu[v] || p->cluster[v]) continue;
        snprintf(why, sizeof why, "less work than a launch is worth: %llu MACs, wanted %llu",
                 (unsigned long long)e->work[v], (unsigned long long)profile->min_cluster_macs);
        p->on_npu[v] = 0;
        if ((err = bt_formula_eval(&a_row, e->g->op[v].macs, row, fault)) == BT_OK)
            err = record(p, &e->g->op[v], why, a_row, fault);
    }
    return err;
}

/* ---- floats ---- */

static bool is_too_large(const bt_op *op, const bt_profile *profile, float max)
{
    return (profile->op[op->kind] & BT_PROFILE_FLOAT16) && !(max <= BT_OFFLOAD_FLOAT16_MAX);
}

/* Whether the NPU takes in floats an operator that it cannot run in integers. op_max NULL: no value is too
 * large. False: `why` stays, or names the values that are too large. */
static bool takes_floats(char *why, const bt_graph *g, size_t at, const bt_profile *profile,
                         const float *op_max)
{
    const bt_op *op = &g->op[at];
    float most = 0;
    if (!(profile->op[op->kind] & BT_PROFILE_FLOATS)) return false;
    if (op->kind == BT_OP_ATTENTION && bt_arch_of(g->hp.arch)->scores != BT_ARCH_PLAIN) return false;
    if (!op_max || !is_too_large(op, profile, op_max[at])) return true;
    for (size_t i = 0; i < g->ops; i++)
        if (g->op[i].kind == op->kind && op_max[i] > most) most = op_max[i];
    snprintf(why, MAX_WHY, "values up to %.0f in the calibration, float16 runs up to %d", (double)most,
             BT_OFFLOAD_FLOAT16_MAX);
    return false;
}

static bt_err ask_all(bt_offload *p, const bt_graph *g, const bt_profile *profile, const bt_recipe *recipe,
                      uint32_t npu_ops, const bt_bind *row, const float *op_max, bt_fault *fault)
{
    char why[MAX_WHY];
    for (size_t i = 0; i < g->ops; i++) {
        uint64_t macs;
        bt_err e;
        if (!is_asked(&g->op[i], npu_ops)) continue;
        why_not(why, g, i, profile, recipe);
        p->on_npu[i] = !why[0]                                    ? BT_PKG_NPU
                       : takes_floats(why, g, i, profile, op_max) ? BT_PKG_NPU_FLOAT
                                                                  : BT_PKG_COMPANION;
        if (p->on_npu[i]) continue;
        if ((e = bt_formula_eval(&macs, g->op[i].macs, row, fault)) < 0 ||
            (e = record(p, &g->op[i], why, macs, fault)) < 0)
            return e;
    }
    return BT_OK;
}

/* Sums up what runs where, after every operator is placed. */
static void summarise(bt_offload *p, const bt_graph *g, const bt_profile *profile)
{
    for (size_t i = 0; i < g->ops; i++) {
        if (p->on_npu[i] == BT_PKG_NPU && !bt_op_is_linear(&g->op[i])) p->npu_ops = BT_PKG_OPS_ALL;
        if (p->on_npu[i] != BT_PKG_NPU_FLOAT) continue;
        p->float_form = profile->op[g->op[i].kind] & BT_PROFILE_FLOAT16 ? BT_ROUND16_F16 : BT_ROUND16_BF16;
    }
}

bt_err bt_offload_new(bt_offload **ret, const bt_graph *g, const bt_profile *profile, const bt_recipe *recipe,
                      uint32_t npu_ops, size_t ctx_tokens, const float *op_max, bt_fault *fault)
{
    const bt_bind row = {{1, 1, ctx_tokens, 1}};
    edges ed = {.g = g};
    bt_err e = BT_OK;
    bt_offload *p = calloc(1, sizeof *p);
    ed.of = calloc(g->tensors + 1, sizeof *ed.of);
    ed.input = malloc((g->ops + 1) * MAX_INPUTS * sizeof *ed.input);
    ed.node = calloc(g->ops + 1, sizeof *ed.node);
    ed.work = calloc(g->ops + 1, sizeof *ed.work);
    if (!p || !ed.of || !ed.input || !ed.node || !ed.work || !(p->on_npu = calloc(g->ops + 1, 1)) ||
        !(p->cluster = calloc(g->ops + 1, sizeof *p->cluster))) {
        e = bt_fail(fault, BT_ENOMEM, "out of memory placing %zu operators", g->ops);
        goto out;
    }
    p->ops = g->ops;
    if ((e = ask_all(p, g, profile, recipe, npu_ops, &row, op_max, fault)) < 0) goto out;
    if ((e = cluster_all(p, &ed, profile, fault)) < 0) goto out;
    if ((e = list_dropped(p, &ed, profile, &row, fault)) < 0) goto out;
    summarise(p, g, profile);
    *ret = p;
    p = NULL;
out:
    free(ed.of);
    free(ed.input);
    free(ed.node);
    free(ed.work);
    bt_offload_free(p);
    return e;
}

void bt_offload_free(bt_offload *p)
{
    if (!p) return;
    free(p->on_npu);
    free(p->cluster);
    free(p);
}

void bt_offload_fallback_text(char *ret, size_t room, const bt_pkg_fallback *f)
{
    char layers[40] = "outside layers";
    if (f->layers) snprintf(layers, sizeof layers, "in %u layer%s", f->layers, f->layers == 1 ? "" : "s");
    snprintf(ret, room, "%s %u x %s (%s)", f->op, f->count, layers, f->why);
}

bt_err bt_offload_require(const bt_pkg_fallback *list, size_t n, bt_fault *fault)
{
    char text[200] = "", one[BT_OFFLOAD_FALLBACK_BYTES];
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t room = sizeof text - at;
        bt_offload_fallback_text(one, sizeof one, &list[i]);
        const int len = snprintf(text + at, room, "%s%s", i ? ", " : "", one);
        if (len < 0 || (size_t)len >= room - 12) { /* room for the rest's count */
            snprintf(text + at, room, "%s%zu more", i ? ", " : "", n - i);
            break;
        }
        at += (size_t)len;
    }
    return n ? bt_fail(fault, BT_EARG, "would not run on the NPU: %s", text) : BT_OK;
}
