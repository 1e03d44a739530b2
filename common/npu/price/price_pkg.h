#ifndef BT_NPU_PRICE_PKG_H
#define BT_NPU_PRICE_PKG_H
#include "device/link.h"
#include "device/price.h"
#include "device/work.h"
#include "npu/pkg/pkg.h"

/* What a package's programs take on a device: its instructions as plain numbers for device/price.h, one program for
 * each seq, in program order on one engine at a time. The parts of a price are: what the companion runs, by its
 * operator (bt_op_kind); conversions at the edges; waiting for each other; sessions; the NPU itself, with a dispatch
 * for each of its graphs. */
enum {
    BT_PRICE_PKG_EDGES = BT_OP_KINDS,
    BT_PRICE_PKG_SYNC,
    BT_PRICE_PKG_SESSIONS,
    BT_PRICE_PKG_NPU,
    BT_PRICE_PKG_PARTS
};
_Static_assert((int)BT_PRICE_PKG_PARTS <= (int)BT_PRICE_PARTS, "each has a part");

/* The sparse attention of a layer, each head with its share; layer UINT32_MAX: of all layers together, the mean of the
 * heads that keep most, of the next ones, and so on. heads 0: the package attends densely. */
bt_sparse bt_price_pkg_sparse(const bt_pkg *p, uint32_t layer, uint32_t kv_elem_bits);
/* p: opened, not only looked at. profile: with a time; its companion is the one that time names. kv_elem_bits: of the
 * deployment's KV. BT_EARG, BT_ELIMIT as bt_price_add; BT_EARG where the companion has no time. */
bt_err bt_price_pkg(bt_price *ret, const bt_pkg *p, const bt_profile *profile, uint32_t kv_elem_bits, bt_fault *fault);
/* bt_work_cut of a package's prompts; ud: its bt_shapes (npu/pkg/pkg_shapes.h). */
bt_work_chunk bt_price_pkg_cut(const void *shapes, uint64_t begin, uint64_t end);
typedef struct bt_price_pkg_run {
    bt_price_sum prefill;
    uint64_t transfer_ns, exposed_ns; /* of its KV: on the wire in all, and after prefill's end */
} bt_price_pkg_run;
/* A prompt's `tokens` behind `first` that are kept, cut as the package's rows cut it, and its output matrix; its KV
 * leaves over the link, kv_bytes a position, layer by layer. BT_EARG: a package without a program for one sequence. */
bt_err bt_price_pkg_prompt(bt_price_pkg_run *ret, const bt_price *price, const bt_pkg *p, const bt_link *link,
                           uint64_t kv_bytes, uint64_t first, uint64_t tokens, bt_fault *fault);
#endif
