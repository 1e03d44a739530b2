#ifndef BT_GRAPH_OP_LIST_H
#define BT_GRAPH_OP_LIST_H
#include <stdbool.h>
#include <stdint.h>

/* The one list of operators, and of the package's instructions, which are their forms. The graph and its check, the
 * walker, profiles, lowering, the check of packages, the executor, names and prices are made of it. A new operator is
 * one OP here with its FLOATS and INTEGERS, its kernels and its tests.
 *
 * A reader expands BT_OP_LIST with a macro for each kind of row, BT_OP_SKIP for those that it does not need, and puts
 * its own prefix before the words. Where a reader calls functions it does so by `name`, so that one that is missing
 * does not compile.
 *
 * OP: an operator of the graph (bt_op, graph/graph.h).
 *   inputs    how many tensors it reads
 *   in place  1: out is in[0]
 *   weight    1: it has one, a vector or a matrix; 2: a vector of weights with one of biases behind it
 *   by head   1: it works on each of `heads` parts of a row
 *   shape     what its tensors are like (bt_op_shape)
 *   beside    what it reads or writes beside its tensors and its weight (bt_op_beside)
 *   class     its word in profiles, which have whole classes on the NPU (BT_OP_CLASS_LIST); EDGE: it moves rows at the
 *             graph's edges, always on the companion
 *   price     what its time is made of (bt_op_price)
 *   run       OWN: by functions of its name. Others differ in their kernels alone, NAME in floats, int_NAME16 in
 *             integers: GATED, y = f(in[0]) * in[1], and POINT, y = f(in[0]), element by element; GATED_FLOATS, as
 *             GATED, without a form in integers; NORMED: rows through a norm, whose form in integers is a function of
 *             its name
 *
 * FLOATS: its instruction in floats, of the companion and, where it has a class, of the NPU in 16-bit floats. INTEGERS:
 * that of the NPU in integers; an operator without one runs in floats alone. EDGES: what stands where floats and
 * integers meet, and what is the driver's. Their columns are of npu/pkg/pkg_ops.h:
 *   of        the operator; NONE: of no operator
 *   number    in the package file: never changed, never used again
 *   on        the units that run it (bt_pkg_on); of edges alone
 *   in0, in1, out   what lies there (bt_pkg_form)
 *   tensor    the weight that it names (bt_pkg_tensor_rule)
 *   site      whose unit it reads or writes (bt_pkg_site_rule)
 *   params    how its multipliers are found (bt_pkg_params_rule); of integers alone
 * An instruction works in place where its operator does and in0 and out are of one form. */
#define BT_OP_SKIP(...)
// clang-format off
#define BT_OP_CLASS_LIST(CLASS)                                                                                      \
  CLASS(LINEAR,     linear)                                                                                          \
  CLASS(NORM,       norm)                                                                                            \
  CLASS(ROTARY,     rotary)                                                                                          \
  CLASS(ATTENTION,  attention)                                                                                       \
  CLASS(SUM,        sum)                                                                                             \
  CLASS(ACTIVATION, activation)                                                                                      \
  CLASS(ROTATION,   rotation)

