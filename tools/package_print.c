/* A package for people. See package_view.h. */
#include "tools/package_view.h"
#include "base/num.h"
#include "base/hash.h"
#include "npu/lower/offload.h"
#include "npu/lower/plan.h"
#include "npu/pkg/recipe.h"
#include "tools/tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *size_text(char ret[32], uint64_t bytes)
{
    bt_num_size_text(ret, 32, bytes);
    return ret;
}

/* Prints the kinds of the NPU's MACs where they are not int8 alone. */
static void print_kinds(const bt_pkg *p)
{
    const uint32_t largest = tool_package_largest(p);
    const bt_pkg_program *g = &bt_pkg_programs(p)[largest];
    const bt_plan_macs m = bt_plan_macs_of(g, bt_pkg_code(p, largest), bt_pkg_sites(p));
    const double all = (double)g->npu_macs;
    if (m.int16 + m.floats)
        printf("  NPU MACs: %.2f %% in int8, %.2f %% in int16, %.2f %% in floats\n",
               100 * (double)m.int8 / all, 100 * (double)m.int16 / all, 100 * (double)m.floats / all);
}

static void print_attention(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_attention a = bt_attention_of(h);
    char text[BT_ATTENTION_MAX_TEXT];
    printf("attention       %s; rows below position %u are dense\n", tool_package_attention(text, p),
           a.dense_rows);
    if (a.rows > 1) printf("                %u rows share the choice of their first\n", a.rows);
    if (a.is_group) printf("                %u query heads share a choice\n", h->heads / h->kv_heads);
}

/* Prints what groups of so many inputs take in the package, and what they cost the device. */
static void print_group(const bt_pkg *p, uint32_t group)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_tensor *t = bt_pkg_tensors(p);
    bt_profile profile;
    uint64_t bytes = 0, weights = 0;
    for (uint32_t i = 0; i < h->tensors.count; i++) {
        if (t[i].group != group) continue;
        bytes += bt_pkg_consts(p)[t[i].groups].bytes;
        weights += (uint64_t)t[i].n * t[i].k * bt_pkg_matrices(h, t[i].weight);
    }
    if (!weights) return;
    printf("groups          %u inputs of an output share a step and an offset, %.3f bits a weight", group,
           8 * (double)bytes / (double)weights);
    if (bt_profile_load(&profile, h->profile, NULL) == BT_OK && profile.time.group32_permille)
        printf("; a linear takes %.2f times as long on %s",
               1 + ((double)profile.time.group32_permille - 1000) / 1000 * 32 / group, h->profile);
    printf("\n");
}

/* Prints what palettes take beside their indices. */
static void print_palettes(const bt_pkg *p, uint32_t bits)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_tensor *t = bt_pkg_tensors(p);
    uint64_t bytes = 0, weights = 0;
    for (uint32_t i = 0; i < h->tensors.count; i++) {
        if (!t[i].palette_run || t[i].bits != bits) continue;
        bytes += bt_pkg_consts(p)[t[i].groups].bytes;
        weights += (uint64_t)t[i].n * t[i].k * bt_pkg_matrices(h, t[i].weight);
    }
    if (weights)
        printf("palettes        %u numbers of 8 bits for 16 outputs, %u + %.3f bits a weight\n", 1u << bits,
               bits, 8 * (double)bytes / (double)weights);
}

/* Prints the programs of experts, and by name the experts that the calibration chose too rarely for numbers
 * of their own. */
static void print_experts(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    printf("experts         %u in each layer, %u of a row, programs for", h->experts, h->experts_used);
    for (uint32_t n = 1, at; (at = bt_pkg_expert_rows(h->max_seq, n)) > 0; n *= 2) {
        printf(" %u%s", at, at < h->max_seq ? "," : " rows\n");
        if (at == h->max_seq) break;
    }
    for (uint32_t l = 0; l < h->layers; l++) {
        const char *before = "";
        for (uint32_t e = 0; e < h->experts; e++) {
            const bt_pkg_expert *of = bt_pkg_expert_of(p, l, BT_SITE_UP, e);
            if (!of->is_rare) continue;
            if (!*before) printf("                layer %u, with the scale of all of its experts:", l);
            printf("%s %u (%u rows)", before, e, of->rows);
            before = ",";
        }
        if (*before) printf("\n");
    }
}

