#ifndef BT_NPU_LOWER_FORM_H
#define BT_NPU_LOWER_FORM_H
#include "npu/lower/lower_build.h"

/* Tensors in the form that their reader wants. An operator on the companion reads and writes f32, one on the NPU the
 * integers of its kind. Where the two meet, the reader's form is made from the writer's by one conversion on the
 * companion, and kept for all readers until the tensor is written again:
 *
 *   f32 -> residual   QUANTISE32        residual -> f32   DEQUANTISE32
 *   f32 -> s16        QUANTISE16        s16 -> f32        DEQUANTISE16
 *                                       site   -> f32     DEQUANTISE32, site
 *
 * An operator on the NPU in floats reads and writes f32 that were rounded to 16-bit floats (ROUND16 makes them of f32).
 * The companion reads them as they are. Between them and integers stand the same conversions, on the NPU.
 *
 * s16 has the unit of the linear that wrote the tensor; attention's output has its own, which the o site knows. Nothing
 * is made in units of a site from floats: only linears read those, and they quantise floats themselves. */

/* The tensor's value in this form for graph operator `at`, converted where it does not lie in it; BT_PKG_NOWHERE for
 * what is not in the arena. The tensor was written before. */
uint64_t bt_lower_form_read(bt_lower_build *b, size_t at, uint32_t tensor, bt_pkg_form form);
/* A new value, from then on the tensor's only one. */
uint64_t bt_lower_form_write(bt_lower_build *b, uint32_t tensor, bt_pkg_form form);
/* The tensor's value, read and written in place: from then on the tensor's only one. */
uint64_t bt_lower_form_in_place(bt_lower_build *b, size_t at, uint32_t tensor, bt_pkg_form form);
/* The site of the linear that reads the tensor, from graph operator `at` on: whose unit its s32 have. */
uint32_t bt_lower_form_site(const bt_lower_build *b, size_t at, uint32_t tensor);
/* The form of the operator that wrote the tensor last. */
bt_pkg_form bt_lower_form_of(const bt_lower_build *b, uint32_t tensor);
#endif