#define BT_OP_LIST(OP, FLOATS, INTEGERS, EDGES)                                                                      \
  /*  NAME, name, inputs, in place, weight, by head, shape, beside, class, price, run                                \
   *  of, NAME, name, number, in0, in1, out, tensor, site, and params of INTEGERS, on of EDGES */                    \
  OP(EMBED,       embed,       1, 0, 1, 0, IDS,    NONE,      EDGE,       MOVED,     OWN)                            \
  FLOATS(  EMBED,       EMBED,         embed,          1, NONE,     NONE, F32,      NONE,       NONE)                \
                                                                                                                     \
  OP(RMSNORM,     rmsnorm,     1, 0, 1, 0, NORM,   NONE,      NORM,       MOVED,     NORMED)                         \
  FLOATS(  RMSNORM,     RMSNORM,       rmsnorm,        3, F32,      NONE, F32,      NORM,       NONE)                \
  INTEGERS(RMSNORM,     INT_RMSNORM,   int_rmsnorm,   66, RESIDUAL, NONE, WIDE,     NORM,       SITE,     NORM)      \
                                                                                                                     \
  OP(LAYERNORM,   layernorm,   1, 0, 2, 0, NORM,   NONE,      NORM,       MOVED,     NORMED)                         \
  FLOATS(  LAYERNORM,   LAYERNORM,     layernorm,     18, F32,      NONE, F32,      NORM,       NONE)                \
                                                                                                                     \
  OP(LINEAR,      linear,      1, 0, 1, 0, MATRIX, NONE,      LINEAR,     MATRIX,    OWN)                            \
  FLOATS(  LINEAR,      LINEAR_F16,    linear_f16,     4, F32,      NONE, F32,      F16_MATRIX, NONE)                \
  EDGES(   LINEAR,      LINEAR,        linear,        64, PLANES,   NONE, F32,      MATRIX,     SITE,     NPU)       \
  INTEGERS(LINEAR,      INT_LINEAR,    int_linear,    65, PLANES,   NONE, S16,      MATRIX,     SITE,     NONE)      \
                                                                                                                     \
  OP(QK_NORM,     qk_norm,     1, 1, 1, 1, HEADS,  NONE,      NORM,       MOVED,     OWN)                            \
  FLOATS(  QK_NORM,     QK_NORM,       qk_norm,        5, F32,      NONE, F32,      HEAD_NORM,  NONE)                \
  INTEGERS(QK_NORM,     INT_QK_NORM,   int_qk_norm,   67, S16,      NONE, S16,      HEAD_NORM,  NONE,     NORM)      \
                                                                                                                     \
  OP(ROPE,        rope,        1, 1, 0, 1, HEADS,  POSITIONS, ROTARY,     MOVED,     OWN)                            \
  FLOATS(  ROPE,        ROPE,          rope,           6, F32,      NONE, F32,      NONE,       NONE)                \
  INTEGERS(ROPE,        INT_ROPE,      int_rope,      68, S16,      NONE, S16,      NONE,       NONE,     NONE)      \
                                                                                                                     \
  OP(KV_STORE,    kv_store,    2, 0, 0, 0, STORE,  KV,        EDGE,       MOVED,     OWN)                            \
  FLOATS(  KV_STORE,    KV_STORE,      kv_store,       7, F32,      F32,  NONE,     NONE,       NONE)                \
                                                                                                                     \
  OP(ATTENTION,   attention,   2, 0, 0, 0, ATTEND, KV,        ATTENTION,  ATTENTION, OWN)                            \
  FLOATS(  ATTENTION,   ATTENTION,     attention,      8, F32,      NONE, F32,      NONE,       NONE)                \
  INTEGERS(ATTENTION,   INT_ATTENTION, int_attention, 69, S16,      NONE, S16,      NONE,       NONE,     SCORES)    \
                                                                                                                     \
  OP(ADD,         add,         2, 1, 0, 0, PAIR,   NONE,      SUM,        MOVED,     OWN)                            \
  FLOATS(  ADD,         ADD,           add,            9, F32,      F32,  F32,      NONE,       NONE)                \
  INTEGERS(ADD,         INT_ADD,       int_add,       72, RESIDUAL, S16,  RESIDUAL, SCALED,     NONE,     SUM)       \
                                                                                                                     \
  OP(SILU_MUL,    silu_mul,    2, 1, 0, 0, PAIR,   NONE,      ACTIVATION, MOVED,     GATED)                          \
  FLOATS(  SILU_MUL,    SILU_MUL,      silu_mul,      10, F32,      F32,  F32,      NONE,       NONE)                \
  INTEGERS(SILU_MUL,    INT_SILU_MUL,  int_silu_mul,  71, S16,      S16,  WIDE,     NONE,       SITE,     GATED)     \
                                                                                                                     \
  OP(GELU,        gelu,        1, 1, 0, 0, ROWS,   NONE,      ACTIVATION, MOVED,     POINT)                          \
  FLOATS(  GELU,        GELU,          gelu,          19, F32,      NONE, F32,      NONE,       NONE)                \
                                                                                                                     \
  OP(GELU_MUL,    gelu_mul,    2, 1, 0, 0, PAIR,   NONE,      ACTIVATION, MOVED,     GATED)                          \
  FLOATS(  GELU_MUL,    GELU_MUL,      gelu_mul,      20, F32,      F32,  F32,      NONE,       NONE)                \
  INTEGERS(GELU_MUL,    INT_GELU_MUL,  int_gelu_mul,  76, S16,      S16,  WIDE,     NONE,       SITE,     GATED)     \
                                                                                                                     \
  OP(CLAMP_MUL,   clamp_mul,   2, 1, 0, 0, PAIR,   NONE,      ACTIVATION, MOVED,     GATED_FLOATS)                   \
  FLOATS(  CLAMP_MUL,   CLAMP_MUL,     clamp_mul,     26, F32,      F32,  F32,      NONE,       NONE)                \
                                                                                                                     \
  OP(SELECT_ROWS, select_rows, 1, 0, 0, 0, SELECT, NONE,      EDGE,       MOVED,     OWN)                            \
  FLOATS(  SELECT_ROWS, SELECT_ROWS,   select_rows,   11, F32,      NONE, F32,      NONE,       NONE)                \
                                                                                                                     \
  OP(SOFT_CAP,    soft_cap,    1, 1, 0, 0, LOGITS, NONE,      EDGE,       MOVED,     OWN)                            \
  FLOATS(  SOFT_CAP,    SOFT_CAP,      soft_cap,      25, NONE,     NONE, NONE,     NONE,       NONE)                \
                                                                                                                     \
  OP(ROTATE,      rotate,      1, 1, 0, 1, BLOCKS, ROTATION,  ROTATION,   MOVED,     OWN)                            \
  FLOATS(  ROTATE,      ROTATE,        rotate,         2, F32,      NONE, F32,      NONE,       NONE)                \
  INTEGERS(ROTATE,      INT_ROTATE,    int_rotate,    70, S16,      NONE, WIDE,     NONE,       SITE,     TURN)      \
                                                                                                                     \
  OP(ROUTE,       route,       1, 0, 1, 0, ROUTE,  NONE,      EDGE,       MOVED,     OWN)                            \
  FLOATS(  ROUTE,       ROUTE,         route,         21, F32,      NONE, ROUTES,   NONE,       NONE)                \
                                                                                                                     \
  OP(GATHER_ROWS, gather_rows, 2, 0, 0, 0, GATHER, NONE,      EDGE,       MOVED,     OWN)                            \
  FLOATS(  GATHER_ROWS, GATHER_ROWS,   gather_rows,   22, F32,      ROUTES, F32,    NONE,       NONE)                \
                                                                                                                     \
  OP(EXPERTS,     experts,     2, 0, 1, 0, EXPERTS, NONE,     LINEAR,     MATRIX,    OWN)                            \
  FLOATS(  EXPERTS,     EXPERTS_F16,   experts_f16,   23, F32,      NONE, F32,      F16_MATRIX, NONE)                \
  EDGES(   EXPERTS,     EXPERTS,       experts,       77, PLANES,   NONE, F32,      MATRIX,     SITE,     NPU)       \
  INTEGERS(EXPERTS,     INT_EXPERTS,   int_experts,   78, PLANES,   NONE, S16,      MATRIX,     SITE,     NONE)      \
                                                                                                                     \
  OP(MIX_ROWS,    mix_rows,    2, 0, 0, 0, MIX,    NONE,      EDGE,       MOVED,     OWN)                            \
  FLOATS(  MIX_ROWS,    MIX_ROWS,      mix_rows,      24, F32,      ROUTES, F32,    NONE,       NONE)                \
                                                                                                                     \
  EDGES(   NONE,        QUANTISE,      quantise,      12, F32,      NONE, PLANES,   NONE,       SITE,     FLOATS)    \
  EDGES(   NONE,        QUANTISE32,    quantise32,    13, F32,      NONE, RESIDUAL, NONE,       NONE,     FLOATS)    \
  EDGES(   NONE,        DEQUANTISE16,  dequantise16,  14, S16,      NONE, F32,      S16_UNIT,   S16_SITE, FLOATS)    \
  EDGES(   NONE,        QUANTISE16,    quantise16,    15, F32,      NONE, S16,      S16_UNIT,   S16_SITE, FLOATS)    \
  EDGES(   NONE,        DEQUANTISE32,  dequantise32,  16, RESIDUAL, NONE, F32,      NONE,       ANY_SITE, FLOATS)    \
  EDGES(   NONE,        ROUND16,       round16,       17, F32,      NONE, F32,      NONE,       NONE,     NPU_FLOAT) \
  EDGES(   NONE,        SESSION,       session,       48, NONE,     NONE, NONE,     NONE,       NONE,     COMPANION) \
  INTEGERS(NONE,        INT_SPLIT,     int_split,     73, WIDE,     NONE, PLANES,   NONE,       SITE,     NONE)
