#ifndef BT_DEVICE_WORK_H
#define BT_DEVICE_WORK_H
#include <stdbool.h>
#include "device/energy.h"
#include "device/link.h"
#include "device/price.h"

/* The price of what a node does: a prompt on a prefill node, a step on a decode node. Nodes, commands and the simulator
 * all take it from here, so that they agree. Pure integers, at most INT64_MAX; nothing is measured.
 *
 *   ns        the device's time
 *   ideal_ns  the time at the peak: operations by the int8 peak in a prompt, bytes by the memory's peak in a step.
 *             utilisation = ideal_ns / ns, of one piece of work or of any sum
 *   nj        energy, of a kind (device/energy.h). A sum is known only where each part is, and is a TDP's where one
 *             part is
 */
typedef struct bt_work {
    uint64_t ns, ideal_ns, nj;
    bt_energy_kind energy;
} bt_work;
/* *sum: zeros before the first. */
void bt_work_add(bt_work *sum, const bt_work *more);
/* The part of `rows` in a step of all_rows: all of its time, since every row waits for the whole step, and a share of
 * the rest. all_rows 0: everything. */
bt_work bt_work_share(const bt_work *w, uint64_t rows, uint64_t all_rows);

/* ---- a prompt ------------------------------------------------------------------------------------- */

/* A device with programs, and a model's on it: what chunks of prompts take. All borrowed; whoever asks keeps to one
 * thread. npu/price has those of packages. */
typedef struct bt_work_chunk {
    uint64_t rows, valid; /* rows of the program, of which 1 or more are valid */
} bt_work_chunk;
typedef struct bt_work_programs {
    const bt_profile *profile;
    /* The chunk that begins at `begin` of a prompt that ends at `end`, begin < end. */
    bt_work_chunk (*cut)(void *ud, uint64_t begin, uint64_t end);
    /* The chunk's work in program order; the prompt is computed from `first` on. makes_logits: where it is the last. */
    bt_price_sum (*chunk)(void *ud, uint64_t first, uint64_t begin, uint64_t end, bool makes_logits);
    /* One of so many rows that several prompts share, each row behind its own positions. is_first: of them all; outs:
     * prompts that it makes logits for. */
    bt_price_sum (*batch)(void *ud, uint64_t rows, const bt_price_batch *s, bool is_first, uint64_t outs);
    void *ud;
} bt_work_programs;

/* A prompt under a schedule, from its begin. Lists live until the next is played. */
typedef struct bt_work_played {
    uint64_t ns, busy_ns[2]; /* the whole time; the NPU's and its companion's part (bt_schedule_engine) */
    size_t chunks;
    const uint64_t *ends;      /* [chunks]: position behind each chunk */
    const uint64_t *stored_ns; /* [chunks * layers]: when a layer of a chunk is stored */
    const uint32_t *order;     /* [chunks * layers]: indices of stored_ns in the order of time */
} bt_work_played;
/* Positions [first, end), first < end. false: it cannot be played. */
typedef bool bt_work_play(void *ud, bt_work_played *ret, uint64_t first, uint64_t end);

/* A prefill node's device, for prices. Everything is borrowed. */
typedef struct bt_work_prefill {
    bt_work_programs programs;
    bt_work_play *play; /* NULL: program order, one engine at a time, layers as equal parts of a chunk */
    void *play_ud;
    bt_link link; /* bits_per_us 0: not known, and sending costs nothing */
    bt_link_kv kv;
} bt_work_prefill;

/* Positions [first, end) are computed, [covered, end) are sent: rows below `first` are kept from earlier prompts, rows
 * below `covered` are at the decode node. Rows leave layer by layer, one message a layer and chunk; with is_whole all
 * leave when the last row is computed, before the output matrix, one message a layer. Kept rows that have to be sent
 * leave first. Layers with a window send no rows that no later row sees (device/link.h). */
typedef struct bt_work_prompt {
    uint64_t first, end, covered;
    bool is_whole;
} bt_work_prompt;
typedef struct bt_work_run {
    bt_work work;
    bt_price_sum sum;                 /* operations and bytes; the time of each part by itself */
    uint64_t busy_ns[2];              /* of work.ns, by bt_schedule_engine; zeros where no schedule was played */
    uint64_t transfer_ns, exposed_ns; /* on the wire in all, and the part after the prompt's end */
} bt_work_run;
bt_work_run bt_work_of_prompt(const bt_work_prefill *d, const bt_work_prompt *p);

/* A batch of n prompts in a chunk (prefill-node/brain): the program that holds all their rows, with the attention of
 * each prompt's rows behind its own positions. The program is that of a prompt behind the mean of the rows before each;
 * rows that it does not hold follow in the next one. First use counts once, the output matrix for each prompt.
 * bt_work_share divides the result by rows. */
bt_work_run bt_work_of_prompts(const bt_work_prefill *d, const bt_work_prompt *p, size_t n);

/* ---- a step --------------------------------------------------------------------------------------- */

/* Rows of one sequence in a step of a decode node: [pos, pos + count), the last `out` of them make logits. window: the
 * model's; 0: none. */
void bt_work_step_add(bt_price_step *step, uint64_t pos, uint64_t count, uint64_t out, uint64_t window);
bt_work bt_work_of_step(const bt_profile *p, const bt_price_model *m, const bt_price_step *step);
#endif
