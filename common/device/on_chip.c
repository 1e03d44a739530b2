/* The two loop orders, counted. */
#include "device/on_chip.h"

static uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) || sum > INT64_MAX ? INT64_MAX : sum;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > INT64_MAX ? INT64_MAX : product;
}

/* How many of `all` pieces of `bytes` each fit into `room` bytes. */
static uint64_t fitting(uint64_t all, uint64_t room, uint64_t bytes)
{
    return !bytes || room / bytes > all ? all : room / bytes;
}

/* Blocks of the operand that stays. */
static uint64_t blocks_of(const bt_on_chip_op *op, uint64_t capacity, bt_on_chip_order order)
{
    const bool weights = order == BT_ON_CHIP_WEIGHTS_STAY;
    const uint64_t all = weights ? op->bands : op->units, each = weights ? op->band_bytes : op->unit_bytes;
    const bool output_grows = !weights || !op->is_sum;
    const uint64_t passing =
        plus(weights ? op->unit_bytes : op->band_bytes, output_grows ? 0 : op->output_bytes);
    const uint64_t staying = plus(each, output_grows ? op->output_bytes : 0);
    const uint64_t n = passing > capacity ? 0 : fitting(all, capacity - passing, staying);
    return n ? (all + n - 1) / n : all;
}

bt_on_chip_plan bt_on_chip_in_order(const bt_on_chip_op *op, uint64_t capacity, bt_on_chip_order order)
{
    const uint64_t limit = capacity ? capacity : UINT64_MAX;
    const uint64_t weights = times(op->bands, op->band_bytes), input = times(op->units, op->unit_bytes),
                   output = times(times(op->units, op->is_sum ? 1 : op->bands), op->output_bytes);
    const uint64_t least = plus(plus(op->band_bytes, op->unit_bytes), op->output_bytes);
    const bool is_all = plus(plus(weights, input), output) <= limit;
    bt_on_chip_plan p = {.order = order, .blocks = is_all ? 1 : blocks_of(op, limit, order)};
    const bool stays = p.blocks == 1 && least <= limit, is_first = order == BT_ON_CHIP_WEIGHTS_STAY;
    *(is_all || (stays && is_first) ? &p.weights.resident : &p.weights.streamed) = weights;
    *(is_all || (stays && !is_first) ? &p.input.resident : &p.input.streamed) = input;
    *(is_all ? &p.output.resident : &p.output.streamed) = output;
    *(is_first ? &p.input.spilled : &p.weights.spilled) = times(p.blocks - 1, is_first ? input : weights);
    if (is_first && op->is_sum) p.output.spilled = times(2 * (p.blocks - 1), output);
    if (least > limit) p.overflow = times(times(2, least - limit), times(op->bands, op->units));
    return p;
}

bt_on_chip_plan bt_on_chip_best(const bt_on_chip_op *op, uint64_t capacity)
{
    const bt_on_chip_plan weights = bt_on_chip_in_order(op, capacity, BT_ON_CHIP_WEIGHTS_STAY),
                          inputs = bt_on_chip_in_order(op, capacity, BT_ON_CHIP_INPUTS_STAY);
    return bt_on_chip_moved(&inputs) < bt_on_chip_moved(&weights) ? inputs : weights;
}

static uint64_t three(uint64_t a, uint64_t b, uint64_t c) { return plus(a, plus(b, c)); }

uint64_t bt_on_chip_resident(const bt_on_chip_plan *p)
{
    return three(p->weights.resident, p->input.resident, p->output.resident);
}
uint64_t bt_on_chip_streamed(const bt_on_chip_plan *p)
{
    return three(p->weights.streamed, p->input.streamed, p->output.streamed);
}
uint64_t bt_on_chip_spilled(const bt_on_chip_plan *p)
{
    return plus(three(p->weights.spilled, p->input.spilled, p->output.spilled), p->overflow);
}
uint64_t bt_on_chip_moved(const bt_on_chip_plan *p)
{
    return three(bt_on_chip_resident(p), bt_on_chip_streamed(p), bt_on_chip_spilled(p));
}
