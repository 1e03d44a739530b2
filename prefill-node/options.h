#ifndef PF_OPTIONS_H
#define PF_OPTIONS_H
#include "base/opt.h"
#include "npu/compile/obtain.h"

/* Every setting of baton-prefill, its default and its limits: one table (options.c), from which --help and the man
 * page come. */
typedef struct pf_options {
    const char *model, *isa, *id, *keys, *key;
    int engine, kv_dtype, log_level, log_format;
    int64_t threads, ctx_size, slots, drain_timeout_ms, min_overlap_tokens;
    uint64_t kv_memory_bytes, cache_limit_bytes;
    bt_opt_list gateways;
    bt_obtain_want want;
} pf_options;

extern const bt_opt_program pf_options_program;
#endif
