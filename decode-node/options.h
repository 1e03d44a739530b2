#ifndef DC_OPTIONS_H
#define DC_OPTIONS_H
#include "base/opt.h"
#include "npu/compile/obtain.h"

/* Every setting of baton-decode, its default and its limits: one table (options.c), from which --help and the man
 * page come. */
typedef struct dc_options {
    const char *model, *isa, *id, *keys, *key, *listen, *advertise;
    int engine, kv_dtype, weights, local_prefill, prefill_engine, log_level, log_format;
    int64_t threads, ctx_size, slots, batch_rows, growth_tokens, chunk_tokens, speculate, drain_timeout_ms;
    uint64_t kv_memory_bytes, swap_memory_bytes, cache_limit_bytes, window_bytes;
    bt_obtain_want want; /* of --local-prefill npu and --prefill-engine npu */
    bt_opt_list gateways;
} dc_options;

extern const bt_opt_program dc_options_program;
/* What computes prompts when the process serves as a prefill node: an index of bt_engine_names. */
int dc_options_prefill_engine(const dc_options *o);
#endif
