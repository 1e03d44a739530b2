#ifndef BT_NPU_PKG_FORMAT_H
#define BT_NPU_PKG_FORMAT_H
#include <stdbool.h>
#include <stdint.h>
#include "graph/op_list.h"
#include "model/model.h"

/* The package file as C structures; docs/package-format.md describes it byte by byte. The file is little-endian and
 * mapped as it is: every structure has one size on every machine (static assertions in pkg_names.c) and no hidden
 * padding. pkg_check.c checks all of it before anything else reads it.
 *
 *   header | constants, each at a multiple of 64 | tables, each at a multiple of 64
 *
 * Constants with equal bytes are stored once, found by their hash. Tables name constants by index. */
#define BT_PKG_MAGIC   "BATONNPU"
#define BT_PKG_NONE    UINT32_MAX /* an index that names nothing */
#define BT_PKG_NOWHERE UINT64_MAX /* an operand that is not in the arena */
enum { BT_PKG_VERSION = 5, BT_PKG_ALIGN = 64 };
/* The limits of a package, each far above what a real one needs; a package beyond one is refused. LIVE: places of one
 * plan alive at once. ALL_INSTS: instructions and places over all programs, which bounds the time of the check.
 * UNPACKED: instructions and places that are unpacked into memory. */
enum {
    BT_PKG_MAX_CONSTS = 1 << 18,
    BT_PKG_MAX_ROWS = 4096,
    BT_PKG_MAX_PROGRAMS = 12288,
    BT_PKG_MAX_INSTS = 1 << 16,
    BT_PKG_MAX_PLACES = 1 << 16,
    BT_PKG_MAX_LIVE = 64,
    BT_PKG_MAX_ALL_INSTS = 1 << 24,
    BT_PKG_MAX_UNPACKED = 1 << 21,
    BT_PKG_MAX_FALLBACKS = 4096,
    BT_PKG_MAX_SESSIONS = 4096,
    BT_PKG_MAX_GROUP = 4,
    BT_PKG_MAX_BATCH = 1024,
};
#define BT_PKG_MAX_ARENA_BYTES (UINT64_C(1) << 40)

typedef struct bt_pkg_table {
    uint64_t offset;
    uint32_t count, elem_bytes;
} bt_pkg_table;

enum { BT_PKG_ROUND_HALF_UP = 1 }; /* floor(x + 1/2), one rounding */
enum { BT_PKG_OPS_LINEAR = 0, BT_PKG_OPS_ALL = 1 };
enum { BT_PKG_FLAG_NEOX = 1, BT_PKG_FLAG_QKV_BIAS = 2, BT_PKG_FLAG_QK_NORM = 4, BT_PKG_FLAG_TIED = 8 };

typedef struct bt_pkg_rotation { /* a rotation of bt_edge_rotate_fn; base 0: there is none */
    uint32_t base, log2;
    uint32_t h_base; /* constant: s8 [base, base]; NONE where base is 1 */
    uint32_t sign;   /* constant: s8 [base << log2], or NONE */
    float scale;
    uint32_t blocks; /* blocks of base << log2 elements in a row */
} bt_pkg_rotation;

/* The demands of the device's profile on layout (docs/profiles.md describes each field); 0: nothing. The programs'
 * strides, slices, parts and loop orders follow from it (npu/pkg/pkg_layout.h). */
typedef struct bt_pkg_layout { /* 48 bytes */
    uint64_t on_chip_bytes;
    uint32_t last_axis_align_bytes; /* a power of two */
    uint32_t query_slice_rows, attention_heads_max, output_parts;
    uint32_t tile_rows, tile_cols, tile_input_rows;
    uint32_t state_pow2, state_multiple; /* state_pow2: 0 or 1 */
    uint32_t reserved;
} bt_pkg_layout;

