#ifndef BT_DEVICE_ON_CHIP_H
#define BT_DEVICE_ON_CHIP_H
#include <stdbool.h>
#include <stdint.h>

/* The bytes that one operator moves between memory and a chip that holds `capacity` bytes: which operand stays, which
 * passes by, and which bytes come again. Pure arithmetic, saturating at INT64_MAX.
 *
 * An operator reads weights in bands (a row of weight tiles: some outputs, all their inputs; one position of K and V in
 * attention) and an input in units of rows. Every band meets every unit, and the chip holds at least one band, one unit
 * and their output. W, A and O are the bytes of all weights, inputs and outputs, w, a and o those of one band, one unit
 * and their output:
 *
 *   weights stay   blocks of b bands stay while all units pass: b w + a + b o <= capacity, so
 *                  b = floor((capacity - a) / (w + o)), at most all; blocks = ceil(bands / b)
 *                  the weights come once, the input comes `blocks` times: W + blocks A + O
 *   inputs stay    blocks of r units stay while all bands pass: w + r a + r o <= capacity, so
 *                  r = floor((capacity - w) / (a + o)), at most all; blocks = ceil(units / r)
 *                  the input comes once, the weights come `blocks` times: A + blocks W + O
 *
 * Where an output is a sum over all bands (attention), o belongs to the unit alone: weights stay with b w + a + o <=
 * capacity, and unfinished sums go out and come back between blocks: 2 (blocks - 1) O more. Where not even one band,
 * one unit and their output fit (w + a + o > capacity), blocks are of one band or unit, and the overflow goes out and
 * comes back at every meeting: 2 (w + a + o - capacity) bands units more.
 *
 * The loops are those of weight- and activation-stationary arrays: tiles of llama.cpp's ggml-hexagon, whose working set
 * of a weight tile, inputs and outputs has to fit the VTCM; and HeteroLLM's law of order, by which the operand that
 * stays decides up to a factor of six. */
typedef enum bt_on_chip_order { BT_ON_CHIP_WEIGHTS_STAY = 1, BT_ON_CHIP_INPUTS_STAY } bt_on_chip_order;

typedef struct bt_on_chip_op {
    uint64_t bands, band_bytes; /* of weights; 1 band of 0 bytes where there are none */
    uint64_t units, unit_bytes; /* of the input; units >= 1 */
    uint64_t output_bytes;      /* of one band and one unit; where bands are summed, of all bands and one unit */
    bool is_sum;                /* the output is a sum over all bands */
} bt_on_chip_op;

/* The bytes of an operand. resident: bytes that are on the chip while the operator runs, and cross once. streamed:
 * bytes that cross once, piece by piece. spilled: bytes that cross again beyond that. resident + streamed are all of
 * its bytes. */
typedef struct bt_on_chip_share {
    uint64_t resident, streamed, spilled;
} bt_on_chip_share;

typedef struct bt_on_chip_plan {
    bt_on_chip_order order;
    uint64_t blocks; /* of the operand that stays */
    bt_on_chip_share weights, input, output;
    uint64_t overflow; /* bytes of the overflow at all meetings, out and back; 0: one band, one unit and their output
                          fit */
} bt_on_chip_plan;

/* capacity 0: no limit, everything is resident. */
bt_on_chip_plan bt_on_chip_in_order(const bt_on_chip_op *op, uint64_t capacity, bt_on_chip_order order);
/* The order that moves least; in a tie the weights stay. */
bt_on_chip_plan bt_on_chip_best(const bt_on_chip_op *op, uint64_t capacity);

uint64_t bt_on_chip_resident(const bt_on_chip_plan *p);
uint64_t bt_on_chip_streamed(const bt_on_chip_plan *p);
uint64_t bt_on_chip_spilled(const bt_on_chip_plan *p); /* overflow too */
uint64_t bt_on_chip_moved(const bt_on_chip_plan *p);   /* resident, streamed and spilled bytes */
#endif
