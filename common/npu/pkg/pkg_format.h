#ifndef BT_NPU_PKG_FORMAT_H
#define BT_NPU_PKG_FORMAT_H
#include <stdint.h>
#include "graph/op_list.h"

/* The package file, as C structures: what docs/package-format.md says byte by byte. Little-endian, mapped as it is;
 * every structure has one size on every machine (static assertions in pkg_names.c) and no hidden padding. Nothing here
 * is trusted before pkg_check.c has looked at it.
 *
 *   header | constants, each at a multiple of 64 | tables, each at a multiple of 64
 *
 * A constant is stored once, whatever names it (by content hash). Tables refer to constants by index; BT_PKG_NONE:
 * there is none. */
#define BT_PKG_MAGIC   "BATONNPU"
#define BT_PKG_NONE    UINT32_MAX
#define BT_PKG_NOWHERE UINT64_MAX /* an operand that is not in the arena */
enum { BT_PKG_VERSION = 1, BT_PKG_ALIGN = 64 };
/* A package past one of these is refused; each far above what a real one needs. LIVE: places of one plan alive at once;
 * ALL_INSTS: instructions and places over all programs, so that a small file cannot keep the check busy for long.
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

enum { BT_PKG_ROUND_HALF_UP = 1 }; /* floor(x + 1/2), single */
enum { BT_PKG_OPS_LINEAR = 0, BT_PKG_OPS_ALL = 1 };
enum { BT_PKG_FLAG_NEOX = 1, BT_PKG_FLAG_QKV_BIAS = 2, BT_PKG_FLAG_QK_NORM = 4, BT_PKG_FLAG_TIED = 8 };

typedef struct bt_pkg_rotation { /* bt_edge_rotate_fn; base 0: none */
    uint32_t base, log2;
    uint32_t h_base; /* constant: s8 [base, base]; NONE where base is 1 */
    uint32_t sign;   /* constant: s8 [base << log2], or NONE */
    float scale;
    uint32_t blocks; /* blocks in a row */
} bt_pkg_rotation;

/* What the device's profile asks of layout (docs/profiles.md has each field); 0: nothing. Strides, slices, parts and
 * loop orders of the programs follow from it (npu/pkg/pkg_layout.h). */
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
    /* XXH3-128 of the header with these 16 bytes zero, then all tables, constants by their hashes */
    uint8_t digest[16];
    uint8_t model_id[16];     /* bt_model.id */
    uint32_t kernels_version; /* BT_KERNELS_NUMERIC_VERSION */
    uint32_t rounding, npu_ops, flags;
    uint32_t arch, layers, dim, ffn, heads, kv_heads, head_dim, vocab, ctx_tokens, rope_dims;
    float rms_eps, attn_scale;           /* attn_scale = 1 / sqrt(head_dim) */
    float rope_base, rope_scale;         /* for people; the tables below count */
    uint32_t embed_type;                 /* ggml type of the embedding's rows */
    uint32_t embed;                      /* constant: the file's own bytes of the embedding, [vocab, dim] */
    uint32_t rope_cos, rope_sin;         /* constants: f32 [ctx_tokens, rope_dims / 2] */
    uint32_t rope_cos_q15, rope_sin_q15; /* constants: s16, the same in units of 2^-15 clamped to 32767; npu_ops all,
                                            else NONE */
    bt_pkg_rotation r1, r2;
    float residual_scale;   /* npu_ops all: the residual stream in s32 times this; else 0 */
    uint32_t max_seq;       /* the most rows of a program: the largest batch * seq of any row */
    uint64_t arena_bytes;   /* the greatest peak of any program */
    uint64_t weights_bytes; /* of the constants that are matrices */
    uint64_t calib_tokens;
    bt_pkg_table consts, tensors, sites, rows, programs, fallbacks, sessions;
    char model_name[128], recipe[128], shape_policy[128], profile[64]; /* NUL-terminated, zero-filled. Read
                                                                          recipe by bt_pkg_recipe */
    bt_pkg_layout layout;
    /* Constants that packed programs are made of; all 0: every program holds its own instructions. Bodies:
       bt_pkg_inst[], bt_pkg_place[]; body_params: u32[], or 0 */
    uint32_t body_code, body_plan, body_params;
    /* The values of what the NPU runs in floats: bt_round16 (kernels/round16.h); 0: it runs nothing in floats. Where it
       rotates q and k in floats, rope_cos and rope_sin rounded to them; else 0 */
    uint32_t float_form, rope_cos16, rope_sin16;
    /* Sparse attention (npu/pkg/attention.h); all 0: attention is dense. Rows below dense_rows are; the others keep the
       shares of sparse_heads, chosen in heads that sparse_rotation rotates */
    uint32_t sparse_ppm, sparse_dense_rows;
    uint32_t sparse_heads; /* constant: bt_pkg_head [layers, heads] */
    bt_pkg_rotation sparse_rotation;
    bt_pkg_rotation r4;                      /* all 0: none */
    uint32_t sparse_rows_log2, sparse_group; /* rows of a block, and heads of a group (1), that share a choice */
    uint32_t recipe_text; /* constant: the recipe where it is too long for `recipe`, which is empty then; else 0 */
    uint8_t reserved[88]; /* zero */
} bt_pkg_header;

