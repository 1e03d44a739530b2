#ifndef BT_ENGINE_NAMES_H
#define BT_ENGINE_NAMES_H
#include "kernels/cores.h"
#include "kernels/kernels.h"

/* The engines' names: the one list behind every --engine, of prompts and of decoding.
 *   npu        the integer NPU over a package; the default of prompts
 *   host       float kernels over the weight store; the default of decoding
 *   reference  the plain FP32 oracle of common/ref
 * The first two cut prompts into chunks; a decode node may compute prompts with them. */
#define BT_ENGINE_CHUNKED_NAMES "npu", "host"
#define BT_ENGINE_NAMES         BT_ENGINE_CHUNKED_NAMES, "reference"
enum { BT_ENGINE_NPU, BT_ENGINE_HOST, BT_ENGINE_REFERENCE, BT_ENGINES };
extern const char *const bt_engine_names[BT_ENGINES + 1]; /* NULL at the end */
int bt_engine_find(const char *name);                     /* its index; -1: there is none */

/* "auto", then the engines, for the engine of one role beside that of the other; NULL at the end. */
extern const char *const bt_engine_auto_names[BT_ENGINES + 2];
/* What decodes by an index in that list, beside this engine of prompts: "auto" is host, for reference that. */
int bt_engine_decode_of(int auto_index, int prompts);

/* A row of an option table: --engine of prompts. */
#define BT_ENGINE_PROMPTS_HELP "what computes prompts: the integer NPU, f16 kernels, or the plain FP32 oracle"
#define BT_ENGINE_OPT(config, field) \
    { \
        .group = "Model", .name = "engine", .value = "NAME", BT_OPT_AT(config, field), .type = BT_OPT_CHOICE, \
        .def = "npu", .choices = bt_engine_names, .help = BT_ENGINE_PROMPTS_HELP \
    }

/* In which order the chunks of one prompt run, by bt_schedule_policy; NULL at the end. A row of an option table: */
extern const char *const bt_engine_schedules[];
#define BT_ENGINE_SCHEDULE_OPT(in, config, field) \
    { \
        .group = (in), .name = "schedule", .value = "NAME", BT_OPT_AT(config, field), .type = BT_OPT_CHOICE, \
        .def = "serial", .choices = bt_engine_schedules, \
        .help = \
            "chunks of a prompt with npu: one by one, or NPU and companion on threads of their own, as a pipeline " \
            "or out of order; the bits are the same" \
    }

/* The rows of kernels, in the words of --isa. */
#define BT_ENGINE_ISA_NAMES  BT_KERNELS_NAMES
#define BT_ENGINE_CORE_NAMES BT_CORES_NAMES
/* Rows of a decode step where --batch-rows does not say it: for tables of options (as text), and for who tells what a
 * node will take. */
#define BT_ENGINE_BATCH_ROWS      64
#define BT_ENGINE_TEXT_OF(number) #number
#define BT_ENGINE_TEXT(number)    BT_ENGINE_TEXT_OF(number)
#define BT_ENGINE_BATCH_ROWS_TEXT BT_ENGINE_TEXT(BT_ENGINE_BATCH_ROWS)
#endif
