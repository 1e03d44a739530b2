/* A package as JSON. Key order is fixed by the order of the calls. See package_view.h. */
#include "tools/package_view.h"
#include "base/hash.h"
#include "model/weight.h"
#include "npu/lower/plan.h"
#include "npu/pkg/recipe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *count(uint64_t n) { return json_integer((json_int_t)n); }
static json_t *real(double v) { return isfinite(v) ? json_real(v) : json_null(); }

/* Appends a new reference; whatever fails ends as NULL. */
static json_t *append(json_t *list, json_t *item)
{
    if (!list) {
        json_decref(item);
    } else if (json_array_append_new(list, item) < 0) {
        json_decref(list);
        list = NULL;
    }
    return list;
}

static json_t *range(const tool_package_range *r)
{
    return r->count ? json_pack("[f,f]", r->lo, r->hi) : json_null();
}

static json_t *program(const bt_pkg *p, uint32_t index)
{
    const bt_pkg_program *g = &bt_pkg_programs(p)[index];
    const tool_package_switches w = tool_package_switches_of(p, index);
    const bt_plan_macs m = bt_plan_macs_of(g, bt_pkg_code(p, index), bt_pkg_sites(p));
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "program", count(index),
                     "instructions", count(g->insts), "clusters", count(g->clusters), "arena_bytes",
                     count(g->arena_bytes), "npu_macs", count(g->npu_macs), "npu_int8_macs", count(m.int8),
                     "npu_int16_macs", count(m.int16), "npu_float_macs", count(m.floats), "companion_macs",
                     count(g->companion_macs), "activation_bytes_moved", count(g->activation_bytes_moved),
                     "row_padding_bytes", count(tool_package_row_padding(p, index)), "tile_padding_macs",
                     count(tool_package_tile_padding(p, index)), "static_ctx", count(g->ctx),
                     "session_switches", count(w.count), "session_switch_ns", count(w.ns));
}

static json_t *specializations(const bt_pkg *p)
{
    json_t *a = json_array();
    const bt_pkg_row *r = bt_pkg_rows(p);
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->rows.count; i++) {
        uint64_t arena = 0;
        for (size_t out = 0; out < BT_PKG_OUTS; out++) {
            const uint64_t bytes = bt_pkg_programs(p)[r[i].program[out]].arena_bytes;
            if (bytes > arena) arena = bytes;
        }
        const tool_package_bucket bucket = tool_package_bucket_of(p, i);
        a = append(a, json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:{s:o,s:o,s:o}}", "batch",
                                count(r[i].batch), "seq_min", count(r[i].seq_min), "seq", count(r[i].seq),
                                "ctx", count(r[i].ctx), "arena_bytes", count(arena), "masked_columns_ratio",
                                real(bucket.masked), "window_columns", count(bucket.window_columns),
                                "window_masked_ratio", real(bucket.window_masked), "programs", "none",
                                program(p, r[i].program[BT_PKG_OUT_NONE]), "last",
                                program(p, r[i].program[BT_PKG_OUT_LAST]), "all",
                                program(p, r[i].program[BT_PKG_OUT_ALL])));
    }
    return a;
}

static json_t *fallbacks(const bt_pkg *p)
{
    json_t *a = json_array();
    const bt_pkg_fallback *f = bt_pkg_fallbacks(p);
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->fallbacks.count; i++)
        a = append(a,
                   json_pack("{s:s,s:o,s:o,s:s,s:o}", "op", f[i].op, "count", count(f[i].count), "layers",
                             count(f[i].layers), "why", f[i].why, "macs_per_row", count(f[i].macs_per_row)));
    return a;
}

static json_t *sessions(const bt_pkg *p)
{
    json_t *a = json_array();
    const bt_pkg_session *s = bt_pkg_sessions(p);
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->sessions.count; i++)
        a = append(a, json_pack("{s:o,s:o,s:o}", "first_layer", count(s[i].first_layer), "last_layer",
                                count(s[i].last_layer), "mapped_bytes", count(s[i].mapped_bytes)));
    return a;
}

static json_t *placement(const bt_pkg *p)
{
    json_t *a = json_array();
    tool_package_place place[TOOL_PACKAGE_MAX_PLACES];
    const size_t n = tool_package_placement(place, p);
    for (size_t i = 0; i < n; i++)
        a = append(a, json_pack("{s:s,s:s,s:o,s:o,s:o}", "op", place[i].op, "unit", place[i].unit, "count",
                                count(place[i].count), "clusters", count(place[i].clusters), "macs_per_row",
                                count(place[i].macs_per_row)));
    return a;
}