typedef struct bt_pkg_header { /* 1,024 bytes */
    char magic[8];
    uint32_t version, header_bytes;
    uint64_t file_bytes;
    /* XXH3-128 of the header with this field zero, then all tables; constants count by their hashes */
    uint8_t digest[16];
    uint8_t model_id[16];     /* bt_model.id */
    uint32_t kernels_version; /* BT_KERNELS_NUMERIC_VERSION */
    uint32_t rounding, npu_ops, flags;
    uint32_t arch, layers, dim, ffn, heads, kv_heads, head_dim, vocab, ctx_tokens, rope_dims;
    float rms_eps, attn_scale;           /* attn_scale: of attention's scores */
    float rope_base, rope_scale;         /* for people; programs use rope_cos and rope_sin */
    uint32_t embed_type;                 /* ggml type of the embedding's rows */
    uint32_t embed;                      /* constant: [vocab, dim], the model file's own bytes */
    uint32_t rope_cos, rope_sin;         /* constants: f32 [tables, ctx_tokens, rope_dims / 2]; the second table is that
                                            of window layers, where window_rope_base is not 0 */
    uint32_t rope_cos_q15, rope_sin_q15; /* npu_ops all: constants, s16, cos and sin in units of 2^-15, at most 32767;
                                            else NONE */
    bt_pkg_rotation r1, r2;
    float residual_scale;   /* npu_ops all: unit of the s32 residual stream; else 0 */
    uint32_t max_seq;       /* the greatest batch * seq of any row */
    uint64_t arena_bytes;   /* the greatest peak of any program */
    uint64_t weights_bytes; /* of constants of kind WEIGHT */
    uint64_t calib_tokens;
    bt_pkg_table consts, tensors, sites, rows, programs, fallbacks, sessions;
    char model_name[128], recipe[128], shape_policy[128], profile[64]; /* NUL-terminated, zero-filled. bt_pkg_recipe
                                                                          reads the recipe */
    bt_pkg_layout layout;
    /* Constants that hold the bodies of packed programs (bt_pkg_piece): bt_pkg_inst[], bt_pkg_place[], and u32[] or 0.
       All 0: every program holds its own instructions */
    uint32_t body_code, body_plan, body_params;
    /* float_form: bt_round16 (kernels/round16.h), the floats of what the NPU runs in floats; 0: nothing. rope_cos16,
       rope_sin16: constants, rope_cos and rope_sin rounded to float_form, where the NPU rotates q and k in floats; else
       0 */
    uint32_t float_form, rope_cos16, rope_sin16;
    /* Sparse attention (npu/pkg/attention.h); all 0: attention is dense. Rows below position sparse_dense_rows attend
       densely. The other rows keep the shares of sparse_heads; the estimate reads q and K rotated by sparse_rotation */
    uint32_t sparse_ppm, sparse_dense_rows;
    uint32_t sparse_heads; /* constant: bt_pkg_head [layers, heads] */
    bt_pkg_rotation sparse_rotation;
    bt_pkg_rotation r4;                      /* of the input of down; all 0: there is none */
    uint32_t sparse_rows_log2, sparse_group; /* 2^sparse_rows_log2 rows share a choice; sparse_group 1: the query heads
                                                of a KV head share one */
    uint32_t recipe_text;                    /* constant: a recipe too long for `recipe`, which is then empty; else 0 */
    float embed_scale, add_scale;            /* of the embedding's rows, and of what ADD adds; 1: as they are */
    union {
        struct {
            BT_RULE_LIST(BT_RULE_MEMBER)
        };
        bt_rules rules; /* the same members (model/model.h) */
    };
    /* Experts (below); all 0: layers have none. A row chooses experts_used of `experts`. routers: constant, f32
       [layers, experts, dim]. expert_sites: constant, bt_pkg_expert [layers][2][experts], of the inputs of gate and up,
       then of down */
    uint32_t experts, experts_used, routers, expert_sites;
    /* Constants, or 0. router_bias: f32 [layers, experts], added to the routers' scores. sinks: f32 [layers, heads], of
       attention, which is then the companion's */
    uint32_t router_bias, sinks;
    uint8_t reserved[36]; /* zero */
} bt_pkg_header;
/* A layer's window (0: it sees all positions), and where its table begins in rope_cos and rope_sin, in elements. */
uint32_t bt_pkg_window(const bt_pkg_header *h, uint32_t layer);
uint64_t bt_pkg_rope_at(const bt_pkg_header *h, uint32_t layer);
uint32_t bt_pkg_rope_tables(const bt_pkg_header *h);

/* Experts. Where a package has them, gate, up and down of each layer are `experts` matrices of n x k each, and each
 * constant of the tensor has that of expert e behind that of expert e - 1. Bits, shadow, hot columns and pruned of the
 * inputs are the site's, scales and zero points each expert's own.
 *
 * A device has the programs of an expert for 1, 2, 4 .. rows, and for as many as the program has
 * (bt_pkg_expert_rows). Rows are gathered by expert. The rows of an expert run in the smallest of its programs that
 * holds them; a row chooses an expert once, so there always is one. */
