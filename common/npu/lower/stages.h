#ifndef BT_NPU_STAGES_H
#define BT_NPU_STAGES_H
#include <stdbool.h>
#include "device/schedule.h"
#include "npu/pkg/pkg.h"

/* A program as the stages of a schedule (device/schedule.h): runs of instructions of one engine, NPU or companion, as
 * long as they can be. Attention begins one of its own, because it waits for the keys and values of all earlier chunks.
 * A switch of sessions belongs to the NPU. Placement is decided once for a package, so the programs of one package
 * with the same `out` have the same stages, whatever their shape; only what a layout cuts (slices) differs within. */
typedef struct bt_stage {
    uint32_t first, insts; /* of the program's code */
    uint32_t layer;        /* of its first instruction in a layer; UINT32_MAX: outside layers */
    uint32_t stores;       /* the layer whose keys and values are final when it ends; UINT32_MAX: none */
    uint32_t cluster;      /* NPU: of its first instruction that has one; 0: none */
    bool is_npu;
    bool is_dispatch; /* the NPU's: a graph begins, and it is dispatched. What follows it on the NPU is of that graph,
                       * and a switch of sessions is of none */
} bt_stage;

/* Returns how many. ret[i] and as_stage[i], the same for the schedule, may be NULL; room for `room` of them, of which
 * no more are written. program: its index in the package. */
size_t bt_stages_of(bt_stage *ret, bt_schedule_stage *as_stage, size_t room, const bt_pkg *p, uint32_t program);
#endif