static json_t *layer_of(uint32_t layer) { return layer == UINT32_MAX ? json_null() : count(layer); }

static json_t *clusters(const bt_pkg *p)
{
    json_t *a = json_array();
    tool_package_cluster *c = NULL;
    const size_t n = tool_package_clusters(&c, p);
    for (size_t i = 0; i < n; i++)
        a = append(a, json_pack("{s:o,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "id", count(c[i].id), "first",
                                c[i].first, "last", c[i].last, "instructions", count(c[i].instructions),
                                "first_layer", layer_of(c[i].first_layer), "last_layer",
                                layer_of(c[i].last_layer), "macs", count(c[i].macs), "in_bytes",
                                count(c[i].in_bytes), "out_bytes", count(c[i].out_bytes)));
    free(c);
    return a;
}

static json_t *tensor(const bt_pkg *p, const bt_pkg_tensor *t)
{
    char name[TOOL_PACKAGE_NAME_BYTES], site[TOOL_PACKAGE_NAME_BYTES];
    const tool_package_range scale = tool_package_scales(p, t), mult = tool_package_mults(p, t),
                             shift = tool_package_shifts(p, t);
    const bool is_matrix = t->bits < 16;
    return json_pack(
        "{s:s,s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "name",
        tool_package_tensor_name(name, t), "layer", t->layer == UINT32_MAX ? json_null() : count(t->layer),
        "weight", bt_weight_name((bt_weight)t->weight), "n", count(t->n), "k", count(t->k), "bits",
        count(t->bits), "bytes",
        t->panels == BT_PKG_NONE ? json_null() : count(bt_pkg_consts(p)[t->panels].bytes), "site",
        t->site == BT_PKG_NONE ? json_null()
                               : json_string(tool_package_site_name(site, &bt_pkg_sites(p)[t->site])),
        "scale", range(&scale), "zero_point", is_matrix ? count(0) : json_null(), "multiplier", range(&mult),
        "shift", range(&shift), "output_scale", t->out_scale > 0 ? real((double)t->out_scale) : json_null(),
        "weight_error", is_matrix ? real((double)t->weight_error) : json_null(), "output_error",
        is_matrix ? real((double)t->output_error) : json_null());
}

static json_t *tensors(const bt_pkg *p)
{
    json_t *a = json_array();
    const bt_pkg_tensor *t = bt_pkg_tensors(p);
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->tensors.count; i++)
        if (t[i].n) a = append(a, tensor(p, &t[i]));
    return a;
}

static json_t *sites(const bt_pkg *p)
{
    static const char *const shadows[] = {"off", "value", "channel"};
    json_t *a = json_array();
    const bt_pkg_site *s = bt_pkg_sites(p);
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->sites.count; i++) {
        char name[TOOL_PACKAGE_NAME_BYTES];
        if (!s[i].k) continue;
        a = append(a, json_pack("{s:s,s:o,s:s,s:o,s:o,s:s,s:b,s:o,s:b,s:i,s:o,s:o,s:o,s:o,s:o}", "name",
                                tool_package_site_name(name, &s[i]), "layer",
                                s[i].layer == UINT32_MAX ? json_null() : count(s[i].layer), "kind",
                                bt_site_kind_name((bt_site_kind)s[i].kind), "bits", count(s[i].bits), "k",
                                count(s[i].k), "shadow", shadows[s[i].shadow % 3], "pruned", (int)s[i].pruned,
                                "scale", real((double)s[i].scale), "asymmetric", (int)s[i].asymmetric,
                                "zero_point", (int)s[i].zero, "clip", real((double)s[i].clip), "max",
                                real((double)s[i].max), "rms", real((double)s[i].rms), "input_error",
                                real((double)s[i].input_error), "outlier_columns",
                                real((double)s[i].outlier_columns)));
    }
    return a;
}

static json_t *sparse_heads(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_head *head = bt_pkg_const_at(p, h->sparse_heads);
    json_t *a = json_array();
    for (uint32_t i = 0; i < h->layers * h->heads; i++)
        a = append(a, json_pack("{s:o,s:o,s:f,s:o,s:f,s:f}", "layer", count(i / h->heads), "head",
                                count(i % h->heads), "ratio", (double)head[i].ppm / BT_ATTENTION_ALL_PPM,
                                "recall", real((double)head[i].recall), "q_scale", (double)head[i].q_scale,
                                "k_scale", (double)head[i].k_scale));
    return a;
}

