#ifndef BT_NPU_STAGES_H
#define BT_NPU_STAGES_H
#include <stdbool.h>
#include "device/schedule.h"
#include "npu/pkg/pkg.h"

/* A program as the stages of a schedule (device/schedule.h). A stage is a run of instructions of one engine, NPU or
 * companion, as long as possible. Attention begins a stage of its own, because it waits for the keys and values of all
 * earlier chunks. A switch of sessions belongs to the NPU. Placement is decided once for a package, so all programs of
 * a package with the same `out` have the same stages, whatever their shape. Only the instructions inside may differ,
 * where a layout cuts slices. */
typedef struct bt_stage {
    uint32_t first, insts; /* of the program's code */
    uint32_t layer;        /* of the first instruction that is in a layer; UINT32_MAX: none */
    uint32_t stores;       /* the layer whose keys and values are final at the stage's end; UINT32_MAX: none */
    uint32_t cluster;      /* NPU: of the first instruction that has one; 0: none */
    bool is_npu;
    bool is_dispatch; /* NPU: a graph begins and is dispatched. The NPU's stages behind it belong to that graph; a
                         switch of sessions belongs to none */
} bt_stage;

/* Returns the number of stages. ret and as_stage (the same for the schedule) may be NULL; at most `room` elements are
 * written. program: the index in the package. */
size_t bt_stages_of(bt_stage *ret, bt_schedule_stage *as_stage, size_t room, const bt_pkg *p, uint32_t program);
#endif
