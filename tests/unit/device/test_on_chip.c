/* Loop orders: figures by hand for real operators, and against loops that are walked band by band. */
#include "device/on_chip.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void assert_share(const bt_on_chip_share *s, uint64_t resident, uint64_t streamed, uint64_t spilled)
{
    assert_int_equal(s->resident, resident);
    assert_int_equal(s->streamed, streamed);
    assert_int_equal(s->spilled, spilled);
}

/* down of a model of 4,096 and 11,008: 256 rows, tiles of 32 x 32, 8-bit weights and inputs, 16-bit outputs;
 * 8 MiB. */
static const bt_on_chip_op down = {.bands = 4096 / 32, .band_bytes = 32 * 11008, .units = 256 / 32,
                                   .unit_bytes = 32 * 11008, .output_bytes = 32 * 32 * 2};
enum { W = 4096 * 11008, A = 256 * 11008, O = 256 * 4096 * 2, CHIP = 8 << 20 };

static void the_operand_that_fits_stays(void **state) /* AC-d3 */
{
    (void)state;
    /* (8,388,608 - 352,256) / (352,256 + 2,048) = 22 bands: 128 in 6 blocks, and the input comes 6 times. */
    const bt_on_chip_plan w = bt_on_chip_in_order(&down, CHIP, BT_ON_CHIP_WEIGHTS_STAY);
    assert_int_equal(w.blocks, 6);
    assert_share(&w.weights, 0, W, 0);
    assert_share(&w.input, 0, A, UINT64_C(5) * A);
    assert_share(&w.output, 0, O, 0);
    assert_int_equal(bt_on_chip_moved(&w), UINT64_C(64094208));
    /* All 8 units fit at once: everything crosses once. */
    const bt_on_chip_plan i = bt_on_chip_best(&down, CHIP);
    assert_int_equal(i.order, BT_ON_CHIP_INPUTS_STAY);
    assert_int_equal(i.blocks, 1);
    assert_share(&i.weights, 0, W, 0);
    assert_share(&i.input, A, 0, 0);
    assert_share(&i.output, 0, O, 0);
    assert_int_equal(bt_on_chip_moved(&i), UINT64_C(50003968));
    assert_int_equal(bt_on_chip_resident(&i) + bt_on_chip_streamed(&i), (uint64_t)W + A + O);
}

static void the_smaller_operand_stays_at_the_edge_of_fitting(void **state)
{
    (void)state;
    /* 576 x 576 over 1,024 rows: 18 bands and 32 units of 18,432 bytes, outputs of 2,048 for each pair. */
    const bt_on_chip_op q = {.bands = 18, .band_bytes = 18432, .units = 32, .unit_bytes = 18432,
                             .output_bytes = 2048};
    const uint64_t edge = 18432 + 18 * (18432 + 2048);
    const bt_on_chip_plan fits = bt_on_chip_best(&q, edge), not = bt_on_chip_best(&q, edge - 1);
    assert_int_equal(fits.order, BT_ON_CHIP_WEIGHTS_STAY);
    assert_share(&fits.weights, 576 * 576, 0, 0);
    assert_int_equal(bt_on_chip_spilled(&fits), 0);
    assert_int_equal(not .order, BT_ON_CHIP_INPUTS_STAY); /* 17 of 32 units: the weights come twice */
    assert_int_equal(not .blocks, 2);
    assert_share(&not .weights, 0, 576 * 576, 576 * 576);
    assert_share(&not .input, 0, 1024 * 576, 0);
}

static void no_limit_and_a_chip_that_holds_all_keep_everything(void **state)
{
    (void)state;
    const uint64_t capacity[] = {0, (uint64_t)W + A + O};
    for (size_t i = 0; i < 2; i++) {
        const bt_on_chip_plan p = bt_on_chip_best(&down, capacity[i]);
        assert_int_equal(p.order, BT_ON_CHIP_WEIGHTS_STAY); /* equal: the weights */
        assert_share(&p.weights, W, 0, 0);
        assert_share(&p.input, A, 0, 0);
        assert_share(&p.output, O, 0, 0);
        assert_int_equal(bt_on_chip_moved(&p), (uint64_t)W + A + O);
    }
}

