#ifndef BT_ENGINE_NEEDS_H
#define BT_ENGINE_NEEDS_H
#include "engine/names.h"
#include "kernels/forms.h"
#include "model/model.h"
#include "npu/compile/obtain.h"

/* How much memory a process takes for a model before it takes any, from the sizes in the model's header and the
 * options; the one source of such figures for programs that start and for those that only tell. What is mapped from
 * files counts as what it is: without it in memory every token would wait for the disk. */
typedef struct bt_needs_want {
    const char *prefill, *decode; /* engines that the process runs (engine/names.h); NULL: none. Both NULL: a gateway */
    bt_form weights;              /* of decoding, where its engine has the store's; prompts have f16 */
    const bt_obtain_want *want;
    int schedule;             /* bt_schedule_policy: of prompts */
    uint32_t kv_elem_bytes;   /* 0: the engine's default, and where it lacks these */
    size_t ctx_tokens;        /* as asked for; 0: the model's context, or what kv_memory_bytes holds */
    uint64_t kv_memory_bytes; /* 0: no limit */
    size_t rows, threads;     /* of a decode step; of the pool, 0: all cores */
    size_t sequences;         /* held at once, each of the longest; 0: one */
    size_t logits_rows;       /* that are kept beside a step's */
} bt_needs_want;

typedef enum bt_needs_part {
    BT_NEEDS_PACKAGE, /* mapped */
    BT_NEEDS_WEIGHTS, /* mapped */
    BT_NEEDS_KV,      /* of `sequences` of the longest; with more of them it grows to kv_memory_bytes */
    BT_NEEDS_WORK, /* arenas, scratch, prepared inputs, rotary tables, logits; of prompts that share a chunk the first
                      alone: each other one takes its logits, 4 bytes a token of the vocabulary */
    BT_NEEDS_REST, /* the program, libraries, buffers of links, the tokenizer */
    BT_NEEDS_PARTS
} bt_needs_part;
extern const char *const bt_needs_names[BT_NEEDS_PARTS];

typedef struct bt_needs {
    uint64_t part[BT_NEEDS_PARTS];
    uint64_t form[3];     /* of the weights: by bt_form, those that it has; else 0 */
    uint64_t token_bytes; /* KV of a token */
    size_t ctx_tokens;
} bt_needs;
/* m may be a header alone. A package that `want` names is looked at, any other counted (npu/compile/needs.h). Errors of
 * the engines' own start. */
bt_err bt_needs_of(bt_needs *ret, const bt_model *m, const bt_needs_want *want, bt_fault *fault);
uint64_t bt_needs_sum(const bt_needs *n);
/* Of several processes on one machine, which share what is mapped. */
uint64_t bt_needs_all(const bt_needs *n, size_t count);
/* "needs 1.3 GiB: package 163.0 MiB, weights 257.1 MiB, ..." */
void bt_needs_text(char *ret, size_t cap, const bt_needs *n);

/* Whether `count` processes find what they need together in free_bytes (base/memory.h; 0: nobody knows, and they
 * begin). BT_ELIMIT with both numbers and the first of these options with which they would fit: other --weights,
 * --kv-dtype int8, a shorter --ctx-size, or several; or the least that they could do with. Other errors as above. */
enum { BT_NEEDS_MAX_PROCESSES = 64, BT_NEEDS_TEXT_BYTES = 192 };
bt_err bt_needs_check(const bt_model *m, const bt_needs_want *want, size_t count, uint64_t free_bytes, bt_fault *fault);
/* For a process about itself, with `count` engines or pairs of them: the check, against what is free now, and its words
 * for people. */
bt_err bt_needs_begin(char ret[BT_NEEDS_TEXT_BYTES], const bt_model *m, const bt_needs_want *want, size_t count,
                      bt_fault *fault);
#endif