/* A query head of sparse attention. */
typedef struct bt_pkg_head { /* 16 bytes */
    uint32_t ppm;            /* its share of positions in millionths, 1 to 1,000,000 */
    float q_scale, k_scale;  /* units of its q and of its kv head's K, in [2^-100, 2^100] (kernels/kernels.h) */
    float recall;            /* on the calibration: the share of the true choice that the estimate finds; NaN where not
                                measured */
} bt_pkg_head;

/* What a constant was first added as; a label for people, and what weights_bytes counts (WEIGHT: panels and the
 * embedding). */
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
} bt_pkg_const; /* 40 bytes; hash: XXH3-128; refs: how often the header, tensors, sites and programs name it */

/* Order of the tables. Tensors: layer * BT_PKG_LAYER_TENSORS + slot for the eleven of a layer, in the order attn_norm,
 * q, k, v, q_norm, k_norm, o, ffn_norm, gate, up, down, then out_norm and output; one that the model or the recipe
 * does not have (a norm folded away, no q_norm) has n = 0. Sites: layer * 4 + kind, then the head. */
enum { BT_PKG_LAYER_TENSORS = 11, BT_PKG_LAYER_SITES = 4 };
/* NONE for what has no entry (the embedding, an unknown number). layer is not looked at for out_norm, output and the
 * head's site. */
uint32_t bt_pkg_tensor_index(uint32_t layers, uint32_t layer, uint32_t weight /* bt_weight */);
uint32_t bt_pkg_site_index(uint32_t layers, uint32_t layer, uint32_t kind /* bt_site_kind */);
uint32_t bt_pkg_site_of(uint32_t weight);    /* bt_site_kind of a matrix's input; NONE for others */
uint32_t bt_pkg_site_after(uint32_t weight); /* bt_site_kind of what reads a norm of the residual stream; NONE for
                                                others */
/* Inputs of a site of this bt_site_kind. q_width: heads * head_dim. */
uint32_t bt_pkg_site_width(uint32_t kind, uint32_t dim, uint32_t q_width, uint32_t ffn);

/* A weight: a matrix with its quantisation, or a vector. */
typedef struct bt_pkg_tensor {    /* 96 bytes; one that is not there: layer, weight, NONE for each index, else zero */
    uint32_t layer, weight;       /* bt_weight; layer UINT32_MAX outside layers */
    uint32_t n, k;                /* vector: k = 1; Q_NORM, K_NORM: n = head_dim */
    uint32_t site;                /* of its input; NONE for vectors and with 16 bits */
    uint32_t bits;                /* 8 or 4: integer panels; 16: f16 panels (kernels.h); 32: f32 vector; with palettes
                                     4 or 6, of an index */
    uint32_t panels;              /* constant */
    uint32_t wscale;              /* constant: f32 [n], or [1] per tensor */
    uint32_t oscale;              /* constant: f32 [16 * panels], site scale times wscale, rounded once */
    uint32_t bias;                /* constant: f32 [n], or NONE */
    uint32_t colsum;              /* constant: s32 [16 * panels]; with groups [2][16 * panels], of the low planes and of
                                     the high ones (int_kernels.h) */
    uint32_t mult, shift, bias_q; /* npu_ops all: constants s32, u8, s64 [16 * panels]; else NONE. bias_q: with what a
                                     site's zero point takes off, zero times the sum of the output's weights */
    uint32_t norm_q;              /* npu_ops all, norm vectors: constant s32 [n] (int_ops.h); else NONE */
    int32_t norm_shift;
    float out_scale;                  /* npu_ops all: unit of the output as s16; else 0, and of the head's matrix */
    uint32_t f16_panels;              /* constant: f16 panels for llm-int8; else NONE */
    float weight_error, output_error; /* relative RMS: weights; this linear's output on the calibration, NaN where not
                                         measured */
    uint32_t out_bits;                /* npu_ops all: 16 or 8 */
    uint32_t group;                   /* inputs that share a step and an offset: 32, 64 or 128; 0: none do */
    uint32_t groups; /* with them: constant, bt_int_group [panels][k / group] (int_kernels.h); with palettes: constant,
                        s8 [panels][k / palette_run][2^bits]; else 0 */
    uint32_t palette_run; /* inputs that share a palette: 32, 64, 128 or k; 0: there is none */
} bt_pkg_tensor;

