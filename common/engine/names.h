#ifndef BT_ENGINE_NAMES_H
#define BT_ENGINE_NAMES_H

/* The engines' names: the one list behind every --engine.
 *   npu        the integer NPU over a package (prompts only)
 *   host       float kernels over the weight store
 *   reference  the plain FP32 oracle of common/ref
 * The first two cut prompts into chunks; a decode node may compute prompts with them. */
#define BT_ENGINE_CHUNKED_NAMES "npu", "host"
#define BT_ENGINE_FLOAT_NAMES   "host", "reference"
#define BT_ENGINE_NAMES         "npu", BT_ENGINE_FLOAT_NAMES
enum { BT_ENGINE_NPU, BT_ENGINE_HOST, BT_ENGINE_REFERENCE, BT_ENGINES };
extern const char *const bt_engine_names[BT_ENGINES + 1]; /* NULL at the end; the first is the default of prompts */
/* Those that decode: the list from host on; the first is the default. */
#define BT_ENGINE_DECODE_NAMES (bt_engine_names + BT_ENGINE_HOST)
int bt_engine_find(const char *name); /* its index; -1: there is none */

/* A row of an option table: --engine of prompts. */
#define BT_ENGINE_PROMPTS_HELP "what computes prompts: the integer NPU, f16 kernels, or the plain FP32 oracle"
#define BT_ENGINE_OPT(config, field) \
    { \
        .group = "Model", .name = "engine", .value = "NAME", BT_OPT_AT(config, field), .type = BT_OPT_CHOICE, \
        .def = "npu", .choices = bt_engine_names, .help = BT_ENGINE_PROMPTS_HELP \
    }
#endif
