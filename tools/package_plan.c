/* The effects of the device's layout on a package, for people and as JSON. See package_view.h. */
#include "base/num.h"
#include "model/weight.h"
#include "npu/lower/plan.h"
#include "tools/package_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static json_t *count(uint64_t n) { return json_integer((json_int_t)n); }

static const char *size_text(char ret[32], uint64_t bytes)
{
    bt_num_size_text(ret, 32, bytes);
    return ret;
}

uint64_t tool_package_row_padding(const bt_pkg *p, uint32_t program)
{
    return bt_plan_row_padding(&bt_pkg_programs(p)[program], bt_pkg_code(p, program),
                               bt_pkg_plan(p, program));
}

uint64_t tool_package_tile_padding(const bt_pkg *p, uint32_t program)
{
    return bt_plan_tile_padding(&bt_pkg_header_of(p)->layout, &bt_pkg_programs(p)[program],
                                bt_pkg_code(p, program));
}

/* ---- contexts ---- */

/* Rows ascend by batch and seq, so that a context comes again with the next seq: whether row i is the first
 * with it. */
static bool is_first_of_ctx(const bt_pkg *p, uint32_t i)
{
    const bt_pkg_row *r = bt_pkg_rows(p);
    for (uint32_t k = 0; k < i; k++)
        if (r[k].ctx == r[i].ctx) return false;
    return true;
}

/* The longest context of the program that tool_package_largest names. */
static uint32_t longest_ctx(const bt_pkg *p)
{
    const uint32_t largest = tool_package_largest(p);
    const bt_pkg_program *g = &bt_pkg_programs(p)[largest];
    const bt_pkg_row *r = bt_pkg_rows(p);
    uint32_t ctx = 0;
    for (uint32_t i = 0; i < bt_pkg_header_of(p)->rows.count; i++)
        if (&bt_pkg_programs(p)[r[i].program[BT_PKG_OUT_LAST]] == g && r[i].ctx > ctx) ctx = r[i].ctx;
    return ctx;
}

static bool has_batch(const bt_pkg *p)
{
    return bt_pkg_rows(p)[bt_pkg_header_of(p)->rows.count - 1].batch > 1; /* rows ascend by it */
}

static const char *order_name(const bt_plan_line *l)
{
    if (!l->plan.weights.resident && !l->plan.weights.streamed) return "-"; /* there is nothing to choose */
    return l->plan.order == BT_ON_CHIP_INPUTS_STAY ? "inputs stay" : "weights stay";
}

static const char *tensor_name(const bt_plan_line *l)
{
    return l->weight == BT_PKG_NONE ? "" : bt_weight_name((bt_weight)l->weight);
}

/* ---- for people ---- */

void tool_package_print_layout(const bt_pkg *p)
{
    static const bt_pkg_layout none;
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const uint32_t largest = tool_package_largest(p);
    const bt_pkg_program *g = &bt_pkg_programs(p)[largest];
    const uint64_t tiles = tool_package_tile_padding(p, largest);
    bt_plan_state s;
    char a[32], b[32];
    if (memcmp(&h->layout, &none, sizeof none) == 0) return;
    printf("layout          %s between the rows of %u, tiles add %.1f %% to their MACs on the NPU\n",
           size_text(a, tool_package_row_padding(p, largest)), g->seq,
           g->npu_macs ? 100.0 * (double)tiles / (double)g->npu_macs : 0.0);
    if (bt_plan_state_of(&s, h, longest_ctx(p), NULL) == BT_OK)
        printf("KV state        %s at %u tokens, rounded %s%s\n", size_text(a, s.payload_bytes),
               longest_ctx(p), size_text(b, s.bytes), has_batch(p) ? ", for each sequence of a batch" : "");
}

static void print_states(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_row *r = bt_pkg_rows(p);
    char a[32], b[32];
    printf("\nKV state of a sequence, f16\n  %8s %26s %12s %26s %12s %8s\n", "ctx", "dimensions", "bytes",
           "rounded", "bytes", "cost");
    for (uint32_t i = 0; i < h->rows.count; i++) {
        bt_plan_state s;
        char dim[64], rounded[64];
        if (!is_first_of_ctx(p, i) || bt_plan_state_of(&s, h, r[i].ctx, NULL) < 0) continue;
        snprintf(dim, sizeof dim, "%" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64, s.dim[0], s.dim[1],
                 s.dim[2], s.dim[3]);
        snprintf(rounded, sizeof rounded, "%" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64, s.rounded[0],
                 s.rounded[1], s.rounded[2], s.rounded[3]);
        printf("  %8u %26s %12s %26s %12s %6.1f %%\n", r[i].ctx, dim, size_text(a, s.payload_bytes), rounded,
               size_text(b, s.bytes), 100.0 * ((double)s.bytes / (double)s.payload_bytes - 1));
    }
}

