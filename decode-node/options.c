/* The rows of a decode node. */
#include "decode-node/options.h"
#include "engine/names.h"
#include "engine/options.h"
#include "model/options.h"

static const bt_opt rows[] = {
    {.name = "listen", .value = "ENDPOINT", BT_OPT_AT(dc_options, listen), .type = BT_OPT_STRING,
     .help = "where prefill nodes bring KV; port * lets the system choose"},
    {.name = "advertise", .value = "ENDPOINT", BT_OPT_AT(dc_options, advertise), .type = BT_OPT_STRING,
     .example = "tcp://10.0.0.7:5602",
     .help = "the same as others must dial it, where that differs from --listen"},
    {.of = &bt_serving_opts, .name = "window", BT_OPT_AT(dc_options, window_bytes)},
    {.of = &bt_model_opts, .name = "weights", BT_OPT_AT(dc_options, weights)},
    {.of = &bt_serving_opts, .name = "slots", BT_OPT_AT(dc_options, slots)},
    {.of = &bt_serving_opts, .name = "batch-rows", BT_OPT_AT(dc_options, batch_rows)},
    {.of = &bt_serving_opts, .name = "growth-tokens", BT_OPT_AT(dc_options, growth_tokens)},
    {.of = &bt_serving_opts, .name = "waiting", BT_OPT_AT(dc_options, waiting)},
    {.of = &bt_serving_opts, .name = "overtake", BT_OPT_AT(dc_options, overtake)},
    {.of = &bt_serving_opts, .name = "swap-memory", BT_OPT_AT(dc_options, swap_memory_bytes)},
    {.of = &bt_serving_opts, .name = "speculate", BT_OPT_AT(dc_options, speculate)},
    {.name = "local-prefill", .value = "ENGINE", BT_OPT_AT(dc_options, local_prefill), .type = BT_OPT_CHOICE,
     .def = "off", .choices = bt_engine_chunked_names,
     .help = "compute prompts here too, with the engine of prefill nodes; give it what they are given"},
    {.of = &bt_serving_opts, .name = "chunk-tokens", BT_OPT_AT(dc_options, chunk_tokens)},
};
const bt_opt_group dc_opts = BT_OPT_GROUP(rows);
