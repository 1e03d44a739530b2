#ifndef BT_GRAPH_GRAPH_H
#define BT_GRAPH_GRAPH_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/err.h"
#include "graph/op_list.h"
#include "model/model.h"
#include "model/weight.h"

/* A model written once, as a flat list of operators over tensors whose sizes are formulas of four symbols.
 * Two readers bind it (graph/bind.h): the prefill side to a table of static (seq, ctx) programs, the
 * decode side to seq = 1 with ctx left a symbol. A new architecture is one more description here; nothing
 * else knows architectures.
 *
 *   BATCH  sequences in one run
 *   SEQ    rows of one sequence in one run
 *   CTX    KV positions an attention may look at
 *   OUT    rows of a sequence whose logits are wanted: 0, 1 or SEQ
 *
 * Activations are FP32 [BATCH, rows, width], rows being SEQ or OUT. Only KV has CTX in its size, and KV
 * lives in pages that others own, so no activation, scratch or plan depends on CTX. KV rows are rounded to
 * the deployment's KV type when they are stored, and attention reads only the stored form (rule of
 * provenance). */
enum { BT_SYM_BATCH = 0, BT_SYM_SEQ, BT_SYM_CTX, BT_SYM_OUT, BT_SYM_COUNT };

/* coef * BATCH^e0 * SEQ^e1 * CTX^e2 * OUT^e3 */
typedef struct bt_formula {
    uint64_t coef;
    uint8_t exp[BT_SYM_COUNT];
} bt_formula;
typedef struct bt_bind {
    uint64_t value[BT_SYM_COUNT];
} bt_bind;
/* BT_ELIMIT when it does not fit 64 bits. */
bt_err bt_formula_eval(uint64_t *ret, bt_formula f, const bt_bind *b, bt_fault *fault);

typedef enum bt_tensor_kind {
    BT_TENSOR_IDS,    /* input: token ids, [BATCH, SEQ] int32 */
    BT_TENSOR_ACT,    /* f32, in the arena */
    BT_TENSOR_KV,     /* K and V of a layer, [BATCH, CTX, 2, G, E]; in pages (bt_kv_view) */
    BT_TENSOR_LOGITS, /* output: f32 [BATCH, OUT, V]; the caller's memory */
} bt_tensor_kind;

typedef struct bt_tensor {
    const char *name; /* "x", "q", ...; static text */
    bt_tensor_kind kind;
    uint32_t layer;  /* BT_GRAPH_NO_LAYER outside layers */
    bt_formula rows; /* rows of width elements, all sequences together */
    uint32_t width;
} bt_tensor;
#define BT_GRAPH_NO_LAYER  UINT32_MAX
#define BT_GRAPH_NO_TENSOR UINT32_MAX

/* The operators of graph/op_list.h, with what their tensors are:
 *   EMBED        in[0] ids -> rows of the embedding
 *   RMSNORM, LINEAR   in[0] through the weight, LINEAR with its bias
 *   QK_NORM      rmsnorm of each head, in place
 *   ROPE         by each row's position, in place
 *   KV_STORE     in[0] k, in[1] v -> kv; rounds; rows of real tokens only
 *   ATTENTION    in[0] q, in[1] kv; causal
 *   ADD          in[0] + in[1], in place
 *   SILU_MUL     silu(in[0]) * in[1], in place: gate and up
 *   SELECT_ROWS  the last real row of each sequence, or all rows
 *   ROTATE       rotates each of `heads` blocks, in place */
#define BT_OP_KIND(NAME, ...) BT_OP_##NAME,
typedef enum bt_op_kind {
    BT_OP_LIST(BT_OP_KIND, BT_OP_SKIP, BT_OP_SKIP, BT_OP_SKIP) BT_OP_KINDS,
    BT_OP_NONE = BT_OP_KINDS /* of an instruction: no operator's */
} bt_op_kind;
#undef BT_OP_KIND

