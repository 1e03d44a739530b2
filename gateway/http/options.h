#ifndef GW_OPTIONS_H
#define GW_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/opt.h"
#include "model/defaults.h"

/* How answers are drawn where a request does not say; `baton up` has the same options and hands them on. Those that
 * nobody gave are as the model's file says (model/defaults.h). */
typedef struct gw_answer_options {
    double temp, top_p, min_p, repeat_penalty;
    int64_t top_k, max_answer;
} gw_answer_options;

/* Rows of an option table whose config has a gw_answer_options at `at`. */
#define GW_ANSWER_OPTS(config, at) \
    {.group = "Answers", \
     .name = "temp", \
     .value = "T", \
     BT_OPT_AT(config, at.temp), \
     .type = BT_OPT_DOUBLE, \
     .flo = 0, \
     .fhi = 2, \
     .example = "0.8", \
     .help = "temperature where a request has none; 0 is greedy; without it the model file's, else 0.8"}, \
        {.group = "Answers", \
         .name = "top-p", \
         .value = "P", \
         BT_OPT_AT(config, at.top_p), \
         .type = BT_OPT_DOUBLE, \
         .flo = 0, \
         .fhi = 1, \
         .example = "0.95", \
         .help = "top_p where a request has none; 1: off; without it the model file's, else 0.95"}, \
        {.group = "Answers", \
         .name = "top-k", \
         .value = "K", \
         BT_OPT_AT(config, at.top_k), \
         .type = BT_OPT_INT, \
         .lo = 0, \
         .hi = INT32_MAX, \
         .example = "40", \
         .help = "top_k where a request has none; 0: off; without it the model file's, else 40"}, \
        {.group = "Answers", \
         .name = "min-p", \
         .value = "P", \
         BT_OPT_AT(config, at.min_p), \
         .type = BT_OPT_DOUBLE, \
         .flo = 0, \
         .fhi = 1, \
         .example = "0.05", \
         .help = "min_p where a request has none; 0: off; without it the model file's, else 0.05"}, \
        {.group = "Answers", \
         .name = "repeat-penalty", \
         .value = "X", \
         BT_OPT_AT(config, at.repeat_penalty), \
         .type = BT_OPT_DOUBLE, \
         .flo = 0.01, \
         .fhi = 100, \
         .example = "1.1", \
         .help = "repetition_penalty where a request has none; 1: off; without it the model file's, else 1"}, \
    { \
        .group = "Answers", .name = "max-answer", .value = "N", BT_OPT_AT(config, at.max_answer), .type = BT_OPT_INT, \
        .def = "2048", .lo = 1, .hi = 1 << 20, \
        .help = "tokens of a chat's answer at most, where the request has no max_tokens" \
    }

/* The options of GW_ANSWER_OPTS that stand for a field of model/defaults.h. */
typedef struct gw_answer_option {
    const char *name; /* of the option */
    bt_default_field field;
} gw_answer_option;
extern const gw_answer_option gw_answer_options_list[BT_DEFAULT_FIELDS];
double gw_answer_option_value(const gw_answer_options *o, bt_default_field field);

/* Every setting of baton-gateway, with its default and limits, in one table. */
typedef struct gw_options {
    const char *model, *alias;
    const char *host;
    int64_t port;
    const char *control, *keys, *key, *api_key_file;
    bool insecure;
    int64_t max_queue, max_connections;
    uint64_t max_body_bytes;
    int64_t timeout_ms, recovery_ms, idle_ms, drain_ms;
    int64_t local_prefill_below;
    gw_answer_options answers;
    bool is_given[BT_DEFAULT_FIELDS]; /* which of them, by gw_options_note */
    int policy;                       /* index in the order of gw_policy, from 0 */
    bool no_metrics, verbose;
    int log_level, log_format; /* index in bt_log_level_names; 0 text, 1 json */
} gw_options;

extern const bt_opt_program gw_options_program;
/* Names of policies, for --policy and for what a request asks for. In the order of gw_policy, whose first
 * is 1; ends with NULL. */
extern const char *const gw_options_policies[];

/* Fills is_given from what a parse found. */
void gw_options_note(gw_options *o, const bt_opt_args *args);

/* Rules between settings: an address that is not loopback needs a key (HTTP: --api-key-file, control:
 * --keys) unless --insecure says otherwise for HTTP. BT_EARG with the option named. */
bt_err gw_options_check(const gw_options *o, bt_fault *fault);
#endif
