#ifndef BT_NPU_PRICE_PKG_H
#define BT_NPU_PRICE_PKG_H
#include "device/work.h"
#include "npu/pkg/shapes.h"
#include "npu/price/stage_cost.h"

/* The prices of the programs of a package, or of its sketch, on a device: the times of a chunk's stages, and their sum.
 * Every instruction has the one price of npu/price/stage_cost.h. Instructions that do not depend on the position are
 * priced once for each program and number of rows. One thread at a time calls these functions.
 *
 * A sum has these parts: the companion's work, by operator (bt_op_kind); conversions at the edges; waiting of the
 * engines for each other; sessions; the NPU's work, with the dispatch of its graphs. First use is in no part. */
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
    const bt_pkg *pkg;           /* borrowed; opened as a whole (bt_pkg_open), or a sketch */
    const bt_profile *npu;       /* with a time; copied */
    const bt_profile *companion; /* with a time; copied. NULL: the companion that npu's time names, else the NPU's own
                                    device */
    uint32_t kv_elem_bits;       /* bits of an element of the deployment's KV; 0: 16 */
} bt_price_pkg_config;
/* BT_EARG: a profile without a time, or a package without programs for one sequence or whose programs differ in their
 * stages; BT_ENOMEM. */
bt_err bt_price_pkg_new(bt_price_pkg **ret, const bt_price_pkg_config *config, bt_fault *fault);
void bt_price_pkg_free(bt_price_pkg *p); /* NULL is fine */

const bt_pkg *bt_price_pkg_of(const bt_price_pkg *p);
const bt_stage_engines *bt_price_pkg_engines(const bt_price_pkg *p);
const bt_shapes *bt_price_pkg_shapes(const bt_price_pkg *p); /* prompts are cut into these */
uint64_t bt_price_pkg_first_ns(bt_price_pkg *p);             /* ns of the first use of all weights */
uint64_t bt_price_pkg_compile_ns(const bt_price_pkg *p);     /* ns to compile all programs once */

/* The stages of a chunk that makes logits. Every other chunk has the first of them. */
typedef struct bt_price_pkg_stages {
    const bt_stage *stage;
    const bt_schedule_stage *as_stage;
    size_t count;
} bt_price_pkg_stages;
bt_price_pkg_stages bt_price_pkg_stages_of(const bt_price_pkg *p);

/* A chunk of a prompt: positions [pos, pos + valid). */
typedef struct bt_price_pkg_chunk {
    uint64_t pos, valid, rows; /* rows: computed, padding included */
    uint32_t program, ctx;     /* ctx: of the program's row, in positions */
    bool is_first, is_last;
} bt_price_pkg_chunk;
/* The chunk that begins at `pos`, cut as the engine cuts it, of a prompt that is computed from `first` to `end`.
 * BT_ELIMIT: the package has no program for these positions. */
bt_err bt_price_pkg_cut(bt_price_pkg_chunk *ret, const bt_price_pkg *p, uint64_t first, uint64_t pos, uint64_t end,
                        bt_fault *fault);
/* The times of a chunk's stages: ns[count of bt_price_pkg_stages_of], 0 for stages that the chunk lacks. has_overlap:
 * other chunks may run beside it (fifo, ooo). Then the work that sparse attention gives an engine inside the other
 * engine's stage, the estimates, is also charged to that engine's next stage, because no other chunk gets that time.
 * BT_ENOMEM. */
bt_err bt_price_pkg_stage_ns(uint64_t *ns, bt_price_pkg *p, const bt_price_pkg_chunk *c, bool has_overlap,
                             bt_fault *fault);
/* The sum over a chunk's stages, in program order. Zeros: memory is out. */
bt_price_sum bt_price_pkg_sum(bt_price_pkg *p, const bt_price_pkg_chunk *c);
/* The programs as device/work.h takes them; p is borrowed. */
bt_work_programs bt_price_pkg_programs(bt_price_pkg *p);
#endif