typedef struct bt_pkg_expert { /* 16 bytes */
    float scale, inv_scale;    /* as of a site */
    uint32_t rows;             /* so many rows of the calibration chose the expert */
    int16_t zero;              /* as of a site */
    uint16_t is_rare; /* 1: fewer than BT_PKG_EXPERT_ROWS rows, so the numbers are the site's, which are those of
                         the layer's experts together */
} bt_pkg_expert;
enum { BT_PKG_EXPERT_ROWS = 32 };
/* The rows of the smallest program of an expert that holds so many of a program of seq rows; 0 for 0. */
uint32_t bt_pkg_expert_rows(uint32_t seq, uint32_t rows);
/* Whether a weight (bt_weight) is the experts', and how many matrices it is: experts, or 1. */
bool bt_pkg_is_of_experts(const bt_pkg_header *h, uint32_t weight);
uint32_t bt_pkg_matrices(const bt_pkg_header *h, uint32_t weight);

/* How a query head chooses positions in sparse attention. */
typedef struct bt_pkg_head { /* 16 bytes */
    uint32_t ppm;            /* the head's share of positions in millionths, 1 to 1,000,000 */
    float q_scale, k_scale;  /* units of the rotated q and of the KV head's rotated K in 8 bits, in [2^-100, 2^100] */
    float recall; /* share of the exact choice that the estimate finds on the calibration; NaN: not measured */
} bt_pkg_head;

/* The kind as which a constant was first added: a label for people. weights_bytes sums the constants of kind WEIGHT
 * (panels and the embedding); the check of programs asks for CODE, PLAN and PIECES. */
typedef enum bt_pkg_const_kind {
    BT_PKG_CONST_WEIGHT = 1,
    BT_PKG_CONST_SCALE,
    BT_PKG_CONST_VECTOR,
    BT_PKG_CONST_TABLE,
    BT_PKG_CONST_CODE,
    BT_PKG_CONST_PLAN,
    BT_PKG_CONST_PIECES,
} bt_pkg_const_kind;
typedef struct bt_pkg_const {
    uint64_t offset, bytes;
    uint8_t hash[16];
    uint32_t kind, refs;
} bt_pkg_const; /* 40 bytes; hash: XXH3-128 of the bytes; refs: how often the header, tensors, sites and programs name
                   the constant */

/* Order of the tables. Tensors: index layer * BT_PKG_LAYER_TENSORS + slot, with thirteen slots a layer: attn_norm, q,
 * k, v, q_norm, k_norm, o, ffn_norm, gate, up, down, attn_post_norm, ffn_post_norm; then out_norm and output. A tensor
 * that the package lacks (a norm folded away, no q_norm in the model) has n = 0. Sites: index layer *
 * BT_PKG_LAYER_SITES + kind, then the head's. */
enum { BT_PKG_LAYER_TENSORS = 13, BT_PKG_LAYER_SITES = 4 };
/* The index of an entry; NONE for what has none (the embedding, an unknown number). layer is ignored for out_norm,
 * output and the head's site. */
uint32_t bt_pkg_tensor_index(uint32_t layers, uint32_t layer, uint32_t weight /* bt_weight */);
uint32_t bt_pkg_site_index(uint32_t layers, uint32_t layer, uint32_t kind /* bt_site_kind */);
uint32_t bt_pkg_site_of(uint32_t weight);    /* bt_site_kind of a matrix's input; NONE: no matrix */
uint32_t bt_pkg_site_after(uint32_t weight); /* bt_site_kind behind a norm of the residual stream; NONE: no such norm */
/* Elements of a row of a site's input. q_width: heads * head_dim. */
uint32_t bt_pkg_site_width(uint32_t kind, uint32_t dim, uint32_t q_width, uint32_t ffn);

/* A weight: a matrix with its quantisation, or a vector. An absent tensor has layer, weight, NONE for each index, and
 * zeros. */
