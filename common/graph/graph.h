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
 * decode side to seq = 1 with ctx left a symbol. The description of an architecture stands in model/arch.h; the steps
 * of its layers are made here.
 *
 *   BATCH  sequences in one run
 *   SEQ    rows of one sequence in one run
 *   CTX    KV positions that attention may see
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
    bool rotate_ffn;       /* R4: the input of down, each row as one block */
} bt_graph_options;

/* One description for all architectures: biases come with the weights, the columns of model/arch.h choose the steps.
 * options NULL: no rotation. The result is checked (bt_graph_check). */
bt_err bt_graph_build(bt_graph **ret, const bt_hparams *hp, const bt_graph_options *options, bt_fault *fault);
void bt_graph_free(bt_graph *g); /* NULL is fine */
/* Every operand exists, has the shape its operator needs and is written before it is read; layers ascend. */
bt_err bt_graph_check(const bt_graph *g, bt_fault *fault);
/* Whether the graph has a ROTATE by this matrix. */
bool bt_graph_rotates(const bt_graph *g, bt_rotation by);
/* Numbers of a row of routes (graph/companion.h). */
uint32_t bt_graph_route_width(const bt_hparams *hp);
/* The weight of the linear whose output the ADD op[at] adds; NONE: it adds what a norm made. */
bt_weight bt_graph_added(const bt_graph *g, size_t at);
/* Whether the operator is a product with matrices: LINEAR or EXPERTS. */
static inline bool bt_op_is_linear(const bt_op *o) { return bt_op_infos[o->kind].price == BT_PRICED_MATRIX; }
/* Whether the tensor has a row for each expert that a row chose. */
bool bt_graph_is_by_expert(const bt_graph *g, uint32_t tensor);
/* The linear that reads the tensor, from op[from] on; NULL: none does. EXPERTS are linears too. */
const bt_op *bt_graph_reader(const bt_graph *g, uint32_t tensor, size_t from);
/* One line an operator, for people; only the first `layers` layers. */
void bt_graph_print(const bt_graph *g, FILE *to, uint32_t layers);
/* The multiply-accumulates of all operators under a binding. */
bt_err bt_graph_macs(uint64_t *ret, const bt_graph *g, const bt_bind *b, bt_fault *fault);
#endif
