#ifndef BT_ENGINE_OVERLAP_H
#define BT_ENGINE_OVERLAP_H
#include "engine/chunks.h"
#include "npu/run/exec.h"

/* Chunks of one prompt at the same time: the stages of the NPU on one group of threads, those of its companion on
 * another, in the order that device/schedule.h gives: the schedule that `baton timeline` plays with modelled times is
 * driven here by stages as they end. Each chunk under way has an arena of its own; up to BT_OVERLAP_WINDOW are.
 *
 * Numbers: a stage begins when all that it reads is written, whatever the order, so KV and logits have the bits of
 * program order. What an out-of-order choice weighs, the time of a stage of the NPU, is the multiply-accumulates of its
 * linears and of attention: no clock is looked at.
 *
 * Of t threads the companion has t / 2 and the NPU the rest. The caller's thread is one of the NPU's. With one thread
 * in all the caller does both, in the same order of stages. */
enum { BT_OVERLAP_WINDOW = 4 };
typedef struct bt_overlap bt_overlap;
typedef struct bt_overlap_config {
    const bt_pkg *pkg;         /* borrowed, as all of it */
    const bt_shapes *shapes;   /* of one sequence */
    const bt_kernels *kernels; /* borrowed */
    bt_schedule_policy policy; /* FIFO or OOO */
    size_t threads;            /* 1 or more */
    size_t vocab;
} bt_overlap_config;

/* BT_EARG: what cannot run in steps (npu/run/exec_steps.h), or a package whose programs differ in their stages;
 * BT_ENOMEM, BT_ELIMIT: threads. */
bt_err bt_overlap_new(bt_overlap **ret, const bt_overlap_config *config, bt_fault *fault);
void bt_overlap_free(bt_overlap *o); /* NULL is fine; ends its threads */
/* As bt_prefill_run, whose checks come before; the hooks' contract too. It allocates nothing. */
bt_err bt_overlap_run(bt_overlap *o, const bt_kv_view *kv, const int32_t *ids, size_t n, size_t pos0,
                      const bt_prefill_hooks *hooks, float *logits, bt_prefill_out out, bt_fault *fault);
/* Adds what its executors did. */
void bt_overlap_add(const bt_overlap *o, bt_exec_stats *stats, uint64_t *rows);
#endif
