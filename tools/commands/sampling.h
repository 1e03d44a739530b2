#ifndef BT_TOOLS_SAMPLING_H
#define BT_TOOLS_SAMPLING_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/opt.h"

/* How the tokens of an answer are drawn, where the user says so. An option that nobody gave stays out of the request,
 * so that the gateway's defaults hold: its own options, the model's file, or those of GET /props. */
typedef struct tool_sampling {
    double temp, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty;
    int64_t top_k;
} tool_sampling;

extern const bt_opt_group tool_sampling_opts; /* of a tool_sampling */

/* Adds to the request the options that were given. False: out of memory. */
bool tool_sampling_add(json_t *request, const tool_sampling *s, const bt_opt_args *args);
#endif
