#ifndef BT_DEVICE_PRICE_H
#define BT_DEVICE_PRICE_H
#include <stddef.h>
#include <stdint.h>
#include "device/calibration.h"
#include "device/dims.h"
#include "device/time.h"

/* The price of a model's sizes on a device. The sizes are looked at once; a chunk or a step then costs a few products.
 * Pure, in integer nanoseconds, which end at INT64_MAX.
 *
 *   t_graph = dispatch + sum of t_op,   a chunk at position p = its graph + attention over rows and p + rows columns
 *   t_step  = dispatch + sequences * sequence + operators * decode_op
 *             + sum over classes of max(operations / rate, bytes / rate), of products a share of the lesser too
 *
 * A chunk is one graph that has it all: what arithmetic alone says of a device with static programs
 * (device/roofline.h). npu/price says what the compiler's programs take. A step is any mixture of prefill pieces and
 * decode rows as one pass over the weights, which is how GPUs run them: decode is a step of one row a sequence, a
 * prompt a step of all its rows. Kernels of a step run one after the other, and only within a kernel do products hide
 * what memory takes. The classes: products with the layers' weights; the output matrix, where logits are wanted;
 * attention of sequences with several rows; attention of those with one; on a GPU, norms, sums and activations by
 * their bytes (a device with programs has them in decode_op_ns). Bytes that a step waits for at one rate are rounded up
 * together. A group of devices divides matrices and heads, and sums over itself twice a layer; where there are more
 * devices than KV heads, several hold the same one.
 *
 * Layers with a window form a class. Attention of all layers is priced twice, as if each saw all positions and as if
 * each had the window; a layer takes its part of its class's time, and the sum over layers is rounded once. Time
 * grows with rows, batch and context as without windows, and within the window nothing differs. */
enum { BT_PRICE_MAX_PROGRAMS = 128, BT_PRICE_PARTS = BT_OP_KINDS + 5 };

/* A pass costs a fixed number, a number for each (row, column) pair and one for each position of KV; the last two are
 * scaled by 2^32. */
typedef struct bt_price_line {
    uint64_t fixed, pair, position;
} bt_price_line;
typedef struct bt_price_program {
    uint32_t rows, ctx; /* ctx: of programs that are static in it the shortest; the others double it */
    bt_price_line compute, memory, scores; /* ns; attention costs the longer of compute and memory, and the scores */
    bt_price_line ops, bytes;              /* operations and bytes of memory, for energy and utilisation */
    uint64_t all_reduce_ns, launch_ns;     /* of compute.fixed: sums over the group; dispatch and launches */
} bt_price_program;

typedef struct bt_price {
    bt_profile profile;
    bt_price_program program[BT_PRICE_MAX_PROGRAMS]; /* rows ascend */
    uint32_t programs;
    uint64_t first_ns, first_launch_ns;     /* once a prompt: the first use of weights and operators; its launches */
    uint64_t last_ns, last_ops, last_bytes; /* once a prompt: the output matrix, for its last row */
    uint32_t layers, windowed, window;      /* as bt_dims */
} bt_price;

/* BT_EARG: a profile without time, naming it. */
bt_err bt_price_need_time(const bt_profile *profile, bt_fault *fault);
bt_err bt_price_begin(bt_price *ret, const bt_profile *profile, bt_fault *fault);
/* The programs of a shape with weights of so many bits. */
typedef struct bt_price_recipe {
    uint32_t weight_bits, input_bits, kv_elem_bits, group;
    uint32_t ctx;                   /* as bt_price_program; 0: programs are not static in it */
    uint32_t weight_bytes_permille; /* of a weight as stored, scales included: 562 for q4_0; 0: weight_bits / 8 */
    bool is_float;                  /* weights and inputs of 8 bits are FP8, those of 4 NVFP4; of steps alone */
} bt_price_recipe;
/* program_rows ascend. BT_ELIMIT past BT_PRICE_MAX_PROGRAMS; BT_EARG: rows that do not ascend. */
bt_err bt_price_of_dims(bt_price *ret, const bt_profile *profile, const bt_dims *s, const bt_price_recipe *r,
                        const uint32_t *program_rows, size_t n, bt_fault *fault);

/* The chunk that program i computes behind `first` positions. */
uint64_t bt_price_chunk_ns(const bt_price *p, uint32_t i, uint64_t first);
typedef struct bt_price_sum {
    uint64_t ns, ops, bytes, chunks;
    uint64_t term_ns[BT_TERMS]; /* of ns, and all of it: by the terms that are wrong apart from each other */
    uint64_t part_ns[BT_PRICE_PARTS], spill_ns; /* of ns, by what the caller wants to see; first use is in no part */
    uint64_t first_ns;                          /* of ns: first uses */
    uint64_t lead_ns, tail_ns;                  /* of ns: first uses of layers; what follows the last layer */
} bt_price_sum;
void bt_price_sum_add(bt_price_sum *sum, const bt_price_sum *more);
/* A prompt: the longest program as often as it is filled, then the shortest that holds the rest; first_ns and last_ns.
 */
bt_price_sum bt_price_prompt(const bt_price *p, uint64_t tokens);

