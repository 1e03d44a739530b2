#ifndef TEST_TOY_PRICE_H
#define TEST_TOY_PRICE_H
#include <string.h>
#include "device/work.h"

/* A device of round numbers: programs of 32 and 64 rows take 1,000 and 1,600 us whatever the position, the first use
 * 50 us, the output matrix 30 us. Two layers, 10 bytes of KV each a position; the link carries a byte in a
 * microsecond. */
enum { TOY_LAYERS = 2 };
static inline bt_work_chunk toy_cut(const void *ud, uint64_t begin, uint64_t end)
{
    const uint64_t left = end - begin, rows = left > 32 ? 64 : 32;
    (void)ud;
    return (bt_work_chunk){.rows = rows, .valid = left < rows ? left : rows};
}
static inline bt_work_prefill toy_device(bt_price *p)
{
    memset(p, 0, sizeof *p);
    p->programs = 2;
    p->program[0].rows = 32;
    p->program[0].compute.fixed = 1000000;
    p->program[1].rows = 64;
    p->program[1].compute.fixed = 1600000;
    p->program[1].ops.fixed = 800000;
    p->first_ns = 50000;
    p->last_ns = 30000;
    p->profile.time.f16_ops_per_us = 1000;
    p->profile.time.int8_permille = 2000;
    return (bt_work_prefill){.price = p, .cut = toy_cut, .link = {.bits_per_us = 8}, .layers = TOY_LAYERS,
                             .kv_bytes = 10 * TOY_LAYERS};
}
#endif
