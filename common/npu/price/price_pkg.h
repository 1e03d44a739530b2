#ifndef BT_NPU_PRICE_PKG_H
#define BT_NPU_PRICE_PKG_H
#include "device/work.h"
#include "npu/pkg/shapes.h"
#include "npu/price/stage_cost.h"

/* What the programs of a package, or of its sketch, take on a device: the stages of chunks, and their sums, from the
 * one price of an instruction (npu/price/stage_cost.h). What does not depend on the position is priced once for each
 * program and number of rows. One thread asks at a time.
 *
 * The parts of a sum are: what the companion runs, by its operator (bt_op_kind); conversions at the edges; waiting for
 * each other; sessions; the NPU itself, with a dispatch for each of its graphs. First use is in no part. */
enum {
    BT_PRICE_PKG_EDGES = BT_OP_KINDS,
    BT_PRICE_PKG_SYNC,
    BT_PRICE_PKG_SESSIONS,
    BT_PRICE_PKG_NPU,
    BT_PRICE_PKG_PARTS
};
_Static_assert((int)BT_PRICE_PKG_PARTS <= (int)BT_PRICE_PARTS, "each has a part");

typedef struct bt_price_pkg bt_price_pkg;
typedef struct bt_price_pkg_config {
    const bt_pkg *pkg;           /* borrowed; opened, not only looked at; a sketch is fine */
    const bt_profile *npu;       /* with a time; copied, as the other */
    const bt_profile *companion; /* with a time; NULL: the one that npu's time names, else the NPU's own device */
    uint32_t kv_elem_bits;       /* of the deployment's KV; 0: 16 */
} bt_price_pkg_config;
/* BT_EARG: a profile without a time; a package without programs for one sequence, or whose programs differ in their
 * stages; BT_ENOMEM. */
bt_err bt_price_pkg_new(bt_price_pkg **ret, const bt_price_pkg_config *config, bt_fault *fault);
void bt_price_pkg_free(bt_price_pkg *p); /* NULL is fine */

const bt_pkg *bt_price_pkg_of(const bt_price_pkg *p);
const bt_stage_engines *bt_price_pkg_engines(const bt_price_pkg *p);
const bt_shapes *bt_price_pkg_shapes(const bt_price_pkg *p); /* that prompts are cut by */
uint64_t bt_price_pkg_first_ns(bt_price_pkg *p);             /* of a prompt: the first use of all its weights */
uint64_t bt_price_pkg_compile_ns(const bt_price_pkg *p);     /* of all programs, once */

/* The stages of a chunk that makes logits. Those of the others are a beginning of them. */
typedef struct bt_price_pkg_stages {
    const bt_stage *stage;
    const bt_schedule_stage *as_stage;
    size_t count;
} bt_price_pkg_stages;
bt_price_pkg_stages bt_price_pkg_stages_of(const bt_price_pkg *p);

/* A chunk of a prompt. */
typedef struct bt_price_pkg_chunk {
    uint64_t pos, valid, rows; /* rows: computed, padding too */
    uint32_t program, ctx;     /* ctx: of the program's row */
    bool is_first, is_last;
} bt_price_pkg_chunk;
/* The one that begins at `pos` of a prompt that is computed from `first` to `end`, as the engine cuts it. BT_ELIMIT:
 * positions that the package has no program for. */
bt_err bt_price_pkg_cut(bt_price_pkg_chunk *ret, const bt_price_pkg *p, uint64_t first, uint64_t pos, uint64_t end,
                        bt_fault *fault);
/* What its stages take, ns[stages of bt_price_pkg_stages_of], those that it lacks 0. has_overlap: other chunks may run
 * beside it (fifo, ooo): what an engine does in a stage of the other one, the estimates of sparse attention, is then
 * charged to its own next stage too, because no other chunk gets that time. BT_ENOMEM. */
bt_err bt_price_pkg_stage_ns(uint64_t *ns, bt_price_pkg *p, const bt_price_pkg_chunk *c, bool has_overlap,
                             bt_fault *fault);
/* All of it, in program order. Zeros: memory is out. */
bt_price_sum bt_price_pkg_sum(bt_price_pkg *p, const bt_price_pkg_chunk *c);
/* For device/work.h; borrowed. */
bt_work_programs bt_price_pkg_programs(bt_price_pkg *p);
#endif