/* What the tensors of an operator are like. By head, a row is `heads` parts. */
typedef enum bt_op_shape {
    BT_SHAPE_ROWS,   /* of an instruction that is no operator's: rows to rows of one width */
    BT_SHAPE_IDS,    /* ids to rows that the weight makes of them */
    BT_SHAPE_NORM,   /* rows of the model's width, through a vector */
    BT_SHAPE_MATRIX, /* rows of k to rows of n, or to logits */
    BT_SHAPE_HEADS,  /* rows of heads of head_dim */
    BT_SHAPE_STORE,  /* k and v to the layer's KV */
    BT_SHAPE_ATTEND, /* rows of queries, and the layer's KV, to rows alike */
    BT_SHAPE_PAIR,   /* two tensors alike */
    BT_SHAPE_SELECT, /* rows of SEQ to rows of OUT */
    BT_SHAPE_BLOCKS, /* rows of blocks alike */
} bt_op_shape;
/* What it reads or writes beside its tensors and its weight: tables of positions, a rotation's matrix, KV. */
typedef enum bt_op_beside { BT_BESIDE_NONE, BT_BESIDE_POSITIONS, BT_BESIDE_ROTATION, BT_BESIDE_KV } bt_op_beside;
/* What its time is made of: a product of matrices, attention over its columns, or what it moves. */
typedef enum bt_op_price { BT_PRICED_MOVED, BT_PRICED_MATRIX, BT_PRICED_ATTENTION } bt_op_price;

typedef struct bt_op_info { /* a row of graph/op_list.h, which says what each is */
    const char *name;
    uint8_t inputs;
    bool in_place, has_weight, by_head;
    uint8_t shape, beside; /* bt_op_shape, bt_op_beside */
    bool is_asked;
    uint8_t price; /* bt_op_price */
} bt_op_info;
extern const bt_op_info bt_op_infos[BT_OP_KINDS];
const char *bt_op_name(bt_op_kind k); /* "embed", "linear", ...; "?" */

typedef struct bt_op {
    bt_op_kind kind;
    uint32_t layer;      /* BT_GRAPH_NO_LAYER outside layers */
    bt_weight weight;    /* BT_WEIGHT_NONE where it has none */
    uint32_t in[2], out; /* tensors; BT_GRAPH_NO_TENSOR where unused */
    uint32_t heads;      /* by head: heads (blocks) in the row; else 0 */
    uint32_t rotation;   /* ROTATE: a bt_rotation; else 0 */
    bt_formula macs;     /* multiply-accumulates; attention counts every (row, CTX) pair */
} bt_op;

typedef struct bt_graph {
    bt_hparams hp;
    bt_tensor *tensor;
    size_t tensors;
    bt_op *op;
    size_t ops; /* in the order of execution; from op_tail on only for logits */
    size_t op_tail;
} bt_graph;

/* Rotations at run time, for weights that were folded with their inverses (npu/quant/fold.h). */
typedef struct bt_graph_options {
    bool rotate_embed;     /* R1: the rows of the embedding, each as one block */
    bool rotate_attention; /* R2: each head of the attention's output */
    bool rotate_ffn;       /* R4: silu(gate) * up, each row as one block */
} bt_graph_options;

/* llama, qwen2 and qwen3 are one description: biases come with the weights, QK_NORM where the file has it.
 * options NULL: no rotation. The result is checked (bt_graph_check). */
bt_err bt_graph_build(bt_graph **ret, const bt_hparams *hp, const bt_graph_options *options, bt_fault *fault);
void bt_graph_free(bt_graph *g); /* NULL is fine */
/* Every operand exists, has the shape its operator needs and is written before it is read; layers ascend. */
bt_err bt_graph_check(const bt_graph *g, bt_fault *fault);
/* Whether it turns anything by this matrix. */
bool bt_graph_rotates(const bt_graph *g, bt_rotation by);
/* The weight of the linear whose output the ADD op[at] adds. */
bt_weight bt_graph_added(const bt_graph *g, size_t at);
/* The linear that reads the tensor, from op[from] on; NULL: none does. */
const bt_op *bt_graph_reader(const bt_graph *g, uint32_t tensor, size_t from);
/* One line an operator, for people; only the first `layers` layers. */
void bt_graph_print(const bt_graph *g, FILE *to, uint32_t layers);
/* Sum over all operators under a binding. */
bt_err bt_graph_macs(uint64_t *ret, const bt_graph *g, const bt_bind *b, bt_fault *fault);
#endif
