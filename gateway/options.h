#ifndef GW_OPTIONS_H
#define GW_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "model/defaults.h"

/* How answers are drawn where a request does not say. Options that nobody gave are as the model's file says
 * (model/defaults.h). */
typedef struct gw_answer_options {
    double temp, top_p, min_p, repeat_penalty;
    int64_t top_k, max_answer;
} gw_answer_options;

/* The value of the option for this field. */
double gw_answer_option_value(const gw_answer_options *o, bt_default_field field);

/* Who may read /metrics, whose requests may name nodes, and who has a share of the nodes: choices of --metrics,
 * --node-choice and --share-by. AUTO is none of the others until gw_options_metrics, gw_options_node_choice and
 * gw_options_share_by say which. */
typedef enum gw_metrics_for { GW_METRICS_AUTO, GW_METRICS_OPEN, GW_METRICS_KEY, GW_METRICS_OFF } gw_metrics_for;
typedef enum gw_share_by { GW_SHARE_AUTO, GW_SHARE_KEY, GW_SHARE_ADDRESS, GW_SHARE_NONE } gw_share_by;
typedef enum gw_node_choice { GW_CHOICE_AUTO, GW_CHOICE_ALL, GW_CHOICE_ADMIN, GW_CHOICE_NONE } gw_node_choice;

/* Every setting of baton-gateway, with its default and limits, in one table. */
typedef struct gw_options {
    const char *model, *alias, *chat_template;
    const char *host;
    int64_t port;
    const char *control, *keys, *key, *api_key_file, *cors;
    const char *tls_cert, *tls_key; /* files; NULL both: plain HTTP */
    bool insecure, shares_prefixes;
    int64_t max_queue, max_active, max_nodes, max_connections;
    uint64_t max_body_bytes;
    int64_t timeout_ms, recovery_ms, idle_ms, drain_ms;
    int64_t local_prefill_below;
    gw_answer_options answers;
    bool is_given[BT_DEFAULT_FIELDS]; /* which of answers were, by gw_options_note */
    int policy;                       /* index in the order of gw_policy, from 0 */
    bool no_metrics;
    int metrics, node_choice;           /* gw_metrics_for, gw_node_choice */
    int share_by;                       /* gw_share_by */
    const char *capture, *capture_seal; /* files; NULL: none */
    bool capture_text;
    uint64_t capture_rotate_bytes;
    bt_log_options log;
} gw_options;

extern const bt_opt_program gw_options_program;
extern const bt_opt_group gw_options_group; /* its rows, for programs that start or simulate a gateway */
/* Names of policies, for --policy and for what a request asks for. In the order of gw_policy, whose first
 * is 1; ends with NULL. */
extern const char *const gw_options_policies[];

/* Fills is_given from what a parse found. */
void gw_options_note(gw_options *o, const bt_opt_args *args);

/* Open on loopback and where there are no keys, else KEY; OFF with --no-metrics. */
gw_metrics_for gw_options_metrics(const gw_options *o);
/* ADMIN where there are keys, else ALL. */
gw_node_choice gw_options_node_choice(const gw_options *o);
/* KEY where there are keys, else NONE on loopback and ADDRESS elsewhere. */
gw_share_by gw_options_share_by(const gw_options *o);

/* Rules between settings: an address that is not loopback needs a key (HTTP: --api-key-file, control:
 * --keys) unless --insecure says otherwise for HTTP; what asks for keys needs keys; a certificate needs its key; what a
 * capture is like needs a capture. BT_EARG with the option named. */
bt_err gw_options_check(const gw_options *o, bt_fault *fault);
#endif
