#ifndef BT_TOOLS_BENCH_KERNELS_H
#define BT_TOOLS_BENCH_KERNELS_H
#include "base/err.h"
#include "model/model.h"
#include "tools/bench/bench_pass.h"

/* The kernels alone, on the shapes of a model: first that their bits are those of `ref`, then their time beside the
 * machine's limits. */

/* Every kernel of `k` against its twin in the table's row "ref", on the widths of a model and rows and outputs around a
 * block's edge: about a second. BT_EFORMAT names the first that differs; BT_ENOMEM. */
bt_err tool_kernels_check(const bt_kernels *k, const bt_hparams *hp, bt_fault *fault);

/* Times the same kernels with whole matrices; figures go to fn as they come. Weights that fit into TOOL_CACHE_BYTES / 2
 * may stay in a cache between calls and are held against operations alone; of larger ones four copies take turns, and
 * reading them counts too. */
bt_err tool_kernels_time(const tool_machine *m, const bt_hparams *hp, tool_figure_fn *fn, void *ud, bt_fault *fault);
#endif