void tool_package_print_summary(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_row *r = bt_pkg_rows(p);
    const bt_pkg_fallback *f = bt_pkg_fallbacks(p);
    char digest[BT_HASH_HEX_CHARS], a[32], b[32], c[32];
    printf("model           %s\ndigest          %s\n", h->model_name, bt_hash_hex(digest, h->digest));
    printf("quantisation    %s, calibrated on %" PRIu64 " tokens\n", bt_pkg_recipe(p), h->calib_tokens);
    for (uint32_t group = 32; group <= 128; group *= 2) print_group(p, group);
    for (uint32_t bits = 4; bits <= 6; bits += 2) print_palettes(p, bits);
    if (h->sparse_ppm) print_attention(p);
    if (h->experts) print_experts(p);
    printf("device          %s, %s on the NPU%s%s\n", h->profile,
           strcmp(tool_package_npu_ops(p), "all") == 0 ? "every operator it has" : "matrix products",
           h->float_form ? ", some in " : "", h->float_form ? bt_pkg_float_name(h->float_form) : "");
    printf("size            %s, of it weights %s; one arena of %s\n", size_text(a, h->file_bytes),
           size_text(b, h->weights_bytes), size_text(c, h->arena_bytes));
    printf("shapes          %s, %u rows\n\n  %5s %11s %20s %12s %8s %16s %16s\n", h->shape_policy,
           h->rows.count, "batch", "seq", "ctx", "arena", "steps", "NPU MACs", "companion MACs");
    for (uint32_t i = 0; i < h->rows.count; i++) {
        const bt_pkg_program *g = &bt_pkg_programs(p)[r[i].program[BT_PKG_OUT_LAST]];
        char seq[32], ctx[32];
        uint32_t last = i; /* contexts that share their programs stand in one line */
        while (last + 1 < h->rows.count &&
               memcmp(r[last + 1].program, r[i].program, sizeof r[i].program) == 0)
            last++;
        if (r[i].seq_min < r[i].seq) snprintf(seq, sizeof seq, "%u-%u", r[i].seq_min, r[i].seq);
        else snprintf(seq, sizeof seq, "%u", r[i].seq);
        if (last > i) snprintf(ctx, sizeof ctx, "%u..%u (%u)", r[i].ctx, r[last].ctx, last - i + 1);
        else snprintf(ctx, sizeof ctx, "%u", r[i].ctx);
        printf("  %5u %11s %20s %12s %8u %16" PRIu64 " %16" PRIu64 "\n", r[i].batch, seq, ctx,
               size_text(a, g->arena_bytes), g->insts, g->npu_macs, g->companion_macs);
        i = last;
    }
    print_kinds(p);
    printf("  (MACs of whole programs; attention's, which grow with the position, are not in them)\n");
    tool_package_print_layout(p);
    printf("\nfallbacks       %s\n", h->fallbacks.count ? "these operators go to the companion:" : "none");
    for (uint32_t i = 0; i < h->fallbacks.count; i++) {
        char text[BT_OFFLOAD_FALLBACK_BYTES];
        bt_offload_fallback_text(text, sizeof text, &f[i]);
        printf("  %s\n", text);
    }
}

/* Clusters that are the same in layer after layer stand in one line; very many, each in its own. */
enum { MAX_COMPARED = 4096 };

