/* A package's table of rows as a list of shapes. */
#include "npu/pkg/pkg_shapes.h"

#include <stdlib.h>

bt_err bt_pkg_shapes(bt_shapes *ret, const bt_pkg *p, bt_fault *fault)
{
    const bt_pkg_header *h = bt_pkg_header_of(p);
    const bt_pkg_row *row = bt_pkg_rows(p);
    bt_shape *shape = calloc(h->rows.count + 1u, sizeof *shape);
    if (!shape) return bt_fail(fault, BT_ENOMEM, "out of memory reading a package's shapes");
    for (uint32_t i = 0; i < h->rows.count; i++)
        shape[i] = (bt_shape){row[i].seq_min, row[i].seq, row[i].ctx, row[i].batch};
    const bt_err e = bt_shapes_of_rows(ret, h->shape_policy, shape, h->rows.count, fault);
    free(shape);
    return e;
}
