#ifndef BT_NPU_PKG_SHAPES_H
#define BT_NPU_PKG_SHAPES_H
#include "npu/pkg/pkg.h"
#include "npu/pkg/shapes.h"

/* The shapes that prompts are cut into: the package's rows as a list of shapes (npu/pkg/shapes.h). BT_EARG,
 * BT_ENOMEM. */
bt_err bt_pkg_shapes(bt_shapes *ret, const bt_pkg *p, bt_fault *fault);
#endif