static bool is_like(const tool_package_cluster *a, const tool_package_cluster *b)
{
    return a->instructions == b->instructions && a->macs == b->macs && a->in_bytes == b->in_bytes &&
           a->out_bytes == b->out_bytes && strcmp(a->first, b->first) == 0 && strcmp(a->last, b->last) == 0;
}

static void print_clusters(const bt_pkg *p)
{
    tool_package_cluster *c = NULL;
    const size_t n = tool_package_clusters(&c, p);
    if (n)
        printf("\nclusters, each one call of the NPU\n  %6s %6s %12s %16s %12s %12s  %s\n", "first", "count",
               "instructions", "MACs", "bytes in", "bytes out", "from, to");
    for (size_t i = 0; i < n; i++) {
        size_t like = n > MAX_COMPARED, before = 0;
        for (size_t k = 0; k < n && n <= MAX_COMPARED; k++) {
            like += is_like(&c[i], &c[k]);
            before += k < i && is_like(&c[i], &c[k]);
        }
        if (before) continue;
        printf("  %6u %6zu %12u %16" PRIu64 " %12" PRIu64 " %12" PRIu64 "  %s, %s\n", c[i].id, like,
               c[i].instructions, c[i].macs, c[i].in_bytes, c[i].out_bytes, c[i].first, c[i].last);
    }
    free(c);
}

static void print_range(const char *name, const tool_package_range *r, bool as_integers)
{
    if (!r->count) return;
    if (as_integers) printf("  %s %.0f..%.0f", name, r->lo, r->hi);
    else printf("  %s %.4g..%.4g", name, r->lo, r->hi);
}

static void print_tensors(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_tensor *t = bt_pkg_tensors(p);
    printf("\ntensors (zero points are 0)\n");
    for (uint32_t i = 0; i < h->tensors.count; i++) {
        char name[TOOL_PACKAGE_NAME_BYTES], shape[32];
        if (!t[i].n) continue;
        const tool_package_range scale = tool_package_scales(p, &t[i]), mult = tool_package_mults(p, &t[i]),
                                 shift = tool_package_shifts(p, &t[i]);
        snprintf(shape, sizeof shape, "[%u, %u]", t[i].n, t[i].k);
        printf("  %-20s %-16s %2u bits", tool_package_tensor_name(name, &t[i]), shape, t[i].bits);
        print_range("scale", &scale, false);
        print_range("multiplier", &mult, true);
        print_range("shift", &shift, true);
        if (t[i].out_scale > 0) printf("  output scale %.4g", (double)t[i].out_scale);
        putchar('\n');
    }
}

/* How programs are stored, and what static contexts waste. */
static void print_contexts(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const tool_package_packing packing = tool_package_packing_of(p);
    char a[32], b[32], c[32];
    if (packing.packed)
        printf("programs: %u of %u are made of bodies of %s, %s in all; each on its own would take %s\n",
               packing.packed, h->programs.count, size_text(a, packing.body_bytes),
               size_text(b, packing.bytes), size_text(c, packing.unpacked_bytes));
    for (uint32_t i = 0; i < h->rows.count; i++) {
        const tool_package_bucket bucket = tool_package_bucket_of(p, i);
        bool is_said = !bucket.ctx;
        for (uint32_t k = 0; k < i && !is_said; k++) {
            const tool_package_bucket before = tool_package_bucket_of(p, k);
            is_said = before.ctx == bucket.ctx && before.first == bucket.first &&
                      before.window_columns == bucket.window_columns;
        }
        if (is_said) continue;
        printf("static context of %u: positions %u to %u, %.1f %% of its columns masked\n", bucket.ctx,
               bucket.first, bucket.ctx - 1, 100 * bucket.masked);
        if (bucket.window_columns)
            printf("  window layers, chunks of %u: %u columns, %.1f %% masked\n", bt_pkg_rows(p)[i].seq,
                   bucket.window_columns, 100 * bucket.window_masked);
    }
}