/* The experts that the calibration chose too rarely for numbers of their own. */
static json_t *rare_experts(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    json_t *a = json_array();
    for (uint32_t i = 0; i < h->layers * h->experts; i++) {
        const bt_pkg_expert *e = bt_pkg_expert_of(p, i / h->experts, BT_SITE_UP, i % h->experts);
        if (e->is_rare)
            a = append(a, json_pack("{s:o,s:o,s:o}", "layer", count(i / h->experts), "expert",
                                    count(i % h->experts), "calibration_rows", count(e->rows)));
    }
    return a;
}

static json_t *sharing(const bt_pkg *p)
{
    bt_sharing r;
    if (tool_package_sharing(&r, p, NULL) < 0) return json_null();
    return json_pack("{s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:f}", "prompt_tokens", TOOL_PACKAGE_SHARING_TOKENS,
                     "chunks", count(r.chunks), "subgraphs", count(r.subgraphs), "shared", count(r.shared),
                     "unshared", count(r.unshared), "naive_bytes", count(r.naive_bytes), "shared_bytes",
                     count(r.shared_bytes), "ratio", r.ratio);
}

json_t *tool_package_summary_json(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    char digest[BT_HASH_HEX_CHARS], id[BT_HASH_HEX_CHARS];
    json_t *j =
        json_pack("{s:s,s:s,s:s,s:o,s:s,s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "name", h->model_name,
                  "model_id", bt_hash_hex(id, h->model_id), "digest", bt_hash_hex(digest, h->digest),
                  "version", count(h->version), "quant", bt_pkg_recipe(p), "shape_policy", h->shape_policy,
                  "profile", h->profile, "npu_ops", tool_package_npu_ops(p), "floats",
                  bt_pkg_float_name(h->float_form), "file_bytes", count(h->file_bytes), "weights_bytes",
                  count(h->weights_bytes), "arena_bytes", count(h->arena_bytes), "calibration_tokens",
                  count(h->calib_tokens), "specializations", specializations(p), "fallbacks", fallbacks(p));
    char attention[BT_ATTENTION_MAX_TEXT];
    if (j && h->sparse_ppm)
        json_object_update_new(
            j, json_pack("{s:s,s:o,s:o,s:b}", "attention", tool_package_attention(attention, p), "dense_rows",
                         count(h->sparse_dense_rows), "choosing_rows", count(bt_attention_of(h).rows),
                         "choosing_group", (int)h->sparse_group));
    if (j && h->experts)
        json_object_update_new(j, json_pack("{s:o,s:o,s:o}", "experts", count(h->experts), "experts_used",
                                            count(h->experts_used), "rare_experts", rare_experts(p)));
    json_t *plan = tool_package_plan_json(p);
    if (j && plan && json_object_update_new(j, plan) == 0) return j;
    if (!j) json_decref(plan);
    json_decref(j);
    return NULL;
}

json_t *tool_package_json(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_const *c = bt_pkg_consts(p);
    const uint32_t largest = tool_package_largest(p);
    const bt_pkg_program *g = &bt_pkg_programs(p)[largest];
    uint64_t shared = 0; /* constants named more than once */
    for (uint32_t i = 0; i < h->consts.count; i++) shared += c[i].refs > 1;
    json_t *j = tool_package_summary_json(p);
    json_t *more = json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:o,s:o,s:o,s:{s:o,s:o,s:o,s:o},s:o,s:o,s:o}", "layers",
        count(h->layers), "dim", count(h->dim), "ffn", count(h->ffn), "heads", count(h->heads), "kv_heads",
        count(h->kv_heads), "head_dim", count(h->head_dim), "vocab", count(h->vocab), "ctx_tokens",
        count(h->ctx_tokens), "kernels_version", count(h->kernels_version), "rounding",
        h->rounding == BT_PKG_ROUND_HALF_UP ? "floor(x + 1/2)" : "?", "residual_scale",
        h->npu_ops == BT_PKG_OPS_ALL ? real((double)h->residual_scale) : json_null(), "constants",
        count(h->consts.count), "constants_shared", count(shared), "memory", "seq", count(g->seq), "values",
        count(g->places), "values_bytes", count(tool_package_values_bytes(p, largest)), "arena_bytes",
        count(g->arena_bytes), "placement", placement(p), "sessions", sessions(p), "tensors", tensors(p));
    if (more && (json_object_set_new(more, "sites", sites(p)) < 0 ||
                 json_object_set_new(more, "clusters", clusters(p)) < 0 ||
                 json_object_set_new(more, "chunk_sharing", sharing(p)) < 0 ||
                 (h->sparse_ppm && json_object_set_new(more, "sparse_heads", sparse_heads(p)) < 0))) {
        json_decref(more);
        more = NULL;
    }
    if (j && more && json_object_update_new(j, more) == 0) return j;
    if (!j) json_decref(more);
    json_decref(j);
    return NULL;
}
