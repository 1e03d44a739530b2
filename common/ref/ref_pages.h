#ifndef BT_REF_PAGES_H
#define BT_REF_PAGES_H
#include "kernels/finite.h"
#include "kernels/kv_view.h"
#include "ref/ref.h"

/* Copy the KV rows of positions [begin, begin + count) of every layer between the reference's own memory and pages of
 * f32 (elem_bytes 4), bit for bit. Both sides have room for these positions and the same shape. store notes rows that
 * are not finite (NULL: no check). */
void bt_ref_pages_load(bt_ref_kv *to, const bt_kv_view *from, size_t begin, size_t count);
void bt_ref_pages_store(const bt_kv_view *to, bt_ref_kv *from, size_t begin, size_t count, bt_overflow *overflow);
#endif
