#ifndef BT_NPU_SKETCH_H
#define BT_NPU_SKETCH_H
#include "npu/compile/compile.h"

/* A package without weights, from the sizes in a model's header: nothing of a tensor is read, and no calibration. Its
 * tables and its code are those of the package that bt_compile makes of the same options, byte for byte, but for
 *
 *   what the calibration measures   scales, units, errors, shares of sparse heads, which sites are pruned, and which
 *                                   operators have values too large for the NPU's floats
 *   constants that hold values      their hashes; and constants that happen to be equal, which a package has once
 *   the header                      model_id (of a header alone), calib_tokens, residual_scale, digest
 *
 * It can be read and priced (npu/price), not run. m may be a header alone (bt_model_open_head) or sizes
 * (bt_model_of_sizes). Errors of bt_compile; the calibration is not looked at. */
bt_err bt_compile_sketch(bt_pkg **ret, const bt_model *m, const bt_compile_options *options, bt_fault *fault);
#endif
