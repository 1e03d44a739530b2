#ifndef BT_NPU_STAGE_COST_H
#define BT_NPU_STAGE_COST_H
#include "device/price.h"
#include "device/schedule.h"
#include "device/split.h"
#include "npu/lower/stages.h"

/* The one price of an instruction, on an NPU and its companion: the operators of device/time.h, with the sizes and the
 * places that the package says. Modelled, in nanoseconds, ending at INT64_MAX.
 *
 *   a stage of the NPU        its instructions, each on the NPU; what spills as device/on_chip.h counts it
 *   a stage that begins a graph of the NPU (npu/lower/stages.h): dispatch more
 *   a stage of the companion  its instructions, each on the companion
 *   a stage that follows one of the other engine: bt_time_sync more
 *
 * A matrix is a product at the engine's rates, with weights that stay, as the profiles' constants were calibrated; of
 * palettes it reads the indices and multiplies numbers of 8 bits. Attention is bt_time_of_attention over the pairs that
 * the chunk's rows see (of a program that is static in its context: all its columns), where it is sparse that of its
 * first rows and device/sparse.h's plan of the others, both engines together; a switch of sessions is what the
 * instruction says, and anything else moves what it reads and writes, in the launch of the matrices around it.
 *
 * A linear costs first_launch_ns and first_weight_bytes_per_us more where a prompt first reads its weights: in the
 * prompt's first chunk, and of what only the rows of logits pass, in the chunk that makes logits. */
typedef struct bt_stage_engines {
    const bt_profile *npu, *companion; /* both with times; the same where there is no companion */
    uint32_t kv_elem_bits;             /* of the deployment's KV; 0: 16 */
} bt_stage_engines;
typedef struct bt_stage_chunk {
    uint64_t pos, rows, ctx;     /* ctx: of the program's row */
    bool is_first;               /* of the prompt */
    const bt_price_batch *batch; /* rows of several prompts, whose attention it is; NULL: of one, behind pos */
} bt_stage_chunk;

typedef struct bt_stage_inst { /* what an instruction takes */
    uint64_t ns, first_ns;     /* on its engine, without first use; what that costs, whether it is due or not */
    uint64_t other_ns;         /* what the engine beside does in it */
    uint64_t spill_ns;         /* of ns */
    uint64_t ops, bytes;       /* operations and bytes of memory, for energy and utilisation */
} bt_stage_inst;
bt_stage_inst bt_stage_inst_cost(const bt_stage_engines *e, const bt_pkg *p, uint32_t program, const bt_pkg_inst *i,
                                 const bt_stage_chunk *c);
/* Whether its first use is due in this chunk. */
static inline bool bt_stage_is_first_use(const bt_pkg_inst *i, const bt_stage_chunk *c)
{
    return c->is_first || i->out_rows;
}
/* The sync of stage j of a chunk: of one that begins behind one of the other engine; else 0. */
uint64_t bt_stage_sync(const bt_stage_engines *e, const bt_stage *stage, size_t j);

/* By bt_schedule_policy, and one more: program order, where each linear of the NPU is divided over both engines as
 * device/split.h finds best. */
enum { BT_STAGE_SPLIT = BT_SCHEDULE_OOO + 1, BT_STAGE_POLICIES };
#define BT_STAGE_POLICY_NAMES BT_SCHEDULE_NAMES, "split"

/* A stage under BT_STAGE_SPLIT: its work in the order of its code. A piece is what the NPU or the companion does alone
 * (neighbours are one piece), or a linear that both do: then neither goes on before both have ended and joined. */
typedef struct bt_stage_piece {
    uint64_t busy_ns[BT_SCHEDULE_ENGINES]; /* both begin with the piece */
    uint64_t ns;                           /* the next piece begins then */
    bt_split_way way;                      /* of a linear that is divided */
} bt_stage_piece;
/* Divisions that were solved before: a layer's linears come again in each. Zeros at first; one for a package and its
 * engines. */
enum { BT_STAGE_MEMO = 64 };
typedef struct bt_stage_memo {
    struct {
        bt_time_matrix m;
        bt_split split;
    } at[BT_STAGE_MEMO];
    uint32_t used, next;
    uint64_t ways[BT_SPLIT_WAYS]; /* linears that were asked for, by what was found best */
} bt_stage_memo;
/* Returns the stage's time; piece: called for each, in order, may be NULL. */
uint64_t bt_stage_cost_split(bt_stage_memo *memo, const bt_stage_engines *e, const bt_pkg *p, uint32_t program,
                             const bt_stage *stage, const bt_stage_chunk *c,
                             void (*piece)(void *ud, const bt_stage_piece *piece), void *ud);
#endif
