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

/* Rows of an option table whose config has a tool_sampling at `field`. */
// clang-format off
#define TOOL_SAMPLING_OPTS(config, field) \
    {.group = "Answer", .name = "temp", .value = "T", BT_OPT_AT(config, field.temp), \
     .type = BT_OPT_DOUBLE, .flo = 0, .fhi = 2, .example = "0.8", \
     .help = "temperature; 0 is greedy; without it the gateway's: 0.8, or the model file's"}, \
    {.group = "Answer", .name = "top-p", .value = "P", BT_OPT_AT(config, field.top_p), \
     .type = BT_OPT_DOUBLE, .flo = 0, .fhi = 1, .example = "0.95", \
     .help = "sample from the likeliest tokens that together have probability P; 1: off; without it the " \
             "gateway's: 0.95, or the model file's"}, \
    {.group = "Answer", .name = "top-k", .value = "K", BT_OPT_AT(config, field.top_k), \
     .type = BT_OPT_INT, .lo = 0, .hi = 1 << 20, .example = "40", \
     .help = "sample from the K likeliest tokens; 0: off; without it the gateway's: 40, or the model file's"}, \
    {.group = "Answer", .name = "min-p", .value = "P", BT_OPT_AT(config, field.min_p), \
     .type = BT_OPT_DOUBLE, .flo = 0, .fhi = 1, .example = "0.05", \
     .help = "leave out tokens less likely than P times the likeliest; 0: off; without it the gateway's: 0.05, " \
             "or the model file's"}, \
    {.group = "Answer", .name = "presence-penalty", .value = "X", BT_OPT_AT(config, field.presence_penalty), \
     .type = BT_OPT_DOUBLE, .flo = -2, .fhi = 2, .example = "0.5", \
     .help = "taken off the logit of each token of the answer so far; 0: off"}, \
    {.group = "Answer", .name = "frequency-penalty", .value = "X", BT_OPT_AT(config, field.frequency_penalty), \
     .type = BT_OPT_DOUBLE, .flo = -2, .fhi = 2, .example = "0.5", \
     .help = "the same, times how often it came; 0: off"}, \
    {.group = "Answer", .name = "repetition-penalty", .value = "X", BT_OPT_AT(config, field.repetition_penalty), \
     .type = BT_OPT_DOUBLE, .flo = 0.01, .fhi = 100, .example = "1.1", \
     .help = "makes tokens of prompt and answer less likely (above 1) or more; 1: off; without it the gateway's"}
// clang-format on

/* Adds to the request the options that were given. False: out of memory. */
bool tool_sampling_add(json_t *request, const tool_sampling *s, const bt_opt_args *args);
#endif
