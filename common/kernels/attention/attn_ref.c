/* Attention as plain loops, the specification: the order of kernels.h, for one (row, head) pair at a time. */
#include "kernels/variant.h"
#include "kernels/attention/attn_scratch.h"
#include "kernels/f16.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

size_t bt_attn_part_floats(size_t head_dim) { return attn_part_floats(head_dim); }
size_t bt_attn_scratch_bytes(size_t head_dim) { return attn_scratch_floats(head_dim) * sizeof(float); }

static float kv_elem(const bt_kv_view *kv, size_t layer, int is_v, size_t token, size_t head, size_t i)
{
    const void *row = bt_kv_view_row(kv, layer, is_v, token, head);
    if (kv->elem_bytes == 4) return ((const float *)row)[i];
    if (kv->elem_bytes == 2) return f16_to_f32(((const uint16_t *)row)[i]);
    const int8_t *q = row;
    return (float)q[i] * f16_to_f32(*(const uint16_t *)(const void *)(q + kv->head_dim));
}

/* (m, l, acc) of positions [begin, end) of one span. */
static void span_of(float *m, float *l, float *acc, const float *q, const bt_kv_view *kv, size_t layer,
                    size_t g, size_t begin, size_t end, const bt_attn_rule *rule)
{
    const size_t d = kv->head_dim;
    float z[BT_ATTN_BLOCK], lane[16] = {0};
    *m = -INFINITY;
    for (size_t i = 0; i < d; i++) acc[i] = 0;
    for (size_t b = begin, next; b < end; b = next) {
        next = (b / BT_ATTN_BLOCK + 1) * BT_ATTN_BLOCK;
        const size_t count = (end < next ? end : next) - b;
        float bm = *m;
        for (size_t j = 0; j < count; j++) {
            float sum = 0;
            for (size_t i = 0; i < d; i++) sum = fmaf(q[i], kv_elem(kv, layer, 0, b + j, g, i), sum);
            z[j] = sum * rule->scale;
            if (rule->cap > 0) z[j] = bt_tanh1(z[j] / rule->cap) * rule->cap;
            if (z[j] != z[j]) z[j] = INFINITY;
            if (z[j] > bm) bm = z[j];
        }
        const float c = bt_exp1(*m - bm);
        *m = bm;
        for (size_t i = 0; i < 16; i++) lane[i] *= c;
        for (size_t j = 0; j < count; j++) {
            z[j] = bt_exp1(z[j] - bm);
            lane[(b + j) % 16] += z[j];
        }
        for (size_t i = 0; i < d; i++) {
            acc[i] *= c;
            for (size_t j = 0; j < count; j++)
                acc[i] = fmaf(z[j], kv_elem(kv, layer, 1, b + j, g, i), acc[i]);
        }
    }
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++) lane[i] += lane[i + half];
    *l = lane[0];
}

/* Begins a row's (tm, tl, total) with a head's sink. Returns whether there is one, and the next span not the
 * first. */
static bool begin_with_sink(float *tm, float *tl, float *total, const bt_attn_rule *rule, size_t head,
                            size_t d)
{
    *tm = rule->sinks ? rule->sinks[head] : 0;
    *tl = rule->sinks ? 1 : 0;
    if (rule->sinks) memset(total, 0, d * sizeof *total);
    return rule->sinks != NULL;
}

/* Merges (m, l, acc) of a span into (tm, tl, total); the first span is taken as it is. */
static void merge(float *tm, float *tl, float *total, float m, float l, const float *acc, size_t d, int first)
{
    if (first) {
        *tm = m, *tl = l;
        memcpy(total, acc, d * sizeof *acc);
        return;
    }
    const float n = m > *tm ? m : *tm, a = bt_exp1(*tm - n), b = bt_exp1(m - n);
    *tl = *tl * a + l * b;
    for (size_t i = 0; i < d; i++) total[i] = total[i] * a + acc[i] * b;
    *tm = n;
}

void bt_attn_ref(float *out, size_t ldo, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                 size_t t, size_t pos0, size_t heads, size_t h0, size_t h1, const bt_attn_rule *rule,
                 void *scratch)
{
    const size_t d = kv->head_dim, group = heads / kv->kv_heads;
    float *acc = scratch, *total = acc + d;
    for (size_t row = 0; row < t; row++)
        for (size_t h = h0; h < h1; h++) {
            const float *qh = q + row * ldq + h * d;
            const size_t visible = pos0 + row + 1, begin = bt_attn_begin(rule, pos0 + row);
            float tm, tl, m, l;
            const bool has_sink = begin_with_sink(&tm, &tl, total, rule, h, d);
            for (size_t s = begin, next; s < visible; s = next) {
                next = (s / BT_ATTN_SPAN + 1) * BT_ATTN_SPAN;
                span_of(&m, &l, acc, qh, kv, layer, h / group, s, visible < next ? visible : next, rule);
                merge(&tm, &tl, total, m, l, acc, d, !has_sink && s == begin);
            }
            const float by = attn_divisor(tm, tl);
            for (size_t i = 0; i < d; i++) out[row * ldo + h * d + i] = total[i] / by;
        }
}

/* The next position that the row takes, from entry *i of the list on, below entry `count`; NONE: no more. */
static const uint32_t NONE = UINT32_MAX;
static uint32_t next_of(const bt_attn_list *list, size_t row, size_t *i, size_t count)
{
    while (*i < count && list->take && !(list->take[*i] >> row & 1)) ++*i;
    return *i < count ? list->at[*i] : NONE;
}