typedef struct bt_pkg_tensor { /* 96 bytes */
    uint32_t layer, weight;    /* weight: bt_weight; layer: UINT32_MAX outside layers */
    uint32_t n, k;             /* outputs and inputs; vector: k = 1; Q_NORM, K_NORM: n = head_dim, or the whole
                                  row where the architecture norms that */
    uint32_t site;             /* of the input; NONE for vectors and 16-bit matrices */
    uint32_t bits; /* 8 or 4: integer panels; 16: f16 panels (kernels.h); 32: f32 vector; with palettes 4 or 6, the bits
                      of an index */
    uint32_t panels; /* constant: integer panels, f16 panels, or f32 [n] of a vector */
    uint32_t wscale; /* constant: f32 [n], or [1] with one scale for the matrix */
    uint32_t oscale; /* constant: f32 [16 * panels], scale of the site times wscale, rounded once */
    uint32_t bias;   /* constant: f32 [n], or NONE */
    uint32_t colsum; /* constant: s32 [16 * panels], sums of each output's weights; with groups [2][16 * panels], of the
                        low planes and of the high planes (int_kernels.h) */
    uint32_t mult, shift, bias_q; /* npu_ops all: constants s32, u8, s64 [16 * panels], the multiplier mult / 2^shift
                                     and the bias of the integer output; else NONE. bias_q includes what takes off the
                                     site's zero point: zero times the sum of the output's weights */
    uint32_t norm_q;              /* npu_ops all, norm vectors: constant s32 [n] (int_ops.h); else NONE */
    int32_t norm_shift;
    float out_scale;     /* npu_ops all: unit of the s16 output; 0 without npu_ops all, and for the output matrix */
    uint32_t f16_panels; /* constant: f16 panels for llm-int8; else NONE */
    float weight_error, output_error; /* relative RMS error: of the weights; of the output on the calibration. NaN: not
                                         measured */
    uint32_t out_bits;                /* npu_ops all: 16 or 8 */
    uint32_t group;                   /* inputs that share a step and an offset: 32, 64 or 128; 0: no groups */
    uint32_t groups;      /* with groups: constant, bt_int_group [panels][k / group] (int_kernels.h); with palettes:
                             constant, s8 [panels][k / palette_run][2^bits]; else 0 */
    uint32_t palette_run; /* inputs that share a palette: 32, 64, 128 or k; 0: no palettes */
} bt_pkg_tensor;

extern const bt_pkg_tensor bt_pkg_no_tensor; /* an absent tensor, with layer and weight zero */

/* An input of linears that is quantised: the input of q, k and v; of o; of gate and up; of down; of the head. A site
 * that nothing on the NPU uses has layer, kind, hot NONE, and zeros. */
typedef struct bt_pkg_site {  /* 64 bytes */
    uint32_t layer, kind;     /* bt_site_kind; layer UINT32_MAX for the head */
    uint32_t bits, shadow, k; /* 8 or 16; bt_shadow_kind; elements of a row */
    /* scale = clip / 127 with 8 bits, clip / 32639 with 16, or coarser (npu/quant/sites.h); inv_scale = 1 / scale,
       rounded once */
    float scale, inv_scale;
    float clip, max, rms;  /* on the calibration: the clip, the greatest magnitude, the RMS; asymmetric: clip is the
                              greater end of the clipped range */
    float input_error;     /* relative RMS error of the quantised input on the calibration, shadow added */
    float outlier_columns; /* share of the columns that have a value beyond the clip */
    uint32_t hot;          /* shadow=channel: constant u8 [k], 1: the shadow keeps this column; else NONE */
    uint32_t pruned;       /* 1: this site has no shadow, whatever the recipe says */
    float a16_scale;     /* o site: unit of attention's s16 output where that is converted from or to floats; else 0 */
    int16_t zero;        /* asymmetric: the zero point, which stands for the value 0, in [-128, 127]; else 0 */
    uint16_t asymmetric; /* 1: inputs of 8 bits have a zero point and go from -128 to 127 (bt_int_range); else 0 */
} bt_pkg_site;

typedef struct bt_pkg_row {            /* 32 bytes: a specialization */
    uint32_t batch, seq_min, seq, ctx; /* seq_min < seq: any number of rows from seq_min to seq (range) */
    uint32_t program[3];               /* by bt_pkg_out */
    uint32_t reserved;
} bt_pkg_row;
typedef enum bt_pkg_out { BT_PKG_OUT_NONE, BT_PKG_OUT_LAST, BT_PKG_OUT_ALL, BT_PKG_OUTS } bt_pkg_out;

