#ifndef BT_NPU_STAGE_COST_H
#define BT_NPU_STAGE_COST_H
#include "device/price.h"
#include "device/schedule.h"
#include "device/split.h"
#include "npu/lower/stages.h"
#include "npu/pkg/pkg_ops.h"

/* The one price of an instruction on an NPU and its companion: the operators of device/time.h, with sizes and places
 * from the package. Prices are modelled, in nanoseconds, and end at INT64_MAX.
 *
 *   a stage of the NPU                  its instructions on the NPU; spilled bytes as device/on_chip.h counts them
 *   a stage that begins a graph of the NPU (npu/lower/stages.h)   dispatch_ns more
 *   a stage of the companion            its instructions on the companion
 *   a stage behind one of the other engine   bt_time_sync more
 *
 * A matrix is a product at the engine's rates with weights that stay, as the constants of the profiles were calibrated.
 * With palettes it reads indices and multiplies numbers of 8 bits. Attention is bt_time_of_attention over the pairs of
 * positions that the chunk's rows see, or over all columns of a program whose context is static. Where attention is
 * sparse, the first rows are dense and the others follow the plan of device/sparse.h on both engines. A switch of
 * sessions costs what its instruction says. All else moves the bytes that it reads and writes, in the launch of the
 * matrices around it.
 *
 * A linear costs first_launch_ns and the bytes at first_weight_bytes_per_us more where a prompt first reads its
 * weights. That is in the prompt's first chunk, and for linears that only rows of logits pass, in the chunk that makes
 * logits. */
typedef struct bt_stage_engines {
    const bt_profile *npu, *companion; /* both with times; equal where there is no companion */
    uint32_t kv_elem_bits;             /* bits of an element of the deployment's KV; 0: 16 */
} bt_stage_engines;
typedef struct bt_stage_chunk {
    uint64_t pos, rows, ctx;     /* ctx: of the program's row, in positions */
    bool is_first;               /* the first chunk of its prompt */
    const bt_price_batch *batch; /* attention of the rows of several prompts; NULL: of one prompt's rows, from pos on */
} bt_stage_chunk;

typedef struct bt_stage_inst {
    uint64_t ns, first_ns; /* on its engine, without first use; cost of the first use, whether due or not */
    uint64_t other_ns;     /* work of the other engine in this instruction */
    uint64_t spill_ns;     /* part of ns, for spilled bytes */
    uint64_t ops, bytes;   /* operations and bytes of memory, for energy and utilisation */
} bt_stage_inst;
bt_stage_inst bt_stage_inst_cost(const bt_stage_engines *e, const bt_pkg *p, uint32_t program, const bt_pkg_inst *i,
                                 const bt_stage_chunk *c);
/* Whether the instruction's first use is due in this chunk. */
static inline bool bt_stage_is_first_use(const bt_pkg_inst *i, const bt_stage_chunk *c)
{
    return c->is_first || bt_pkg_is_out(i);
}
/* ns that stage j waits for the other engine: bt_time_sync behind a stage of the other engine, else 0. */
uint64_t bt_stage_sync(const bt_stage_engines *e, const bt_stage *stage, size_t j);

/* The policies: those of bt_schedule_policy, and SPLIT: program order, with each linear of the NPU divided over both
 * engines as device/split.h finds best. */
enum { BT_STAGE_SPLIT = BT_SCHEDULE_OOO + 1, BT_STAGE_POLICIES };
#define BT_STAGE_POLICY_NAMES BT_SCHEDULE_NAMES, "split"

/* A piece of a stage under BT_STAGE_SPLIT; pieces follow the order of the code. A piece is work of one engine alone,
 * neighbours together, or a linear that both engines share. Behind a shared linear neither engine goes on before both
 * have ended and joined. */
typedef struct bt_stage_piece {
    uint64_t busy_ns[BT_SCHEDULE_ENGINES]; /* of each engine; both begin with the piece */
    uint64_t ns;                           /* from the piece's begin to the next piece's */
    bt_split_way way;                      /* how a linear is divided */
} bt_stage_piece;
/* Divisions that were solved before, because a layer's linears come again in every layer. Zeros at first; one memo for
 * one package and its engines. */
enum { BT_STAGE_MEMO = 64 };
typedef struct bt_stage_memo {
    struct {
        bt_time_matrix m;
        bt_split split;
    } at[BT_STAGE_MEMO];
    uint32_t used, next;
    uint64_t ways[BT_SPLIT_WAYS]; /* linears that were asked for, by the best division found */
} bt_stage_memo;
/* Returns the stage's time in ns. piece, unless NULL, is called for each piece in order. */
uint64_t bt_stage_cost_split(bt_stage_memo *memo, const bt_stage_engines *e, const bt_pkg *p, uint32_t program,
                             const bt_stage *stage, const bt_stage_chunk *c,
                             void (*piece)(void *ud, const bt_stage_piece *piece), void *ud);
#endif
