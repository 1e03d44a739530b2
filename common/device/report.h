#ifndef BT_DEVICE_REPORT_H
#define BT_DEVICE_REPORT_H
#include <stddef.h>
#include <stdint.h>

/* An engine's description of itself and of its work: plain values, to print or to pass on. */

/* An operator that the NPU leaves to its companion. */
typedef struct bt_report_fallback {
    const char *op, *why;
    uint32_t count; /* layers */
} bt_report_fallback;

/* Texts and lists belong to the engine and live as long. */
typedef struct bt_report_engine {
    const char *name;         /* the engine's (engine/names.h) */
    const char *quant;        /* recipe, or the form of float weights: "w8a8", "f16", "f32" */
    const char *shape_policy; /* npu/pkg/shapes.h; "whole" where a prompt is never cut */
    const char *profile;      /* of the package; "" without one */
    const char *weights;      /* as in the exactness class: "package=DIGEST", "f16", "f32" */
    const bt_report_fallback *fallback;
    size_t fallbacks;
} bt_report_engine;

/* Counted exactly, over all calls of an engine. */
typedef struct bt_report_work {
    uint64_t rows;                     /* computed, padding too */
    uint64_t batch_padding_rows;       /* among them: of unused places of a batch */
    uint64_t npu_macs, companion_macs; /* multiply-accumulates of real rows; 0 without a package */
    uint64_t tile_padding_macs;        /* further multiply-accumulates of the matrix unit in whole tiles of real rows */
    uint64_t shadow_entries;           /* values beyond a clip that were added back */
    uint64_t compilations;             /* of programs; constant once an engine is made */
    uint64_t sparse_rows;              /* of prompts, with sparse attention: rows that choose their positions, */
    uint64_t dense_rows;               /* and rows too near the beginning, which attend densely */
    uint64_t masked_macs;              /* of columns that static contexts have beyond what rows see; not computed */
    uint64_t session_switches;         /* sessions that a device would have mapped in place of another */
    uint64_t session_switch_ns;        /* what these switches would have cost there */
    uint64_t expert_rows;              /* of all layers' experts */
    uint64_t expert_padding_rows;      /* what the programs of experts have more than these; not computed */
    uint64_t npu_int16_macs, npu_float_macs; /* of npu_macs: with 16-bit inputs, in floats; the others with 8 bits */
} bt_report_work;
/* Adds to *sum the work between two looks at an engine. */
static inline void bt_report_work_add(bt_report_work *sum, const bt_report_work *before, const bt_report_work *after)
{
    sum->rows += after->rows - before->rows;
    sum->batch_padding_rows += after->batch_padding_rows - before->batch_padding_rows;
    sum->npu_macs += after->npu_macs - before->npu_macs;
    sum->companion_macs += after->companion_macs - before->companion_macs;
    sum->npu_int16_macs += after->npu_int16_macs - before->npu_int16_macs;
    sum->npu_float_macs += after->npu_float_macs - before->npu_float_macs;
    sum->tile_padding_macs += after->tile_padding_macs - before->tile_padding_macs;
    sum->shadow_entries += after->shadow_entries - before->shadow_entries;
    sum->compilations += after->compilations - before->compilations;
    sum->expert_rows += after->expert_rows - before->expert_rows;
    sum->expert_padding_rows += after->expert_padding_rows - before->expert_padding_rows;
    sum->masked_macs += after->masked_macs - before->masked_macs;
    sum->sparse_rows += after->sparse_rows - before->sparse_rows;
    sum->dense_rows += after->dense_rows - before->dense_rows;
    sum->session_switches += after->session_switches - before->session_switches;
    sum->session_switch_ns += after->session_switch_ns - before->session_switch_ns;
}
/* The share of padding in the rows of experts' programs; below 0: no experts ran. */
static inline double bt_report_expert_padding(uint64_t rows, uint64_t padding_rows)
{
    return rows ? (double)padding_rows / ((double)rows + (double)padding_rows) : -1;
}
/* The part of v for tokens [begin, end) of a batch of `all` tokens: all parts add up to v. */
static inline uint64_t bt_report_part(uint64_t v, uint64_t begin, uint64_t end, uint64_t all)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): it was done for tokens */
    return v / all * end + v % all * end / all - (v / all * begin + v % all * begin / all);
}
static inline bt_report_work bt_report_work_part(const bt_report_work *w, uint64_t begin, uint64_t end, uint64_t all)
{
    return (bt_report_work){
        .rows = bt_report_part(w->rows, begin, end, all),
        .batch_padding_rows = bt_report_part(w->batch_padding_rows, begin, end, all),
        .npu_macs = bt_report_part(w->npu_macs, begin, end, all),
        .companion_macs = bt_report_part(w->companion_macs, begin, end, all),
        .tile_padding_macs = bt_report_part(w->tile_padding_macs, begin, end, all),
        .shadow_entries = bt_report_part(w->shadow_entries, begin, end, all),
        .compilations = bt_report_part(w->compilations, begin, end, all),
        .sparse_rows = bt_report_part(w->sparse_rows, begin, end, all),
        .dense_rows = bt_report_part(w->dense_rows, begin, end, all),
        .expert_rows = bt_report_part(w->expert_rows, begin, end, all),
        .expert_padding_rows = bt_report_part(w->expert_padding_rows, begin, end, all),
        .masked_macs = bt_report_part(w->masked_macs, begin, end, all),
        .session_switches = bt_report_part(w->session_switches, begin, end, all),
        .session_switch_ns = bt_report_part(w->session_switch_ns, begin, end, all),
        .npu_int16_macs = bt_report_part(w->npu_int16_macs, begin, end, all),
        .npu_float_macs = bt_report_part(w->npu_float_macs, begin, end, all),
    };
}
#endif
