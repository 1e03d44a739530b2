#ifndef DC_OPTIONS_H
#define DC_OPTIONS_H
#include "engine/names.h"
#include "model/weights.h"
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
    int64_t slots, batch_rows, growth_tokens, chunk_tokens, speculate;
    uint64_t swap_memory_bytes, window_bytes;
} dc_options;

/* Rows of an option table, under the heading `in`, whose config has a dc_options at `field`. A program that is a
 * prefill node first gives the slots another name and listens elsewhere. The engine is a row of its own. */
// clang-format off
#define DC_OPTS(config, field, in, slots_name, listen_default) \
    {.group = (in), .name = "listen", .value = "ENDPOINT", BT_OPT_AT(config, field.listen), .type = BT_OPT_STRING, \
     .def = (listen_default), .help = "where prefill nodes bring KV; port * lets the system choose"}, \
    {.group = (in), .name = "advertise", .value = "ENDPOINT", BT_OPT_AT(config, field.advertise), \
     .type = BT_OPT_STRING, .example = "tcp://10.0.0.7:5602", \
     .help = "the same as others must dial it, where that differs from --listen"}, \
    {.group = (in), .name = "window", .value = "SIZE", BT_OPT_AT(config, field.window_bytes), .type = BT_OPT_SIZE, \
     .def = "64M", .lo = 1 << 20, .hi = 1LL << 34, \
     .help = "KV bytes that one prefill node may have in flight to this node"}, \
    {.group = (in), .name = "weights", .value = "FORM", BT_OPT_AT(config, field.weights), .type = BT_OPT_CHOICE, \
     .def = "f16", .choices = bt_weights_forms, \
     .help = "form of the weights of engine host, converted once and kept; fewer bytes are read faster"}, \
    {.group = (in), .name = (slots_name), .value = "N", BT_OPT_AT(config, field.slots), .type = BT_OPT_INT, \
     .def = "32", .lo = 1, .hi = 1024, .help = "sequences taken at once"}, \
    {.group = (in), .name = "batch-rows", .value = "N", BT_OPT_AT(config, field.batch_rows), .type = BT_OPT_INT, \
     .def = BT_ENGINE_BATCH_ROWS_TEXT, .lo = 1, .hi = 512, \
     .help = "rows of one step at most: a token each of so many sequences, or fewer with tokens to replay or drafts"}, \
    {.group = (in), .name = "growth-tokens", .value = "N", BT_OPT_AT(config, field.growth_tokens), \
     .type = BT_OPT_INT, .def = "256", .lo = 0, .hi = 1 << 20, \
     .help = "tokens of its answer that memory is counted for when a request is taken; it may get more, or be " \
             "preempted"}, \
    {.group = (in), .name = "swap-memory", .value = "SIZE", BT_OPT_AT(config, field.swap_memory_bytes), \
     .type = BT_OPT_SIZE, .def = "1G", .lo = 0, .hi = INT64_MAX, \
     .help = "where the KV of preempted sequences waits; 0: they are computed again"}, \
    {.group = (in), .name = "speculate", .value = "N", BT_OPT_AT(config, field.speculate), .type = BT_OPT_INT, \
     .def = "0", .lo = 0, .hi = 64, \
     .help = "tokens guessed from the text so far and checked in one step, at most; the output is the same"}, \
    {.group = (in), .name = "local-prefill", .value = "ENGINE", BT_OPT_AT(config, field.local_prefill), \
     .type = BT_OPT_CHOICE, .def = "off", .choices = bt_engine_chunked_names, \
     .help = "compute prompts here too, with the engine of prefill nodes; give it what they are given"}, \
    {.group = (in), .name = "chunk-tokens", .value = "N", BT_OPT_AT(config, field.chunk_tokens), \
     .type = BT_OPT_INT, .def = "256", .lo = 16, .hi = 4096, \
     .help = "prompt tokens computed here between two steps, at most: running sequences never wait longer"}
// clang-format on
#endif