static void print_sessions(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_session *s = bt_pkg_sessions(p);
    const tool_package_switches w = tool_package_switches_of(p, tool_package_largest(p));
    char a[32];
    for (uint32_t i = 0; i < h->sessions.count; i++)
        printf("session %u: layers %u to %u, %s mapped, for all %u specializations once\n", i + 1,
               s[i].first_layer, s[i].last_layer, size_text(a, s[i].mapped_bytes), h->rows.count);
    if (w.count)
        printf("session switches: %u a program, %.3f ms on the device; this machine maps the package whole\n",
               w.count, (double)w.ns / 1e6);
}

void tool_package_print_details(const bt_pkg *p, bool tensors)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const uint32_t largest = tool_package_largest(p);
    const bt_pkg_program *g = &bt_pkg_programs(p)[largest];
    tool_package_place place[TOOL_PACKAGE_MAX_PLACES];
    const size_t places = tool_package_placement(place, p);
    char a[32], b[32];
    uint64_t shared = 0, repeats = 0;
    for (uint32_t i = 0; i < h->consts.count; i++) {
        const bt_pkg_const *c = &bt_pkg_consts(p)[i];
        if (c->refs > 1) {
            shared++;
            repeats += (c->refs - 1) * c->bytes;
        }
    }
    printf("\nplacement in the program of %u rows, %u clusters on the NPU\n  %-16s %-10s %6s %9s %16s\n",
           g->seq, g->clusters, "operator", "unit", "count", "clusters", "MACs a row");
    for (size_t i = 0; i < places; i++)
        printf("  %-16s %-10s %6u %9u %16" PRIu64 "\n", place[i].op, place[i].unit, place[i].count,
               place[i].clusters, place[i].macs_per_row);
    print_clusters(p);
    printf("\nmemory of that program: %u values of %s in an arena of %s\n", g->places,
           size_text(a, tool_package_values_bytes(p, largest)), size_text(b, g->arena_bytes));
    tool_package_print_plan(p);
    bt_sharing sharing;
    if (tool_package_sharing(&sharing, p, NULL) == BT_OK)
        printf("a prompt of %d tokens: %u chunks over shared programs take %s, %.0f %% of what a program for "
               "each chunk would\n",
               TOOL_PACKAGE_SHARING_TOKENS, sharing.chunks, size_text(a, sharing.shared_bytes),
               100 * sharing.ratio);
    printf("constants: %u, %" PRIu64 " of them named more than once, which saves %s\n", h->consts.count,
           shared, size_text(a, repeats));
    printf("rounding: single, half up, floor(x + 1/2); zero points: 0 (symmetric)\n");
    if (h->npu_ops == BT_PKG_OPS_ALL)
        printf("residual stream: s32 in steps of %.6g\n", (double)h->residual_scale);
    print_contexts(p);
    print_sessions(p);
    if (tensors) print_tensors(p);
}

/* ---- what quantisation costs ---- */

typedef struct line {
    const bt_pkg_tensor *t;
    const bt_pkg_site *s;
    double key;
} line;

static int by_key(const void *x, const void *y)
{
    const line *a = x, *b = y;
    if (a->key != b->key) return a->key < b->key ? 1 : -1;
    return a->t < b->t ? -1 : a->t > b->t;
}

static double known(float v) { return isfinite(v) ? (double)v : 0; }

static void number(char ret[16], float v, const char *fmt)
{
    if (!isfinite(v)) snprintf(ret, 16, "-");
    else
        snprintf(ret, 16, strcmp(fmt, "%") == 0 ? "%.3f %%" : "%.4g",
                 strcmp(fmt, "%") == 0 ? 100 * (double)v : (double)v);
}