typedef struct bt_pkg_program { /* 64 bytes */
    uint32_t code, insts;  /* constant: bt_pkg_inst[insts], or the bt_pkg_piece[] that unpack to these instructions */
    uint32_t plan, places; /* constant: bt_pkg_place[places]; NONE where code is pieces, which name the places too */
    uint32_t seq, out, clusters; /* seq: batch * seq of the row. out: 0, batch or seq. clusters: of the NPU */
    uint32_t ctx; /* columns that attention computes at every position, for a device whose context is static; 0: as many
                     as there are positions */
    uint64_t arena_bytes;              /* peak of the plan, a multiple of 64 */
    uint64_t npu_macs, companion_macs; /* for seq rows, without attention, whose work depends on the position */
    uint64_t activation_bytes_moved;   /* for seq rows: what all instructions read and write, by their strides
                                          (docs/package-format.md) */
} bt_pkg_program;
/* The columns that attention of a layer computes at every position: program.ctx, or with a window at most those that
 * the program's rows see together. 0: as many as there are positions. */
uint32_t bt_pkg_columns(const bt_pkg_header *h, const bt_pkg_program *p, uint32_t layer);

/* Packed programs. Each distinct layer body is stored once, and a program is a list of pieces. A piece is a run of
 * instructions in body_code with the places of body_plan that begin in that run. In a body
 *
 *   tensor, site   in a layer: the slot in the layer (BT_PKG_LAYER_TENSORS, BT_PKG_LAYER_SITES); outside: the index
 *   layer          0 in a layer, which unpacking replaces by the piece's layer; else UINT32_MAX
 *   cluster        0, or a number that the piece's `cluster` is added to
 *   params         0, BT_PKG_NONE, or 1 + an index in body_params that the piece's `params` is added to; SESSION: ns
 *   first_inst, last_inst   of a place: counted from the piece's first instruction; a value may outlive its piece */
typedef struct bt_pkg_piece { /* 32 bytes */
    uint32_t inst, insts;     /* first and count, in body_code */
    uint32_t place, places;   /* first and count, in body_plan */
    uint32_t layer;           /* UINT32_MAX outside layers */
    uint32_t cluster, params;
    uint32_t reserved;
} bt_pkg_piece;

/* Names in a memory plan: the graph's tensors, and what quantisation adds. PLANES: s8 or the hi plane. LO: the lo
 * plane. SHADOW: counts and entries. WIDE: s32 on the way to planes. KF, VF: k and v converted to f32 (npu_ops all). */
typedef enum bt_pkg_value {
    BT_PKG_VALUE_X = 1,
    BT_PKG_VALUE_N,
    BT_PKG_VALUE_Q,
    BT_PKG_VALUE_K,
    BT_PKG_VALUE_V,
    BT_PKG_VALUE_A,
    BT_PKG_VALUE_O,
    BT_PKG_VALUE_F,
    BT_PKG_VALUE_GATE,
    BT_PKG_VALUE_UP,
    BT_PKG_VALUE_D,
    BT_PKG_VALUE_S,
    BT_PKG_VALUE_SN,
    BT_PKG_VALUE_PLANES,
    BT_PKG_VALUE_LO,
    BT_PKG_VALUE_SHADOW,
    BT_PKG_VALUE_WIDE,
    BT_PKG_VALUE_KF,
    BT_PKG_VALUE_VF,
    BT_PKG_VALUE_OTHER,
    BT_PKG_VALUES
} bt_pkg_value;
const char *bt_pkg_value_name(uint32_t v); /* "x", "gate", "planes", ...; "?" */

/* A place is the memory of one value, from the instruction that first writes the value to the last instruction that
 * names it. Places alive together never overlap. Every operand of an instruction lies in a place alive there. */
typedef struct bt_pkg_place {
    uint32_t name, first_inst, last_inst, reserved;
    uint64_t offset, bytes;
} bt_pkg_place; /* 32 bytes; name: bt_pkg_value */

/* NPU: the NPU in integers. NPU_FLOAT: the NPU in 16-bit floats, with the companion's operators and conversions. The
 * rows that NPU_FLOAT reads and writes hold values of float_form, each rounded once; in the arena they lie as f32. */
