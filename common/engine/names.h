#ifndef BT_ENGINE_NAMES_H
#define BT_ENGINE_NAMES_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "kernels/cores.h"
#include "kernels/kernels.h"

/* The engines behind the two doors (prefill.h, decode.h) as everybody else knows them: names, and what is asked before
 * one is made. Each back end's table says it (prefill_backend.h, decode_backend.h); nobody compares a name. */

/* The defaults: of prompts, of decoding, and of prompts where floats are wanted and no package is. */
#define BT_ENGINE_DEFAULT_PREFILL "npu"
#define BT_ENGINE_DEFAULT_DECODE  "host"
#define BT_ENGINE_DEFAULT_FLOAT   "host"

enum { BT_ENGINE_NAME_BYTES = 16, BT_ENGINE_MOST = 16 /* engines of a door */ };

typedef struct bt_engine_facts {
    char name[BT_ENGINE_NAME_BYTES]; /* an engine of prompts and one of decoding with one name are two halves of one */
    uint32_t kv_elem_bytes[2];       /* forms of KV that it takes (kernels/kv_view.h); the first is its default, 0: no
                                        second */
    bool has_package;                /* it runs one: what is said of packages, recipes and profiles is said to it */
    bool has_weights;  /* it reads the store of weights: of decoding in the form of --weights, of prompts in f16 */
    bool has_integers; /* its matrix products are of integers */
    uint32_t mixes;    /* of decoding: with weights of these forms, 1 << bt_form each, a row of one token has the bits
                          that the engine of prompts makes (mixed.h) */
    /* of prompts */
    bool has_chunks;    /* it cuts a prompt, so that a decode node may take steps between */
    bool has_schedules; /* chunks of one prompt run in other orders than one by one */
    bool is_sparse;     /* attends sparsely where --attention wants it */
} bt_engine_facts;

/* The facts of the engine with this name; NULL: the default. Returns NULL where there is no such engine. */
const bt_engine_facts *bt_engine_prefill(const char *name);
const bt_engine_facts *bt_engine_decode(const char *name);
/* BT_EARG: which engines there are. */
bt_err bt_engine_unknown(const char *name, const char *const *names, bt_fault *fault);
/* The bytes of an element of KV that it has where so many are wanted (0: its default): those, or its default. */
static inline uint32_t bt_engine_kv(const bt_engine_facts *f, uint32_t wanted)
{
    return wanted && wanted == f->kv_elem_bytes[1] ? wanted : f->kv_elem_bytes[0];
}
/* Whether rows that one makes can be read by the other. */
bool bt_engine_shares_kv(const bt_engine_facts *a, const bt_engine_facts *b);

/* Values of options, in the order of the tables, NULL at the end; constant once main begins. */
enum { BT_ENGINE_LIST = BT_ENGINE_MOST + 2 };
extern const char *bt_engine_prefill_names[BT_ENGINE_LIST], *bt_engine_decode_names[BT_ENGINE_LIST];
/* "auto", then the engines, for the engine of one role beside that of the other. */
extern const char *bt_engine_prefill_auto_names[BT_ENGINE_LIST], *bt_engine_decode_auto_names[BT_ENGINE_LIST];
/* "off", then those that cut prompts into chunks. */
extern const char *bt_engine_chunked_names[BT_ENGINE_LIST];
/* "none", the engines of prompts, then "decode" for the default of decoding and "decode-NAME" for each other. */
extern const char *bt_engine_door_names[2 * BT_ENGINE_LIST];
/* The engine of decoding that such a word means; NULL: it is one of prompts. */
const bt_engine_facts *bt_engine_door_decode(const char *word);

/* The meaning of "auto" or another value of an auto list beside an engine of the other role, by index in the names:
 * "auto" is the default, or where the two share no form of KV the first that does. */
int bt_engine_decode_beside(int auto_index, int prefill);
int bt_engine_prefill_beside(int auto_index, int decode);
int bt_engine_prefill_index(const char *name); /* in bt_engine_prefill_names; -1: there is none */

/* In which order the chunks of one prompt run, by bt_schedule_policy; NULL at the end. */
extern const char *const bt_engine_schedules[];

/* The rows of kernels, in the words of --isa. */
#define BT_ENGINE_ISA_NAMES  BT_KERNELS_NAMES
#define BT_ENGINE_CORE_NAMES BT_CORES_NAMES
/* Rows of a decode step without --batch-rows. */
#define BT_ENGINE_BATCH_ROWS 64
#endif
