#ifndef BT_REF_PAGES_H
#define BT_REF_PAGES_H
#include "kernels/finite.h"
#include "kernels/kv_view.h"
#include "ref/ref.h"

/* KV rows between the reference's own memory and pages of f32 (elem_bytes 4), bit for bit: positions
 * [begin, begin + count) of every layer. Both hold them, and the shapes agree. store notes rows that are not finite
 * (NULL: they are not looked at). */
void bt_ref_pages_load(bt_ref_kv *to, const bt_kv_view *from, size_t begin, size_t count);
void bt_ref_pages_store(const bt_kv_view *to, bt_ref_kv *from, size_t begin, size_t count, bt_overflow *overflow);
#endif