typedef enum bt_pkg_unit { BT_PKG_COMPANION, BT_PKG_NPU, BT_PKG_NPU_FLOAT, BT_PKG_UNITS } bt_pkg_unit;
const char *bt_pkg_unit_name(uint32_t unit);        /* "companion", "npu", "npu_float"; "?" */
const char *bt_pkg_float_name(uint32_t float_form); /* "none", "float16", "bfloat16"; "?" */

/* The loop order of a linear that moves least between memory and chip (device/on_chip.h), where on_chip_bytes bounds
 * the chip. WEIGHTS: weights stay on the chip while all inputs pass. INPUTS: inputs stay while all weights pass. The
 * order is for whoever builds a program for the device; it changes no bit. */
typedef enum bt_pkg_order { BT_PKG_ORDER_NONE, BT_PKG_ORDER_WEIGHTS, BT_PKG_ORDER_INPUTS, BT_PKG_ORDERS } bt_pkg_order;

/* The instructions. Their numbers stand in graph/op_list.h, the forms of what each reads and writes in
 * npu/pkg/pkg_ops.h.
 *
 * In floats, numbers 1 to 11 and 18 to 24: the operators of bt_op_kind, in0, in1 -> out, f32 rows of the companion, or
 * of the NPU on NPU_FLOAT:
 *   ROTATE        arg: a bt_rotation (model/weight.h); R1 runs on the companion only
 *   RMSNORM       tensor: the weight (NONE: all weights are 1)
 *   LAYERNORM     the same, with as many biases behind the weights (NONE: 0)
 *   LINEAR_F16    tensor with 16 bits: a linear that is not in integers; arg on NPU_FLOAT as LINEAR's
 *   ROPE, QK_NORM   arg: heads
 *   KV_STORE      in0 = k, in1 = v
 *   ATTENTION     in0 = q; arg: the slice (npu/pkg/pkg_layout.h); all slices follow each other
 *   SELECT_ROWS   elements of 4 bytes of any type
 *   ROUTE         out: routes (graph/companion.h), by the layer's router
 *   GATHER_ROWS   in1: routes; out: rows by expert
 *   EXPERTS_F16   LINEAR_F16 of rows by expert
 *   MIX_ROWS      in0: rows by expert; in1: routes
 *
 * Conversions between the companion and the NPU. The unit of an s16 is the output scale of `tensor`, or a16_scale of
 * `site` (the o site, for attention's output); the other one is NONE. The unit of an s32 is the scale of `site`, or
 * residual_scale where site is NONE:
 *   QUANTISE      in0 -> out: s8 plane, or hi plane with the lo plane at in1; site. out_stride: a multiple of 64. aux,
 *                 where the site has a shadow: u32 counts [rows], padded to 64 bytes, then bt_int_shadow [rows,
 *                 in_width]
 *   QUANTISE32    in0 -> out s32 of the residual stream: rint(x / unit)
 *   DEQUANTISE16  in0 s16 -> out: float(q) * unit
 *   QUANTISE16    in0 -> out s16: rint(x / unit), clamped to +-32639
 *   DEQUANTISE32  in0 s32 -> out: float(q) * unit
 *   ROUND16       NPU_FLOAT only: rounds to float_form
 *   LINEAR        in0 (planes, aux as QUANTISE wrote them) -> out f32, by the companion's epilogue; tensor; arg: the
 *                 loop order and the part of the output matrix (npu/pkg/pkg_layout.h)
 *   EXPERTS       LINEAR of rows by expert
 *
 * For the device's driver:
 *   SESSION       the device maps session `arg` in place of the session before; params: the cost in ns. No operands, no
 *                 layer. A package with one session has no SESSION
 *
 * In integers:
 *   INT_LINEAR, INT_EXPERTS   as LINEAR and EXPERTS -> out s16 (requantised)
 *   INT_RMSNORM    in0 s32 -> out s32 in units of site's scale; tensor
 *   INT_ROPE, INT_QK_NORM   s16 in place; arg: heads
 *   INT_ATTENTION  in0 = q s16 -> out s16; arg: as ATTENTION
 *   INT_ROTATE     in0 s16 -> out s32 in units of site's scale; arg 2: rotation R2; 0: the unit alone changes
 *   INT_SILU_MUL, INT_GELU_MUL   in0 gate, in1 up, s16 -> out s32 in units of site's scale
 *   INT_ADD        out s32 in place += in1 s16, requantised; tensor: the linear that wrote in1
 *   INT_SPLIT      in0 s32 -> planes and shadow, as QUANTISE; site */
