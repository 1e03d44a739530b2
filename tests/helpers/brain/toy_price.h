#ifndef TEST_TOY_PRICE_H
#define TEST_TOY_PRICE_H
#include "device/work.h"

/* A device of round numbers: programs of 32 and 64 rows take 1,000 and 1,600 us whatever the position, the first use
 * 50 us, the output matrix 30 us. Two layers, 10 bytes of KV each a position; the link carries a byte in a
 * microsecond. */
enum { TOY_LAYERS = 2 };
static inline bt_work_chunk toy_cut(void *ud, uint64_t begin, uint64_t end)
{
    const uint64_t left = end - begin, rows = left > 32 ? 64 : 32;
    (void)ud;
    return (bt_work_chunk){.rows = rows, .valid = left < rows ? left : rows};
}
static inline bt_price_sum toy_sum(uint64_t rows, bool is_first, uint64_t outs)
{
    bt_price_sum s = {.ns = rows == 64 ? 1600000 : 1000000, .ops = rows == 64 ? 800000 : 0, .chunks = 1};
    s.lead_ns = s.first_ns = is_first ? 50000 : 0;
    s.tail_ns = 30000 * outs;
    s.ns += s.lead_ns + s.tail_ns;
    return s;
}
static inline bt_price_sum toy_chunk(void *ud, uint64_t first, uint64_t begin, uint64_t end, bool makes_logits)
{
    const bt_work_chunk c = toy_cut(ud, begin, end);
    return toy_sum(c.rows, begin == first, makes_logits && begin + c.valid == end);
}
static inline bt_price_sum toy_batch(void *ud, uint64_t rows, const bt_price_batch *s, bool is_first, uint64_t outs)
{
    (void)ud;
    (void)s;
    return toy_sum(rows, is_first, outs);
}
static inline bt_work_prefill toy_device(bt_profile *p)
{
    *p = (bt_profile){.time = {.f16_ops_per_us = 1000, .int8_permille = 2000}};
    return (bt_work_prefill){.programs = {.profile = p, .cut = toy_cut, .chunk = toy_chunk, .batch = toy_batch},
                             .link = {.bits_per_us = 8}, .kv = {.layers = TOY_LAYERS, .layer_bytes = 10}};
}
#endif
