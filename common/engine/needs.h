#ifndef BT_ENGINE_NEEDS_H
#define BT_ENGINE_NEEDS_H
#include "engine/names.h"
#include "kernels/forms.h"
#include "model/model.h"
#include "npu/compile/obtain.h"

/* How much memory a process takes for a model before it takes any, from the sizes in the model's header and the
 * options; the one source of such figures, for programs that start and for those that only print them. Mapped files
 * count in full: outside of memory every token would wait for the disk. */
typedef struct bt_needs_want {
    const char *prefill, *decode; /* engines that the process runs (engine/names.h); NULL: none. Both NULL: a gateway */
    bt_form weights;              /* of decoding, where its engine has the store's; prompts have f16 */
    const bt_obtain_want *want;
    int schedule;             /* bt_schedule_policy: of prompts */
    uint32_t kv_elem_bytes;   /* 0: the engine's default, and where it lacks these */
    size_t ctx_tokens;        /* the wanted length; 0: the model's context, or what kv_memory_bytes holds */
    uint64_t kv_memory_bytes; /* 0: no limit */
    size_t rows, threads;     /* of a decode step; of the pool, 0: all cores */
    size_t sequences;         /* held at once, each of the longest; 0: one */
    size_t logits_rows;       /* kept beside a step's own */
} bt_needs_want;

typedef enum bt_needs_part {
    BT_NEEDS_PACKAGE, /* mapped */
    BT_NEEDS_WEIGHTS, /* mapped */
    BT_NEEDS_KV,      /* of `sequences` sequences of the greatest length; more grow it to kv_memory_bytes */
    BT_NEEDS_WORK, /* arenas, scratch, prepared inputs, rotary tables, logits; with one prompt: each further prompt of a
                      batch takes its logits, 4 bytes a token of the vocabulary */
    BT_NEEDS_REST, /* the program, libraries, buffers of links, the tokenizer */
    BT_NEEDS_PARTS
} bt_needs_part;
extern const char *const bt_needs_names[BT_NEEDS_PARTS];

typedef struct bt_needs {
    uint64_t part[BT_NEEDS_PARTS];
    uint64_t form[3];     /* bytes of the weights by bt_form; 0: not in that form */
    uint64_t token_bytes; /* KV of a token */
    size_t ctx_tokens;
} bt_needs;
/* m may be a header alone. The size of a package file that `want` names is read, any other is computed
 * (npu/compile/needs.h). Errors of the engines' own start. */
bt_err bt_needs_of(bt_needs *ret, const bt_model *m, const bt_needs_want *want, bt_fault *fault);
uint64_t bt_needs_sum(const bt_needs *n);
/* The needs of several processes on one machine, which share mapped files. */
uint64_t bt_needs_all(const bt_needs *n, size_t count);
/* "needs 1.3 GiB: package 163.0 MiB, weights 257.1 MiB, ..." */
void bt_needs_text(char *ret, size_t cap, const bt_needs *n);

/* Whether free_bytes (base/memory.h; 0: unknown, and they begin) hold the needs of all `count` processes. BT_ELIMIT
 * with both numbers and the first option with which they would fit: other --weights, --kv-dtype int8, a shorter
 * --ctx-size, or several of these; or else the least memory that any choice needs. Other errors as above. */
enum { BT_NEEDS_MAX_PROCESSES = 64, BT_NEEDS_TEXT_BYTES = 192 };
bt_err bt_needs_check(const bt_model *m, const bt_needs_want *want, size_t count, uint64_t free_bytes, bt_fault *fault);
/* For a process with `count` engines or pairs of engines: the check against the free memory, and its words for people.
 */
bt_err bt_needs_begin(char ret[BT_NEEDS_TEXT_BYTES], const bt_model *m, const bt_needs_want *want, size_t count,
                      bt_fault *fault);
#endif