#define BT_PKG_NUMBER(OF, NAME, name, number, ...) BT_PKG_##NAME = number,
typedef enum bt_pkg_op { BT_OP_LIST(BT_OP_SKIP, BT_PKG_NUMBER, BT_PKG_NUMBER, BT_PKG_NUMBER) } bt_pkg_op;
#undef BT_PKG_NUMBER
const char *bt_pkg_op_name(bt_pkg_op op); /* "embed", "int_linear", ...; "?" */

/* One step of a program. Values in the arena are rows of `stride` bytes. Rows of planes have a multiple of 64 bytes;
 * all others have exactly the bytes of their elements. Both are rounded up as the layout says (npu/pkg/pkg_layout.h).
 * in0 and in1 have in_stride, in place too; out and its lo plane have out_stride.
 *
 * An operand was written by an earlier instruction, in the form and shape in which it is read, and has not been
 * overwritten. Planes can be read only until the next planes are made. In place: in0 == out. Operands that are not in
 * place do not overlap. */
typedef struct bt_pkg_inst {           /* 88 bytes */
    uint8_t op, unit, group, out_rows; /* group: of linears, this and the next group - 1 share in0 and may run as one,
                                          in any order; else 1. out_rows: 1: rows of OUT, 0: rows of SEQ,
                                          1 + n: n rows for each row of SEQ, those of its experts */
    uint32_t layer;                    /* UINT32_MAX outside layers */
    uint32_t tensor, site;             /* or NONE */
    uint32_t arg, cluster;
    uint32_t in_width, out_width; /* elements of a row */
    uint64_t in0, in1, out, aux; /* byte offsets in the arena, multiples of 64; NOWHERE: not in the arena. A LINEAR with
                                    out NOWHERE writes the caller's logits; KV_STORE has no out, EMBED no in0 */
    uint64_t params; /* INT_*: constant index of the bt_pkg_int_params, or BT_PKG_NONE; SESSION: ns; else 0 */
    uint32_t in_stride, out_stride; /* bytes of a row */
    uint64_t macs_per_row;
} bt_pkg_inst;

/* Bytes of a shadow at aux: the counts alone; counts and entries (8 bytes each). rows < 2^21 and k < 2^18, so nothing
 * overflows. */
static inline uint64_t bt_pkg_shadow_counts_bytes(uint64_t rows) { return (rows * 4 + 63) / 64 * 64; }
static inline uint64_t bt_pkg_shadow_bytes(uint64_t rows, uint64_t k)
{
    return bt_pkg_shadow_counts_bytes(rows) + rows * k * 8;
}

/* Multipliers m[i] / 2^s[i] of an integer operator, in the names of kernels/int_ops.h. 64 bytes.
 *   INT_RMSNORM           m[0]: w1 where tensor is NONE; s[0]: f; eps: keps
 *   INT_QK_NORM           s[0]: f; eps: keps
 *   INT_ATTENTION         m[0]: logit; m[1]: out; k_shift, v_shift
 *   INT_SILU_MUL, INT_GELU_MUL   m[0]: gate; m[1]: out
 *   INT_ADD, INT_ROTATE   m[0]: mul
 *   INT_ROPE, INT_SPLIT, INT_LINEAR, INT_EXPERTS   none
 * Rows by expert have so many for each expert, one behind the other. */
typedef struct bt_pkg_int_params {
    int32_t m[4];
    uint8_t s[4];
    int32_t k_shift, v_shift;
    uint32_t zero;
    int64_t eps;
    uint8_t reserved[24];
} bt_pkg_int_params;

typedef struct bt_pkg_fallback {
    char op[24];
    char why[96];
    uint32_t count, layers; /* count: operators of the graph; layers: that have any of them, 0: outside layers */
    uint64_t macs_per_row;
} bt_pkg_fallback; /* 136 bytes */
/* The layers that the device maps together; `layers` as a number stands for the output matrix. Where there are several
 * sessions, a program maps each by a SESSION before its first NPU instruction of the session's layers. */
typedef struct bt_pkg_session {
    uint32_t first_layer, last_layer;
    uint64_t mapped_bytes; /* of weights, each constant once, and of one arena */
} bt_pkg_session;          /* 16 bytes */
#endif
