/* Arrays, differences and figures of a pass over kernels: see bench_pass.h. */
#include "tools/bench/bench_pass.h"

#include <stdlib.h>
#include <string.h>

void *tool_kernel_bytes(tool_kernel_run *r, size_t bytes)
{
    void *p = NULL;
    if (r->owned_count == sizeof r->owned / sizeof *r->owned || posix_memalign(&p, 64, bytes ? bytes : 64)) {
        (void)bt_fail(r->fault, BT_ENOMEM, "out of memory for %zu bytes for a kernel's arrays", bytes);
        return NULL;
    }
    return r->owned[r->owned_count++] = memset(p, 0, bytes);
}

void tool_kernel_release(tool_kernel_run *r)
{
    while (r->owned_count) free(r->owned[--r->owned_count]);
}

bt_err tool_kernel_differs(tool_kernel_run *r, const char *kernel, const char *shape)
{
    return bt_fail(r->fault, BT_EFORMAT,
                   "kernel %s of %s, %s: its bits are not those of ref; nothing was timed", kernel,
                   r->m->kernels->isa, shape);
}

void tool_kernel_report(tool_kernel_run *r, tool_figure *f, double peak, const char *limit, double ops,
                        double bytes, double touched, double seconds)
{
    const double compute = peak > 0 ? ops / peak : 0;
    const double memory = touched > TOOL_CACHE_BYTES && r->m->read_bytes > 0 ? bytes / r->m->read_bytes : 0;
    f->us = seconds * 1e6;
    f->gops = ops / seconds * 1e-9;
    f->gbytes = bytes / seconds * 1e-9;
    f->limit = memory > compute ? "read" : compute > 0 ? limit : "";
    f->ratio = (memory > compute ? memory : compute) / seconds;
    r->fn(r->ud, f);
}
