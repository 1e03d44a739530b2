#ifndef BT_DEVICE_WORK_H
#define BT_DEVICE_WORK_H
#include <stdbool.h>
#include "device/energy.h"
#include "device/link.h"
#include "device/price.h"

/* The price of what a node does: a prompt on a prefill node, a step on a decode node. Nodes, tools and the simulator
 * take it from here, so that they say the same. Pure integers, ending at INT64_MAX; nothing is measured.
 *
 *   ns        the device's time
 *   ideal_ns  what the same would take at the peak: operations by the int8 peak in a prompt, bytes by the memory's peak
 *             in a step. utilisation = ideal_ns / ns, of one piece of work or of any sum
 *   nj        energy, of a kind (device/energy.h). A sum is only known where each part is, and of a TDP where one is
 */
typedef struct bt_work {
    uint64_t ns, ideal_ns, nj;
    bt_energy_kind energy;
} bt_work;
/* *sum: zeros before the first. */
void bt_work_add(bt_work *sum, const bt_work *more);
/* The part of `rows` in a step of all_rows: all of its time, for everybody waits for all of it, and a share of the
 * rest. all_rows 0: all of it. */
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
    /* What it takes in program order; the prompt is computed from `first` on. makes_logits: where it is the last. */
    bt_price_sum (*chunk)(void *ud, uint64_t first, uint64_t begin, uint64_t end, bool makes_logits);
    /* One of so many rows that several prompts share, each row behind its own positions. is_first: of them all; outs:
     * prompts that it makes logits for. */
    bt_price_sum (*batch)(void *ud, uint64_t rows, const bt_price_batch *s, bool is_first, uint64_t outs);
    void *ud;
} bt_work_programs;

/* A prompt under a schedule, from its begin. Lists live until the next is played. */
typedef struct bt_work_played {
    uint64_t ns, busy_ns[2]; /* all of it; the NPU's and its companion's part (bt_schedule_engine) */
    size_t chunks;
    const uint64_t *ends;      /* [chunks]: positions behind each */
    const uint64_t *stored_ns; /* [chunks * layers]: when a layer of a chunk is stored */
    const uint32_t *order;     /* [chunks * layers]: indices of stored_ns as time goes by */
} bt_work_played;
/* Positions [first, end), first < end. false: it cannot be played. */
typedef bool bt_work_play(void *ud, bt_work_played *ret, uint64_t first, uint64_t end);

/* What a prefill node computes with. All borrowed. */
typedef struct bt_work_prefill {
    bt_work_programs programs;
    bt_work_play *play; /* NULL: program order, one engine at a time, layers as equal parts of a chunk */
    void *play_ud;
    bt_link link; /* bits_per_us 0: not known, and sending costs nothing */
    uint32_t layers;
    uint64_t kv_bytes; /* of a position in all layers */
} bt_work_prefill;

/* Positions [first, end) are computed, [covered, end) are sent: rows below `first` are there from earlier prompts, rows
 * below `covered` are at the decode node. Rows leave layer by layer, one message a layer and chunk; where is_whole all
 * when the last are computed, in front of the output matrix, one message a layer. Rows that are there and have to be
 * sent leave first. */
typedef struct bt_work_prompt {
    uint64_t first, end, covered;
    bool is_whole;
} bt_work_prompt;
typedef struct bt_work_run {
    bt_work work;
    bt_price_sum sum;                 /* operations and bytes; what each part takes by itself */
    uint64_t busy_ns[2];              /* of work.ns, by bt_schedule_engine; zeros where nothing was played */
    uint64_t transfer_ns, exposed_ns; /* on the wire in all, and of it after the prompt's end */
} bt_work_run;
bt_work_run bt_work_of_prompt(const bt_work_prefill *d, const bt_work_prompt *p);

/* n prompts that run together in a chunk (prefill-node/brain): the program that has the rows of them all, with the
 * attention of each one's rows behind its own positions. It is the one for a prompt behind the mean of what stands
 * before each; what it does not hold follows in the next one. First use once, the output matrix for each.
 * What each has of it: bt_work_share by rows. */
bt_work_run bt_work_of_prompts(const bt_work_prefill *d, const bt_work_prompt *p, size_t n);

/* ---- a step --------------------------------------------------------------------------------------- */

/* Rows of one sequence in a step of a decode node: [pos, pos + count), the last `out` of them make logits. */
void bt_work_step_add(bt_price_step *step, uint64_t pos, uint64_t count, uint64_t out);
bt_work bt_work_of_step(const bt_profile *p, const bt_price_model *m, const bt_price_step *step);
#endif
