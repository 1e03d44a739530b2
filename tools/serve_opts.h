#ifndef BT_TOOLS_SERVE_OPTS_H
#define BT_TOOLS_SERVE_OPTS_H
#include "npu/plan.h"

/* Options of a system that a command starts for itself: up, run and chat have the same ones. The rows are macros because a program's
 * option table is one static array; `config` has the fields below through TOOL_SERVE_FIELDS. */
#define TOOL_SERVE_FIELDS \
    const char *model, *isa, *shape_policy; \
    int engine; \
    int64_t threads, ctx_size; \
    uint64_t kv_memory_bytes;

#define TOOL_SERVE_OPTS(config) \
    { .group = "Model", .letter = 'm', .name = "model", .value = "MODEL", BT_OPT_AT(config, model), .type = BT_OPT_STRING, \
      .example = "smollm2", .help = "GGUF file, or 'smollm2' for the default model (also the first argument)" }, \
    { .group = "Model", .name = "engine", .value = "NAME", BT_OPT_AT(config, engine), .type = BT_OPT_CHOICE, .def = "host", \
      .choices = tool_engine_names, .help = "what computes: f16 kernels, or the plain FP32 oracle" }, \
    { .group = "Model", .letter = 'c', .name = "ctx-size", .value = "N", BT_OPT_AT(config, ctx_size), .type = BT_OPT_INT, \
      .def = "0", .lo = 0, .hi = 1 << 20, .help = "longest sequence in tokens; 0: the model's context, or what --kv-memory holds if that is less" }, \
    { .group = "Machine", .letter = 't', .name = "threads", .value = "N", BT_OPT_AT(config, threads), .type = BT_OPT_INT, \
      .def = "0", .lo = 0, .hi = 256, .help = "compute threads of each node; 0: all cores" }, \
    { .group = "Machine", .name = "kv-memory", .value = "SIZE", BT_OPT_AT(config, kv_memory_bytes), .type = BT_OPT_SIZE, \
      .def = "1G", .lo = 1 << 20, .hi = INT64_MAX, .help = "KV memory of each node; it must hold one sequence of --ctx-size" }, \
    { .group = "Machine", .name = "isa", .value = "NAME", BT_OPT_AT(config, isa), .type = BT_OPT_STRING, .def = "auto", \
      .help = "kernels: auto, avx512vnni, avx512, avxvnni, avx2 or ref; the results are the same" }, \
    { .group = "Machine", .name = "shape-policy", .value = "POLICY", BT_OPT_AT(config, shape_policy), .type = BT_OPT_STRING, \
      .def = BT_PLAN_DEFAULT, .help = "how prompts are cut: " BT_PLAN_NAMES "; the results are the same" }

/* Declares `name`, the options of `baton up` that say the same as config *c does. */
#define TOOL_SERVE_UP_ARGS(name, c) \
    char name##_threads[24], name##_ctx[24], name##_kv[24]; \
    snprintf(name##_threads, sizeof name##_threads, "%lld", (long long)(c)->threads); \
    snprintf(name##_ctx, sizeof name##_ctx, "%lld", (long long)(c)->ctx_size); \
    snprintf(name##_kv, sizeof name##_kv, "%llu", (unsigned long long)(c)->kv_memory_bytes); \
    const char *const name[] = { "--model", (c)->model, "--engine", tool_engine_names[(c)->engine], "--threads", name##_threads, \
                                 "--ctx-size", name##_ctx, "--kv-memory", name##_kv, "--isa", (c)->isa, "--shape-policy", (c)->shape_policy, \
                                 "--host", "127.0.0.1", "--port", "0", "--log-level", "error", "--json=no", NULL }
#endif