void tool_package_print_plan(const bt_pkg *p)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const uint32_t largest = tool_package_largest(p);
    bt_plan_line line[BT_PLAN_MAX_LINES];
    bt_on_chip_plan total;
    char a[32], b[32], c[32];
    printf("rows of that program: %s between them; tiles: %" PRIu64 " MACs beyond its own\n",
           size_text(a, tool_package_row_padding(p, largest)), tool_package_tile_padding(p, largest));
    if (h->layout.state_pow2 || h->layout.state_multiple) print_states(p);
    if (!h->layout.on_chip_bytes) return;
    const size_t lines = bt_plan_on_chip(line, &total, p, largest, longest_ctx(p));
    printf("\nthe chip's %s, in that program at %u tokens: bytes of one operator\n  %-14s %-12s %6s %-13s "
           "%7s %12s "
           "%12s %12s\n",
           size_text(a, h->layout.on_chip_bytes), longest_ctx(p), "operator", "tensor", "count", "loop order",
           "blocks", "resident", "streams", "spills");
    for (size_t i = 0; i < lines; i++)
        printf("  %-14s %-12s %6u %-13s %7" PRIu64 " %12s %12s %12s\n", bt_pkg_op_name((bt_pkg_op)line[i].op),
               tensor_name(&line[i]), line[i].count, order_name(&line[i]), line[i].plan.blocks,
               size_text(a, bt_on_chip_resident(&line[i].plan)),
               size_text(b, bt_on_chip_streamed(&line[i].plan)),
               size_text(c, bt_on_chip_spilled(&line[i].plan)));
    printf("  all operators of the NPU: %s resident, %s stream, %s spill\n",
           size_text(a, bt_on_chip_resident(&total)), size_text(b, bt_on_chip_streamed(&total)),
           size_text(c, bt_on_chip_spilled(&total)));
}

/* ---- JSON ---- */

static json_t *states(const bt_pkg *p)
{
    json_t *a = json_array();
    for (uint32_t i = 0; a && i < bt_pkg_header_of(p)->rows.count; i++) {
        bt_plan_state s;
        const uint32_t ctx = bt_pkg_rows(p)[i].ctx;
        if (!is_first_of_ctx(p, i) || bt_plan_state_of(&s, bt_pkg_header_of(p), ctx, NULL) < 0) continue;
        if (json_array_append_new(a, json_pack("{s:o,s:[oooo],s:o,s:o}", "ctx", count(ctx), "dims",
                                               count(s.rounded[0]), count(s.rounded[1]), count(s.rounded[2]),
                                               count(s.rounded[3]), "payload_bytes", count(s.payload_bytes),
                                               "bytes", count(s.bytes))) < 0) {
            json_decref(a);
            return NULL;
        }
    }
    return a;
}

static json_t *share(const bt_on_chip_share *s)
{
    return json_pack("{s:o,s:o,s:o}", "resident", count(s->resident), "streamed", count(s->streamed),
                     "spilled", count(s->spilled));
}

static json_t *operators(const bt_plan_line *line, size_t lines)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < lines; i++) {
        const bt_on_chip_plan *q = &line[i].plan;
        if (json_array_append_new(
                a, json_pack("{s:s,s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:o}", "op",
                             bt_pkg_op_name((bt_pkg_op)line[i].op), "tensor",
                             line[i].weight == BT_PKG_NONE ? json_null() : json_string(tensor_name(&line[i])),
                             "count", count(line[i].count), "order",
                             q->order == BT_ON_CHIP_INPUTS_STAY ? "inputs_stay" : "weights_stay", "blocks",
                             count(q->blocks), "weights", share(&q->weights), "input", share(&q->input),
                             "output", share(&q->output), "overflow", count(q->overflow))) < 0) {
            json_decref(a);
            return NULL;
        }
    }
    return a;
}

json_t *tool_package_plan_json(const bt_pkg *p)
{
    const bt_pkg_layout *l = &bt_pkg_header_of(p)->layout;
    bt_plan_line line[BT_PLAN_MAX_LINES];
    bt_on_chip_plan total;
    const size_t lines = bt_plan_on_chip(line, &total, p, tool_package_largest(p), longest_ctx(p));
    json_t *layout =
        json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b,s:o}", "last_axis_align_bytes",
                  count(l->last_axis_align_bytes), "query_slice_rows", count(l->query_slice_rows),
                  "attention_heads_max", count(l->attention_heads_max), "output_parts",
                  count(l->output_parts), "tile_rows", count(l->tile_rows), "tile_cols", count(l->tile_cols),
                  "tile_input_rows", count(l->tile_input_rows), "state_pow2", (int)l->state_pow2,
                  "state_multiple", count(l->state_multiple));
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "layout", layout, "on_chip_bytes",
                     count(l->on_chip_bytes), "resident_bytes", count(bt_on_chip_resident(&total)),
                     "streamed_bytes", count(bt_on_chip_streamed(&total)), "spill_bytes",
                     count(bt_on_chip_spilled(&total)), "kv_state", states(p), "on_chip",
                     operators(line, lines));
}
