#ifndef BT_NPU_LOWER_FORM_H
#define BT_NPU_LOWER_FORM_H
#include "npu/lower/lower_build.h"

/* Tensors in the form that their reader wants. An operator on the companion reads and writes f32; an operator on the
 * NPU in integers reads and writes the integers of its row in graph/op_list.h. Where the two meet, one conversion on
 * the companion makes the reader's form of the writer's. The converted value serves all readers until the tensor is
 * written again:
 *
 *   f32 -> residual   QUANTISE32        residual -> f32   DEQUANTISE32
 *   f32 -> s16        QUANTISE16        s16 -> f32        DEQUANTISE16 site   -> f32     DEQUANTISE32, site
 *
 * An operator on the NPU in floats reads and writes f32 that were rounded to 16-bit floats; ROUND16 rounds the
 * companion's f32. The companion reads them as they are. The same conversions, on the NPU, stand between them and
 * integers.
 *
 * An s16 has the unit of the linear that wrote the tensor; attention's output has the o site's unit. No conversion
 * makes units of a site from floats: only linears read those, and linears quantise floats themselves. */

/* The tensor's value in this form for graph operator `at`, converted where there is none; BT_PKG_NOWHERE for a tensor
 * outside the arena. The tensor was written before. */
uint64_t bt_lower_form_read(bt_lower_build *b, size_t at, uint32_t tensor, bt_pkg_form form);
/* A new value of the tensor, which replaces all its values. */
uint64_t bt_lower_form_write(bt_lower_build *b, uint32_t tensor, bt_pkg_form form);
/* The tensor's value in this form, to be read and written in place; it replaces the tensor's other values. */
uint64_t bt_lower_form_in_place(bt_lower_build *b, size_t at, uint32_t tensor, bt_pkg_form form);
/* The site of the linear that reads the tensor, from graph operator `at` on: the unit of the tensor's s32. */
uint32_t bt_lower_form_site(const bt_lower_build *b, size_t at, uint32_t tensor);
/* The form in which the tensor was last written. */
bt_pkg_form bt_lower_form_of(const bt_lower_build *b, uint32_t tensor);
#endif