extern const bt_pkg_tensor bt_pkg_no_tensor; /* one that is not there; layer and weight zero */

/* An input that is quantised: the one of q, k, v; of o; of gate and up; of down; of the head. */
typedef struct bt_pkg_site {  /* 64 bytes; one that nothing on the NPU uses: layer, kind, hot NONE, else zero */
    uint32_t layer, kind;     /* bt_site_kind; layer UINT32_MAX for the head */
    uint32_t bits, shadow, k; /* 8 or 16; bt_shadow_kind */
    /* scale = clip / 127 or / 32639, or coarser (sites.h); inv_scale = 1 / scale, rounded once */
    float scale, inv_scale;
    float clip, max, rms;  /* of the calibration; asymmetric: the greater end of the clipped range */
    float input_error;     /* relative RMS of the quantised input on the calibration, shadow included */
    float outlier_columns; /* share of the columns with any value beyond the clip */
    uint32_t hot;          /* shadow=channel: constant u8 [k], 1 where kept; else NONE */
    uint32_t pruned;       /* 1: the channel shadow is left out here */
    float a16_scale;       /* o, where attention's s16 is made from floats or into floats: its unit; else 0 */
    int16_t zero;          /* asymmetric: what stands for 0, -128 to 127; else 0 */
    uint16_t asymmetric;   /* 1: of 8 bits, from -128 to 127 (bt_int_range) */
} bt_pkg_site;

typedef struct bt_pkg_row {            /* 32 bytes: one specialization */
    uint32_t batch, seq_min, seq, ctx; /* seq_min < seq: any number of rows between them (range) */
    uint32_t program[3];               /* by bt_pkg_out */
    uint32_t reserved;
} bt_pkg_row;
typedef enum bt_pkg_out { BT_PKG_OUT_NONE, BT_PKG_OUT_LAST, BT_PKG_OUT_ALL, BT_PKG_OUTS } bt_pkg_out;

typedef struct bt_pkg_program {  /* 64 bytes */
    uint32_t code, insts;        /* constant: bt_pkg_inst[insts], or the bt_pkg_piece[] that they are unpacked from */
    uint32_t plan, places;       /* constant: bt_pkg_place[places]; NONE where code is pieces, which have them too */
    uint32_t seq, out, clusters; /* rows of all sequences: batch * seq of its row; 0, batch, or all of them */
    uint32_t ctx; /* columns of its attention, whatever the position, as on a device that is static in them; 0: as many
                     as there are positions */
    uint64_t arena_bytes;              /* peak of the plan, a multiple of 64 */
    uint64_t npu_macs, companion_macs; /* for seq rows; attention's not included (it depends on the position) */
    uint64_t activation_bytes_moved;   /* by the strides of all instructions (docs/package-format.md), for seq rows */
} bt_pkg_program;

/* Packed programs. Code is kept once for each distinct layer body: a program is a list of pieces, each a run of
 * instructions in body_code with the places that begin there in body_plan. In a body
 *   tensor, site   of an instruction in a layer: slot in the layer (BT_PKG_LAYER_TENSORS, _SITES); outside: as ever
 *   layer          0 in a layer, else UINT32_MAX; the piece's layer takes its place
 *   cluster        0, or the number above the piece's `cluster`
 *   params         0, BT_PKG_NONE, or 1 + the index in body_params above the piece's `params`; of a SESSION as ever
 *   first_inst, last_inst of a place   above the piece's first instruction; a value may outlive its piece */