// clang-format on

/* The operators, with what their tensors are:
 *   EMBED        in[0] ids -> rows of the embedding
 *   RMSNORM, LAYERNORM, LINEAR   in[0] through the weight, LINEAR with its bias
 *   QK_NORM      rmsnorm of each head, or of the row as one (heads 1), in place
 *   ROPE         by each row's position, in place
 *   KV_STORE     in[0] k, in[1] v -> kv; rounds; rows of real tokens only
 *   ATTENTION    in[0] q, in[1] kv; causal; with the layer's sinks where it has them
 *   ADD          in[0] + in[1], in place
 *   SILU_MUL     silu(in[0]) * in[1], in place: gate and up
 *   GELU         gelu(in[0]), in place: up, where there is no gate
 *   GELU_MUL     gelu(in[0]) * in[1], in place
 *   CLAMP_MUL    the clamped SwiGLU of in[0] and in[1] (bt_clamp_mul_fn), in place
 *   SOFT_CAP     tanh(in[0] / logit_cap) * logit_cap, in place: the logits
 *   SELECT_ROWS  the last real row of each sequence, or all rows
 *   ROTATE       rotates each of `heads` blocks, in place
 *   ROUTE        in[0] through the router -> the routes of each row: the experts that it chose, with their weights
 *   GATHER_ROWS  a copy of a row of in[0] for each expert that it chose by in[1], ordered by expert, then by row
 *   EXPERTS      rows of in[0], which GATHER_ROWS ordered, each through its expert's matrix of the weight
 *   MIX_ROWS     the sum of the rows of in[0] that were one row before GATHER_ROWS, times their weights */
