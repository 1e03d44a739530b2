#ifndef BT_ENGINE_OVERLAP_H
#define BT_ENGINE_OVERLAP_H
#include "engine/chunks.h"
#include "npu/run/exec.h"

/* Chunks of one prompt at the same time: the stages of the NPU on one group of threads, those of its companion on
 * another, in the order of device/schedule.h: `baton timeline` drives that schedule with modelled times, this engine by
 * the ends of stages. Each of up to BT_OVERLAP_WINDOW chunks under way has an arena of its own.
 *
 * Numbers: a stage begins when everything that it reads is written, so KV and logits have the bits of program order. An
 * out-of-order choice weighs a stage of the NPU by the multiply-accumulates of its linears and attention, not by a
 * clock.
 *
 * The companion has t / 2 of t threads, the NPU the rest. The caller's thread is one of the NPU's. With one thread in
 * all the caller does both, in the same order of stages. */
enum { BT_OVERLAP_WINDOW = 4 };
typedef struct bt_overlap bt_overlap;
typedef struct bt_overlap_config {
    const bt_pkg *pkg;         /* borrowed, like the others */
    const bt_shapes *shapes;   /* of one sequence */
    const bt_kernels *kernels; /* borrowed */
    bt_schedule_policy policy; /* FIFO or OOO */
    size_t threads;            /* 1 or more */
    size_t vocab;
} bt_overlap_config;

/* BT_EARG: a package that cannot run in steps (npu/run/exec_steps.h), or whose programs differ in their stages;
 * BT_ENOMEM, BT_ELIMIT: threads. */
bt_err bt_overlap_new(bt_overlap **ret, const bt_overlap_config *config, bt_fault *fault);
void bt_overlap_free(bt_overlap *o); /* NULL is fine; ends its threads */
/* bt_prefill_run, without its checks, which came before; the same contract of the hooks. Allocates nothing. */
bt_err bt_overlap_run(bt_overlap *o, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                      const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault);
/* Adds the work of its executors. */
void bt_overlap_add(const bt_overlap *o, bt_exec_stats *stats, uint64_t *rows);
#endif