typedef struct bt_pkg_piece { /* 32 bytes */
    uint32_t inst, insts;     /* in body_code */
    uint32_t place, places;   /* in body_plan */
    uint32_t layer;           /* or UINT32_MAX */
    uint32_t cluster, params;
    uint32_t reserved;
} bt_pkg_piece;

/* Names in a memory plan: the graph's tensors, and what quantisation adds. PLANES: s8 or the hi plane; LO: the lo
 * plane; SHADOW: counts and entries;
 * WIDE: s32 on the way to planes; KF, VF: k and v back in f32 (npu_ops all). */
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

/* A value lives from the instruction that first writes it to the last that names it. Places alive together never
 * overlap; every operand of an instruction lies in a place alive there. */
typedef struct bt_pkg_place {
    uint32_t name, first_inst, last_inst, reserved;
    uint64_t offset, bytes;
} bt_pkg_place; /* 32; name: bt_pkg_value */

/* NPU: in integers. NPU_FLOAT: the companion's operators and conversions, on the NPU, in 16-bit floats: rows that it
 * reads hold values of float_form, and so do those that it writes, each rounded once. In the arena they lie as f32. */
typedef enum bt_pkg_unit { BT_PKG_COMPANION, BT_PKG_NPU, BT_PKG_NPU_FLOAT, BT_PKG_UNITS } bt_pkg_unit;
const char *bt_pkg_unit_name(uint32_t unit);        /* "companion", "npu", "npu_float"; "?" */
const char *bt_pkg_float_name(uint32_t float_form); /* "none", "float16", "bfloat16"; "?" */

/* The loop order that moves least between memory and chip (device/on_chip.h), where on_chip_bytes bounds it: the
 * weights stay while all inputs pass, or the inputs stay while all weights do. It is for whoever builds a program for
 * the device, and changes no bit. */
typedef enum bt_pkg_order { BT_PKG_ORDER_NONE, BT_PKG_ORDER_WEIGHTS, BT_PKG_ORDER_INPUTS, BT_PKG_ORDERS } bt_pkg_order;

/* The numbers stand in graph/op_list.h, the forms of what each reads and writes in npu/pkg/pkg_ops.h.
 *
 * In floats, 1 to 11: bt_op_kind's meanings, in0, in1 -> out, f32 rows of the companion, or of the NPU on NPU_FLOAT:
 *   ROTATE        arg: a bt_rotation (model/weight.h); R1 is the companion's
 *   RMSNORM       tensor: its weight (NONE: ones)
 *   LINEAR_F16    tensor with 16 bits: a linear that is not in integers; arg on NPU_FLOAT as LINEAR's
 *   ROPE, QK_NORM   arg: heads
 *   KV_STORE      in0 = k, in1 = v
 *   ATTENTION     in0 = q; arg: its slice (npu/pkg/pkg_layout.h), all of them one after the other
 *   SELECT_ROWS   element = 4 bytes of any type
 * Where the companion and the NPU hand on to each other. The unit of an s16 is the output scale of `tensor`, or of
 * attention's output that of the o site (a16_scale): one is given, the other is NONE. The unit of an s32 is
 * residual_scale, or the scale of `site`:
 *   QUANTISE      in0 -> out: s8 plane, or hi plane with lo at in1; site. out_stride: a multiple of 64. aux where the
 *                 site has a shadow: u32 counts [rows], padded to 64 bytes, then bt_int_shadow [rows, in_width]
 *   QUANTISE32    in0 -> out s32 of the residual stream: rint(x / unit)
 *   DEQUANTISE16  in0 s16 -> out: float(q) * unit
 *   QUANTISE16    in0 -> out s16: rint(x / unit), clamped to +-32639
 *   DEQUANTISE32  in0 s32 -> out: float(q) * unit
 *   ROUND16       NPU_FLOAT only: rounded to float_form
 *   LINEAR        in0 (planes, aux as QUANTISE wrote them) -> out f32, by the companion's epilogue; tensor; arg: the
 *                 loop order and, of the output matrix, the part (npu/pkg/pkg_layout.h)
 * The device's driver:
 *   SESSION       the device maps session `arg` in place of the one before; params: what that costs, in ns. No
 *                 operands, no layer. With one session there is none
 * In integers:
 *   INT_LINEAR     as LINEAR -> out s16 (requantised)
 *   INT_RMSNORM    in0 s32 -> out s32 in units of site's scale; tensor
 *   INT_ROPE, INT_QK_NORM   s16 in place; arg: heads
 *   INT_ATTENTION  in0 = q s16 -> out s16; arg: as ATTENTION
 *   INT_ROTATE     in0 s16 -> out s32 in units of site's scale; arg 2: R2, 0: none, only the change of scale
 *   INT_SILU_MUL   in0 gate, in1 up, s16 -> out s32 in units of site's scale
 *   INT_ADD        out s32 in place += in1 s16, requantised; tensor: whose output in1 is
 *   INT_SPLIT      in0 s32 -> planes and shadow, as QUANTISE; site */