/* A model's numbers for the price of steps. */
typedef struct bt_price_model {
    uint64_t body_weights, head_weights; /* multiply-accumulates of a row, and of a row of logits */
    uint64_t weight_bytes, head_bytes;   /* read once a step, the output matrix in it; of the output matrix */
    uint64_t idle_bytes;                 /* of experts that a row does not use: memory holds them too */
    uint64_t expert_bytes;               /* of those that it uses; each row of a step may use others */
    uint64_t kv_bytes;                   /* of a position */
    uint64_t norm_bytes, gate_bytes;     /* a row's in small operators: of the hidden row; of what heads and FFN hold */
    uint64_t split_matrices, split_inputs; /* those whose inputs a group divides; their inputs together */
    uint32_t operators, layers, hidden, heads, kv_heads, head_dim, weight_bits, input_bits;
    uint32_t window, windowed; /* as bt_dims */
    bool is_float;             /* as bt_price_recipe */
} bt_price_model;
bt_price_model bt_price_model_of(const bt_dims *s, const bt_price_recipe *r);

/* Forms of weights on a device without programs, by name: f16, and int8 and fp4 of `baton run --weights`, whose inputs
 * have 16 bits; fp8 and nvfp4 of devices that compute in them. KV rows may be f16, int8 with a scale a head, fp8. */
typedef struct bt_price_form {
    const char *name;
    bt_price_recipe recipe; /* of KV in 16 bits */
} bt_price_form;
typedef struct bt_price_kv {
    const char *name;
    uint32_t elem_bytes, head_bytes; /* of an element; of a head beside its elements */
    bool is_fp8;
} bt_price_kv;
enum { BT_PRICE_FORMS = 5, BT_PRICE_KVS = 3 };
extern const char *const bt_price_form_names[]; /* end with NULL */
extern const char *const bt_price_kv_names[];
/* The i-th of the names. */
const bt_price_form *bt_price_form_at(size_t i);
const bt_price_kv *bt_price_kv_at(size_t i);
/* NULL: none has that name. */
const bt_price_form *bt_price_form_find(const char *name);
const bt_price_kv *bt_price_kv_find(const char *name);
uint64_t bt_price_kv_bytes(const bt_price_kv *kv, const bt_dims *s); /* of a position */
/* BT_EARG: a form that the device does not have, with both names. NULL: not asked. */
bt_err bt_price_check_forms(const bt_profile *p, const bt_price_form *weights, const bt_price_kv *kv, bt_fault *fault);
/* BT_ELIMIT: the weights alone exceed the memory of the device or its group. name: the model's, or NULL. */
bt_err bt_price_check_memory(const bt_profile *p, const bt_price_model *m, const char *name, bt_fault *fault);
/* The memory of a group that KV of kv_bytes takes: more than that where several devices hold the same head. kv_heads 0:
 * not known. */
uint64_t bt_price_kv_held(const bt_profile_time *t, uint32_t kv_heads, uint64_t kv_bytes);
/* The positions of one layer that the rows of all sequences see. */
typedef struct bt_price_seen {
    uint64_t pairs, positions; /* of a row and a position that it sees; positions that are read */
    uint64_t single_positions; /* of these, those of sequences that have one row */
    /* The most positions of a sequence that has one row; rows and pairs of another one, with the most pairs a row. 0:
     * all are alike. */
    uint64_t single_longest, longest_rows, longest_pairs;
} bt_price_seen;
typedef struct bt_price_step {
    uint64_t rows, logits, sequences; /* of all sequences together */
    uint64_t single_rows;             /* of sequences that have one row */
    bt_price_seen all, window;        /* in a layer that sees all positions; in one that has a window */
} bt_price_step;
void bt_price_step_add(bt_price_step *step, const bt_price_step *more);
/* A profile and a model fix this much of all steps, so that a step costs few divisions. It borrows nothing. */
typedef struct bt_price_weights {
    bt_time_unit row;
    uint64_t bytes, read_ns, unpack_ns; /* of one device; of its part */
} bt_price_weights;
typedef struct bt_price_steps {
    bt_profile_time time;
    bt_price_model model;
    bt_profile_attention attention; /* the nearest */
    bool has_attention, has_small;
    uint32_t devices, kv_devices;
    bt_price_weights body, head;
    bt_time_unit pair; /* of attention */
    uint64_t decode_rate, kv_rate, fixed_ns;
} bt_price_steps;
bt_price_steps bt_price_steps_of(const bt_profile *p, const bt_price_model *m);
bt_price_sum bt_price_step_at(const bt_price_steps *f, const bt_price_step *s);
/* Both, of one step alone. */
bt_price_sum bt_price_step_of(const bt_profile *p, const bt_price_model *m, const bt_price_step *s);
/* Once a prompt that runs as steps: the first use of weights and operators, as first_ns of programs. */
uint64_t bt_price_first_use(const bt_profile *p, const bt_price_model *m);
/* A step of `batch` sequences with ctx positions each, the new one included; a step of a prompt's rows behind `first`.
 * window: the model's; 0: none. */
bt_price_step bt_price_decode_step(uint64_t batch, uint64_t ctx, uint64_t window);
bt_price_step bt_price_prefill_step(uint64_t first, uint64_t rows, uint64_t window);
/* Rows of several prompts that pass together, each behind its own positions. Begin with zeros. */
typedef struct bt_price_batch {
    uint64_t prompts, rows;
    uint64_t pairs, positions;               /* as bt_price_seen, in a layer that sees all positions */
    uint64_t window_pairs, window_positions; /* in one that has a window */
    uint64_t end, most; /* position behind the last prompt's rows; greatest such position of all prompts */
} bt_price_batch;
/* Adds rows [first, first + rows) of one more prompt. window: the model's; 0: none. */
void bt_price_batch_add(bt_price_batch *s, uint64_t first, uint64_t rows, uint64_t window);
#endif