#define BT_OP_KIND(NAME, ...) BT_OP_##NAME,
typedef enum bt_op_kind {
    BT_OP_LIST(BT_OP_KIND, BT_OP_SKIP, BT_OP_SKIP, BT_OP_SKIP) BT_OP_KINDS,
    BT_OP_NONE = BT_OP_KINDS /* of an instruction: no operator's */
} bt_op_kind;
#undef BT_OP_KIND

/* The classes of operators. Each is one word in profiles: operators of a class run on a device alike. */
#define BT_OP_CLASS_NUMBER(NAME, name) BT_CLASS_##NAME,
typedef enum bt_op_class { BT_CLASS_EDGE, BT_OP_CLASS_LIST(BT_OP_CLASS_NUMBER) BT_OP_CLASSES } bt_op_class;
#undef BT_OP_CLASS_NUMBER
const char *bt_op_class_name(bt_op_class c); /* "linear", "norm", ...; "edge" */

/* The shape of an operator's tensors. By head, a row is `heads` parts. */
typedef enum bt_op_shape {
    BT_SHAPE_ROWS,    /* rows to rows of one width; of instructions that are no operator's too */
    BT_SHAPE_IDS,     /* ids to rows that the weight makes of them */
    BT_SHAPE_NORM,    /* rows of the model's width, through a vector */
    BT_SHAPE_MATRIX,  /* rows of k to rows of n, or to logits */
    BT_SHAPE_HEADS,   /* rows of heads of head_dim */
    BT_SHAPE_STORE,   /* k and v to the layer's KV */
    BT_SHAPE_ATTEND,  /* rows of queries, and the layer's KV, to rows alike */
    BT_SHAPE_PAIR,    /* two tensors alike */
    BT_SHAPE_SELECT,  /* rows of SEQ to rows of OUT */
    BT_SHAPE_LOGITS,  /* the caller's logits */
    BT_SHAPE_BLOCKS,  /* rows of blocks alike */
    BT_SHAPE_ROUTE,   /* rows of the model's width to routes */
    BT_SHAPE_GATHER,  /* rows, and routes, to a row for each expert of a row */
    BT_SHAPE_EXPERTS, /* a row for each expert of a row, and routes, to rows of n */
    BT_SHAPE_MIX,     /* a row for each expert of a row, and routes, to rows */
} bt_op_shape;
/* Memory that an operator reads or writes beside its tensors and its weight: tables of positions, a rotation's matrix,
 * KV. */
typedef enum bt_op_beside { BT_BESIDE_NONE, BT_BESIDE_POSITIONS, BT_BESIDE_ROTATION, BT_BESIDE_KV } bt_op_beside;
/* The basis of an operator's price: a product of matrices, attention over its columns, or the bytes that it moves. */
typedef enum bt_op_price { BT_PRICED_MOVED, BT_PRICED_MATRIX, BT_PRICED_ATTENTION } bt_op_price;

typedef struct bt_op_info { /* a row of OP */
    const char *name;
    uint8_t inputs;
    bool in_place, has_weight, by_head;
    uint8_t shape, beside; /* bt_op_shape, bt_op_beside */
    uint8_t class;         /* bt_op_class */
    uint8_t price;         /* bt_op_price */
    uint8_t vectors;       /* of a norm's weight, each as long as the row */
} bt_op_info;
extern const bt_op_info bt_op_infos[BT_OP_KINDS];
const char *bt_op_name(bt_op_kind k); /* "embed", "linear", ...; "?" */
#endif
