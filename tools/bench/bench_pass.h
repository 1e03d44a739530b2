#ifndef BT_TOOLS_BENCH_PASS_H
#define BT_TOOLS_BENCH_PASS_H
#include "base/err.h"
#include "model/model.h"
#include "tools/bench/bench_limits.h"

/* One pass over kernels on the shapes of a model: its settings, the arrays that it borrows, and what it reports. Files
 * stand on each other in this order: bench_limits, bench_pass, bench_int and bench_rows, bench_kernels. */
typedef struct tool_figure {
    const char *kernel; /* its name in the dispatch table */
    const char *limit;  /* the nearer one: "int8", "fp32", "read"; "" where the machine's limits hold nothing */
    char shape[40];
    size_t rows;
    double us, gops, gbytes, ratio; /* of a call; 10^9 operations and bytes a second; time at the limit / time taken */
} tool_figure;

typedef void tool_figure_fn(void *ud, const tool_figure *f);

typedef struct tool_kernel_run {
    const tool_machine *m; /* only pool, threads and kernels where nothing is timed */
    const bt_hparams *hp;
    tool_figure_fn *fn; /* NULL: only check */
    void *ud;
    bt_fault *fault;
    void *owned[16];
    size_t owned_count;
} tool_kernel_run;

enum { TOOL_CACHE_BYTES = 32 << 20 };
/* zeroed, 64-byte aligned, until the next release; NULL with words */
void *tool_kernel_bytes(tool_kernel_run *r, size_t bytes);
void tool_kernel_release(tool_kernel_run *r);
bt_err tool_kernel_differs(tool_kernel_run *r, const char *kernel, const char *shape);
/* f->kernel, shape and rows are set. ops are held against `peak`, named `limit`; touched: bytes until a call meets
 * the same ones again. */
void tool_kernel_report(tool_kernel_run *r, tool_figure *f, double peak, const char *limit, double ops, double bytes,
                        double touched, double seconds);
#endif