/* Prints what to try, by the worst line: whether its input or its weights lose most. */
static void print_hint(const line *worst, bool one_scale)
{
    char name[TOOL_PACKAGE_NAME_BYTES];
    const double in = known(worst->s->input_error), w = known(worst->t->weight_error);
    tool_package_tensor_name(name, worst->t);
    if (in > 2 * w && worst->s->bits == 8)
        printf("\n%s loses most through its 8-bit input: try a16=%s\n", name,
               bt_site_kind_name((bt_site_kind)worst->s->kind));
    else if (w > 2 * in)
        printf("\n%s loses most through its %u-bit weights: try %s\n", name, worst->t->bits,
               one_scale               ? "without per-tensor"
               : worst->t->palette_run ? (worst->t->bits == 4 ? "lut6" : "without lut6")
               : worst->t->bits == 4   ? "w8"
                                       : "gptq");
    else printf("\n%s loses about as much through its input as through its weights\n", name);
}

bt_err tool_package_print_errors(const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_tensor *t = bt_pkg_tensors(p);
    line *lines = calloc(h->tensors.count + 1, sizeof *lines);
    size_t n = 0;
    if (!lines) return bt_fail(fault, BT_ENOMEM, "out of memory for the list of tensors");
    for (uint32_t i = 0; i < h->tensors.count; i++) {
        if (!t[i].n || t[i].site == BT_PKG_NONE) continue;
        lines[n] = (line){&t[i], &bt_pkg_sites(p)[t[i].site], 0};
        lines[n].key = isfinite(t[i].output_error)
                           ? (double)t[i].output_error
                           : known(t[i].weight_error) + known(lines[n].s->input_error);
        n++;
    }
    qsort(lines, n, sizeof *lines, by_key);
    printf("relative RMS errors on the calibration, worst first\n  %-18s %4s %5s %10s %10s %10s %10s %10s "
           "%10s\n",
           "linear", "bits", "input", "weights", "input", "output", "clip", "max", "outliers");
    for (size_t i = 0; i < n; i++) {
        char name[TOOL_PACKAGE_NAME_BYTES], w[16], in[16], out[16], clip[16], max[16], share[16];
        number(w, lines[i].t->weight_error, "%");
        number(in, lines[i].s->input_error, "%");
        number(out, lines[i].t->output_error, "%");
        number(clip, lines[i].s->clip, "");
        number(max, lines[i].s->max, "");
        number(share, lines[i].s->outlier_columns, "%");
        printf("  %-18s %4u %5u %10s %10s %10s %10s %10s %10s\n", tool_package_tensor_name(name, lines[i].t),
               lines[i].t->bits, lines[i].s->bits, w, in, out, clip, max, share);
    }
    if (n)
        print_hint(&lines[0],
                   bt_pkg_consts(p)[lines[0].t->wscale].bytes == sizeof(float) && lines[0].t->n > 1);
    free(lines);
    return BT_OK;
}

bt_err tool_package_print_heads(const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_head *head = h->sparse_ppm ? bt_pkg_const_at(p, h->sparse_heads) : NULL;
    double share = 0, recall = 0, least = 1;
    if (!head) return bt_fail(fault, BT_EARG, "the package attends densely, so no head has a share");
    const uint32_t heads = h->layers * h->heads;
    for (uint32_t i = 0; i < heads; i++) {
        const double found = (double)head[i].recall;
        share += (double)head[i].ppm / BT_ATTENTION_ALL_PPM;
        recall += found;
        if (!(found >= least)) least = found;
    }
    print_attention(p);
    printf("heads           %u, mean share %.4f, recall %.4f, least %.4f\n\n  %5s %5s %9s %7s %11s %11s\n",
           heads, share / heads, recall / heads, least, "layer", "head", "share", "recall", "unit of q",
           "unit of K");
    for (uint32_t i = 0; i < heads; i++)
        printf("  %5u %5u %9.6f %7.4f %11.4g %11.4g\n", i / h->heads, i % h->heads,
               (double)head[i].ppm / BT_ATTENTION_ALL_PPM, (double)head[i].recall, (double)head[i].q_scale,
               (double)head[i].k_scale);
    return BT_OK;
}
