#ifndef DC_OPTIONS_H
#define DC_OPTIONS_H
#include "node/node_options.h"
#include "npu/compile/obtain.h"

/* The settings of a decode node, those of every node and its own, with defaults and limits in one table. */
typedef struct dc_options {
    const bt_node_options *node;
    const bt_obtain_want *want; /* the package, where an engine runs one */
    const char *listen, *advertise;
    int engine;        /* index in bt_engine_decode_names */
    int local_prefill; /* in bt_engine_chunked_names; 0: none */
    int weights;       /* index in bt_weights_forms */
    int64_t slots, batch_rows, growth_tokens, chunk_tokens, speculate, waiting;
    const char *overtake; /* bt_overtake_read */
    uint64_t swap_memory_bytes, window_bytes;
} dc_options;

/* The rows of a dc_options, all but its engine. A program that uses them names the default of --listen. */
extern const bt_opt_group dc_opts;
#endif