#define BT_PKG_NUMBER(OF, NAME, name, number, ...) BT_PKG_##NAME = number,
typedef enum bt_pkg_op { BT_OP_LIST(BT_OP_SKIP, BT_PKG_NUMBER, BT_PKG_NUMBER, BT_PKG_NUMBER) } bt_pkg_op;
#undef BT_PKG_NUMBER
const char *bt_pkg_op_name(bt_pkg_op op); /* "embed", "int_linear", ...; "?" */

/* One step of a program. Arena values are rows of `stride` bytes, planes' a multiple of 64 and all others' exactly
 * their elements, rounded up as the layout says (npu/pkg/pkg_layout.h); both inputs have in_stride (an in-place
 * operator's in1 too), out and its lo plane out_stride. What is read was written by an earlier instruction, in the form
 * and shape it is read in, and not written over since; planes only until the next ones are made. In place: in0 == out.
 * Operands that are not in place do not overlap. */
typedef struct bt_pkg_inst {           /* 88 bytes */
    uint8_t op, unit, group, out_rows; /* group: linears: this and the next group - 1 share in0 and may run as one, in
                                          any order; else 1. out_rows: 1: rows of OUT, 0: rows of SEQ */
    uint32_t layer;                    /* UINT32_MAX outside layers */
    uint32_t tensor, site;             /* or NONE */
    uint32_t arg, cluster;
    uint32_t in_width, out_width;   /* elements of a row */
    uint64_t in0, in1, out, aux;    /* byte offsets in the arena, multiples of 64; NOWHERE: not in it. A LINEAR with out
                                       NOWHERE writes the caller's logits; KV_STORE has no out, EMBED no in0 */
    uint64_t params;                /* INT_*: constant index of its bt_pkg_int_params, or BT_PKG_NONE; SESSION: ns; else
                                       0 */
    uint32_t in_stride, out_stride; /* bytes of a row */
    uint64_t macs_per_row;
} bt_pkg_inst;

/* Bytes at aux: the counts and the entries (8 bytes each). rows < 2^21 and k < 2^18, so that nothing overflows. */
static inline uint64_t bt_pkg_shadow_counts_bytes(uint64_t rows) { return (rows * 4 + 63) / 64 * 64; }
static inline uint64_t bt_pkg_shadow_bytes(uint64_t rows, uint64_t k)
{
    return bt_pkg_shadow_counts_bytes(rows) + rows * k * 8;
}

/* Multipliers m[i] / 2^s[i] of an integer operator, in the names of kernels/int_ops.h. 64 bytes.
 *   INT_RMSNORM    m[0]: w1 where the tensor is NONE; s[0]: f; eps: keps        INT_QK_NORM   s[0]: f; eps: keps
 *   INT_ATTENTION  m[0]: logit, m[1]: out; k_shift, v_shift                    INT_SILU_MUL  m[0]: gate, m[1]: out
 *   INT_ADD, INT_ROTATE   m[0]: mul                                            INT_ROPE, INT_SPLIT, INT_LINEAR: none */
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
    uint32_t count, layers; /* operators of the graph; layers that have any of them, 0: they are outside layers */
    uint64_t macs_per_row;
} bt_pkg_fallback; /* 136 */
/* Which layers the device maps together; `layers` stands for the output matrix. Where there are several, a program maps
 * each by a SESSION before its first NPU instruction of those layers. */
typedef struct bt_pkg_session {
    uint32_t first_layer, last_layer;
    uint64_t mapped_bytes; /* weights, each constant once, and one arena */
} bt_pkg_session;          /* 16 */
#endif
