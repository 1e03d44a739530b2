/* Rows of the reference between its own arrays and pages: copied, never converted. */
#include "ref/ref_pages.h"

#include <string.h>

static void copy(bt_ref_kv *kv, const bt_kv_view *pages, size_t begin, size_t count, bool to_pages)
{
    const size_t head = (size_t)pages->head_dim * sizeof(float);
    for (size_t l = 0; l < pages->layers; l++)
        for (int is_v = 0; is_v < 2; is_v++)
            for (size_t t = begin; t < begin + count; t++)
                for (size_t g = 0; g < pages->kv_heads; g++) {
                    void *paged = bt_kv_view_row(pages, l, is_v, t, g);
                    void *own = bt_ref_kv_row(kv, l, is_v, t) + g * pages->head_dim;
                    memcpy(to_pages ? paged : own, to_pages ? own : paged, head);
                }
}

void bt_ref_pages_load(bt_ref_kv *to, const bt_kv_view *from, size_t begin, size_t count)
{
    copy(to, from, begin, count, false);
}

void bt_ref_pages_store(const bt_kv_view *to, bt_ref_kv *from, size_t begin, size_t count,
                        bt_overflow *overflow)
{
    const size_t width = (size_t)to->kv_heads * to->head_dim;
    copy(from, to, begin, count, true);
    for (uint32_t l = 0; l < to->layers; l++)
        for (int is_v = 0; is_v < 2; is_v++)
            for (size_t t = begin; t < begin + count; t++)
                bt_overflow_look(
                    overflow, (bt_overflow_place){.layer = l, .what = is_v ? BT_OVERFLOW_V : BT_OVERFLOW_K},
                    t, bt_ref_kv_row(from, l, is_v, t), width, 1, width, bt_finite_kv_limit(to->elem_bytes));
}