static void what_is_over_goes_out_and_comes_back_at_every_meeting(void **state)
{
    (void)state;
    const bt_on_chip_op op = {.bands = 3, .band_bytes = 50, .units = 2, .unit_bytes = 40, .output_bytes = 20};
    const bt_on_chip_plan p = bt_on_chip_best(&op, 100);
    assert_int_equal(p.order, BT_ON_CHIP_INPUTS_STAY); /* 80 + 2 * 150 against 150 + 3 * 80 */
    assert_int_equal(p.blocks, 2);
    assert_int_equal(p.overflow, 2 * (110 - 100) * 3 * 2);
    assert_share(&p.weights, 0, 150, 150);
    assert_share(&p.input, 0, 80, 0);
    assert_share(&p.output, 0, 120, 0);
    assert_int_equal(bt_on_chip_moved(&p), 300 + 80 + 120 + 120);
    const bt_on_chip_op huge = {.bands = UINT64_C(1) << 40, .band_bytes = UINT64_C(1) << 30, .units = 1 << 20,
                                .unit_bytes = 1 << 20, .output_bytes = 1 << 20};
    const bt_on_chip_plan most = bt_on_chip_best(&huge, 1024);
    assert_int_equal(bt_on_chip_moved(&most), INT64_MAX);
}

/* ---- the loops themselves ---- */

typedef struct chip {
    uint64_t held, most, moved;
} chip;
static void hold(chip *c, uint64_t bytes)
{
    c->held += bytes;
    if (c->held > c->most) c->most = c->held;
}
static void move_in(chip *c, uint64_t bytes)
{
    c->moved += bytes;
    hold(c, bytes);
}
static void move_out(chip *c, uint64_t bytes)
{
    c->moved += bytes;
    c->held -= bytes;
}

/* Blocks of n of what stays; the outputs of a block and what passes are held until it has passed. */
static chip walk(const bt_on_chip_op *op, bool weights_stay, uint64_t n)
{
    chip c = {0};
    const uint64_t all = weights_stay ? op->bands : op->units, others = weights_stay ? op->units : op->bands;
    const uint64_t each = weights_stay ? op->band_bytes : op->unit_bytes,
                   other = weights_stay ? op->unit_bytes : op->band_bytes;
    for (uint64_t first = 0; first < all; first += n) {
        const uint64_t block = all - first < n ? all - first : n;
        for (uint64_t i = 0; i < block; i++) move_in(&c, each);
        if (op->is_sum && !weights_stay) hold(&c, block * op->output_bytes);
        for (uint64_t o = 0; o < others; o++) {
            move_in(&c, other);
            if (op->is_sum && weights_stay) { /* the sums of the blocks before come back */
                if (first) move_in(&c, op->output_bytes);
                else hold(&c, op->output_bytes);
                move_out(&c, op->output_bytes);
            } else if (!op->is_sum) {
                hold(&c, block * op->output_bytes);
                move_out(&c, block * op->output_bytes);
            }
            c.held -= other;
        }
        if (op->is_sum && !weights_stay) move_out(&c, block * op->output_bytes);
        c.held -= block * each;
    }
    assert_int_equal(c.held, 0);
    return c;
}

static uint64_t draw(uint64_t below)
{
    static uint64_t index;
    return bt_rng_u64(16, index++) % below;
}

static void no_block_of_either_order_moves_less(void **state)
{
    (void)state;
    size_t decided[2] = {0};
    for (int round = 0; round < 20000; round++) {
        const bt_on_chip_op op = {.bands = 1 + draw(9),   .band_bytes = draw(30),  .units = 1 + draw(9),
                                  .unit_bytes = draw(30), .output_bytes = draw(9), .is_sum = draw(3) == 0};
        const uint64_t capacity = op.band_bytes + op.unit_bytes + op.output_bytes + 1 + draw(150);
        const bt_on_chip_plan best = bt_on_chip_best(&op, capacity);
        uint64_t least[2] = {UINT64_MAX, UINT64_MAX};
        for (int order = 0; order < 2; order++)
            for (uint64_t n = 1; n <= (order ? op.units : op.bands); n++) {
                const chip c = walk(&op, order == 0, n);
                if (c.most <= capacity && c.moved < least[order]) least[order] = c.moved;
            }
        assert_int_equal(bt_on_chip_moved(&best), least[0] < least[1] ? least[0] : least[1]);
        assert_int_equal(best.order, least[1] < least[0] ? BT_ON_CHIP_INPUTS_STAY : BT_ON_CHIP_WEIGHTS_STAY);
        decided[best.order == BT_ON_CHIP_INPUTS_STAY] += least[0] != least[1];
    }
    assert_true(decided[0] > 1000 && decided[1] > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_operand_that_fits_stays),
        cmocka_unit_test(the_smaller_operand_stays_at_the_edge_of_fitting),
        cmocka_unit_test(no_limit_and_a_chip_that_holds_all_keep_everything),
        cmocka_unit_test(what_is_over_goes_out_and_comes_back_at_every_meeting),
        cmocka_unit_test(no_block_of_either_order_moves_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