/* (m, l, acc) of the span whose first taken position is entry *i of the list; *i ends behind the span. */
static void some_of(float *m, float *l, float *acc, const float *q, const bt_kv_view *kv, size_t layer,
                    size_t g, const bt_attn_list *list, size_t row, size_t *i, size_t count, float scale)
{
    const size_t d = kv->head_dim;
    float z[BT_ATTN_BLOCK], lane[16] = {0};
    uint32_t at[BT_ATTN_BLOCK], next = next_of(list, row, i, count);
    const uint32_t span = next / BT_ATTN_SPAN;
    *m = -INFINITY;
    for (size_t e = 0; e < d; e++) acc[e] = 0;
    while (next != NONE && next / BT_ATTN_SPAN == span) {
        const uint32_t block = next / BT_ATTN_BLOCK;
        float bm = *m;
        size_t n = 0;
        for (; next != NONE && next / BT_ATTN_BLOCK == block; n++) {
            float sum = 0;
            at[n] = next;
            for (size_t e = 0; e < d; e++) sum = fmaf(q[e], kv_elem(kv, layer, 0, next, g, e), sum);
            z[n] = sum * scale;
            if (z[n] != z[n]) z[n] = INFINITY;
            if (z[n] > bm) bm = z[n];
            ++*i;
            next = next_of(list, row, i, count);
        }
        const float c = bt_exp1(*m - bm);
        *m = bm;
        for (size_t e = 0; e < 16; e++) lane[e] *= c;
        for (size_t k = 0; k < n; k++) {
            z[k] = bt_exp1(z[k] - bm);
            lane[at[k] % 16] += z[k];
        }
        for (size_t e = 0; e < d; e++) {
            acc[e] *= c;
            for (size_t k = 0; k < n; k++) acc[e] = fmaf(z[k], kv_elem(kv, layer, 1, at[k], g, e), acc[e]);
        }
    }
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t e = 0; e < half; e++) lane[e] += lane[e + half];
    *l = lane[0];
}

static void some_pair(float *out, const float *q, const bt_kv_view *kv, size_t layer, size_t g,
                      const bt_attn_list *list, size_t row, float scale, float *scratch)
{
    const size_t d = kv->head_dim, count = list->take ? list->count : list->count - (list->rows - 1 - row);
    float *acc = scratch, *total = acc + d, tm = 0, tl = 0, m, l;
    bool first = true;
    for (size_t i = 0; next_of(list, row, &i, count) != NONE; first = false) {
        some_of(&m, &l, acc, q, kv, layer, g, list, row, &i, count, scale);
        merge(&tm, &tl, total, m, l, acc, d, first);
    }
    const float by = attn_divisor(tm, tl);
    for (size_t e = 0; e < d; e++) out[e] = total[e] / by;
}

void bt_attn_some_ref(float *out, size_t ldo, const float *q, size_t ldq, const bt_kv_view *kv, size_t layer,
                      size_t g, const bt_attn_list *list, float scale, void *scratch)
{
    const size_t d = kv->head_dim;
    for (size_t row = 0; row < list->rows; row++)
        for (size_t h = 0; h < list->width; h++)
            some_pair(out + row * ldo + h * d, q + row * ldq + h * d, kv, layer, g, list, row, scale,
                      scratch);
}

void bt_attn_span_ref(float *part, size_t spans, const float *q, size_t ldq, const bt_kv_view *kv,
                      size_t layer, size_t t, size_t pos0, size_t heads, size_t g0, size_t g1, size_t s0,
                      size_t s1, const bt_attn_rule *rule, void *scratch)
{
    const size_t d = kv->head_dim, group = heads / kv->kv_heads;
    (void)scratch;
    for (size_t pair = g0 * t * group; pair < g1 * t * group; pair++)
        for (size_t s = s0; s < s1; s++) {
            const size_t g = pair / group / t, row = pair / group % t,
                         first = bt_attn_begin(rule, pos0 + row);
            const size_t begin = first > s * BT_ATTN_SPAN ? first : s * BT_ATTN_SPAN,
                         visible = pos0 + row + 1;
            const size_t end = visible < (s + 1) * BT_ATTN_SPAN ? visible : (s + 1) * BT_ATTN_SPAN;
            float *p = part + (pair * spans + s) * attn_part_floats(d);
            if (begin < end)
                span_of(&p[0], &p[1], p + BT_ATTN_PART_HEAD, q + row * ldq + (g * group + pair % group) * d,
                        kv, layer, g, begin, end, rule);
        }
}

void bt_attn_merge_ref(float *out, size_t ldo, const float *part, size_t spans, size_t t, size_t pos0,
                       size_t group, size_t d, const bt_attn_rule *rule)
{
    float total[BT_ATTN_MAX_DIM], tm, tl;
    for (size_t pair = 0; pair < t * group; pair++, part += spans * attn_part_floats(d)) {
        const size_t row = pair / group, seen = (pos0 + row) / BT_ATTN_SPAN + 1,
                     first = bt_attn_begin(rule, pos0 + row) / BT_ATTN_SPAN;
        const bool has_sink = begin_with_sink(&tm, &tl, total, rule, pair % group, d);
        for (size_t s = first; s < seen; s++) {
            const float *p = part + s * attn_part_floats(d);
            merge(&tm, &tl, total, p[0], p[1], p + BT_ATTN_PART_HEAD, d, !has_sink && s == first);
        }
        const float by = attn_divisor(tm, tl);
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): seen > 0 */
        for (size_t i = 0; i < d; i++) out[row * ldo + pair % group * d + i] = total[i] / by;
    }
}
