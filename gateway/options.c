/* The option table of baton-gateway and the rules between options. */
#include "gateway/options.h"
#include "crypto/keys.h"
#include "gateway/http/cors.h"
#include "model/options.h"
#include "node/node_options.h"

#include <string.h>

const char *const gw_options_policies[] = {"least-load", "prefix", "round-robin", NULL};

static const char *const metrics_for[] = {"auto", "open", "key", "off", NULL};
static const char *const node_choices[] = {"auto", "all", "admin", "none", NULL};

static const char *const shares_by[] = {"auto", "key", "address", "none", NULL};

#define ANSWERS "Answers, where a request does not say"

static const bt_opt table[] = {
    {.of = &bt_model_opts, .name = "model", BT_OPT_AT(gw_options, model), .required = true,
     .help = "GGUF file whose words and template are used, or a model's name; nodes must hold the same"},
    {.group = "Model", .letter = 'a', .name = "alias", .value = "NAME", BT_OPT_AT(gw_options, alias),
     .type = BT_OPT_STRING, .example = "my-model", .help = "another name that clients may give in 'model'"},
    {.of = &bt_model_opts, .name = "chat-template", BT_OPT_AT(gw_options, chat_template)},

    {.group = "HTTP", .name = "host", .value = "ADDR", BT_OPT_AT(gw_options, host), .type = BT_OPT_STRING,
     .def = "127.0.0.1",
     .help = "where clients connect; 0.0.0.0 opens it to the network, which needs --api-key-file"},
    {.group = "HTTP", .name = "port", .value = "PORT", BT_OPT_AT(gw_options, port), .type = BT_OPT_INT,
     .def = "8080", .lo = 0, .hi = 65535, .help = "where clients connect; 0 lets the system choose"},
    {.group = "HTTP", .name = "api-key-file", .value = "FILE", BT_OPT_AT(gw_options, api_key_file),
     .type = BT_OPT_STRING, .holds = BT_OPT_HOLDS_SECRET, .example = "key.txt",
     .help = "keys that clients must present as 'Authorization: Bearer KEY' or 'X-Api-Key: KEY', one a line, "
             "each with its role and limits behind it"},
    {.group = "HTTP", .name = "tls-cert", .value = "FILE", BT_OPT_AT(gw_options, tls_cert),
     .type = BT_OPT_STRING, .example = "fullchain.pem",
     .help = "serve https: the certificate, PEM, behind it those that signed it; read again at SIGHUP, "
             "where a pair that cannot be used leaves the old one"},
    {.group = "HTTP", .name = "tls-key", .value = "FILE", BT_OPT_AT(gw_options, tls_key),
     .type = BT_OPT_STRING, .holds = BT_OPT_HOLDS_SECRET, .example = "privkey.pem",
     .help = "the certificate's private key, PEM without a passphrase"},
    {.group = "HTTP", .name = "share-prefixes", BT_OPT_AT(gw_options, shares_prefixes), .type = BT_OPT_FLAG,
     .help = "prompts of different API keys share what nodes keep of them; without it a key finds only its "
             "own, so "
             "that cached_tokens and times tell it nothing about others"},
    {.group = "HTTP", .name = "insecure", BT_OPT_AT(gw_options, insecure), .type = BT_OPT_FLAG,
     .help = "serve the network without a key"},
    {.group = "HTTP", .name = "cors", .value = "ORIGIN", BT_OPT_AT(gw_options, cors), .type = BT_OPT_STRING,
     .example = "https://chat.example",
     .help = "web pages of this origin may use the gateway from a browser; * for all"},
    {.group = "HTTP", .name = "metrics", .value = "WHO", BT_OPT_AT(gw_options, metrics),
     .type = BT_OPT_CHOICE, .def = "auto", .choices = metrics_for,
     .help =
         "who may read /metrics: open to all, key for keys with role=metrics or role=admin, off for nobody; "
         "auto: open on loopback and without keys, else key"},
    {.group = "HTTP", .name = "no-metrics", BT_OPT_AT(gw_options, no_metrics), .type = BT_OPT_FLAG,
     .help = "the same as --metrics off"},
    {.group = "HTTP", .name = "node-choice", .value = "WHOSE", BT_OPT_AT(gw_options, node_choice),
     .type = BT_OPT_CHOICE, .def = "auto", .choices = node_choices,
     .help =
         "whose requests may name their nodes: all, admin for keys with role=admin, none; auto: admin where "
         "there are keys, else all"},

    {.group = "Nodes", .name = "control", .value = "ENDPOINT", BT_OPT_AT(gw_options, control),
     .type = BT_OPT_STRING, .def = "tcp://127.0.0.1:5600",
     .help =
         "where prefill and decode nodes connect; tcp://*:5600 opens it to the network, which needs --keys"},
    {.of = &bt_keys_opts, .group = "Nodes", .name = "keys", BT_OPT_AT(gw_options, keys)},
    {.of = &bt_keys_opts, .group = "Nodes", .name = "key", BT_OPT_AT(gw_options, key), .example = "gateway"},
    {.group = "Nodes", .name = "policy", .value = "POLICY", BT_OPT_AT(gw_options, policy),
     .type = BT_OPT_CHOICE, .def = "least-load", .choices = gw_options_policies,
     .help = "how a request's nodes are chosen"},
    {.group = "Nodes", .name = "share-by", .value = "WHAT", BT_OPT_AT(gw_options, share_by),
     .type = BT_OPT_CHOICE, .def = "auto", .choices = shares_by,
     .help = "who has a share of nodes and queue of its own: each key, by its weight; each address of "
             "clients; none; "
             "auto: key where there are keys, else address, on loopback none"},
    {.group = "Nodes", .name = "local-prefill-below", .value = "N",
     BT_OPT_AT(gw_options, local_prefill_below), .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 1 << 20,
     .help = "prompts with fewer tokens that a decode node has not had before are computed by it if it can, "
             "where "
             "its numbers equal the prefill nodes'; 0: none"},

    {.of = &bt_sampling_opts, .group = ANSWERS, .name = "temp", BT_OPT_AT(gw_options, answers.temp)},
    {.of = &bt_sampling_opts, .group = ANSWERS, .name = "top-p", BT_OPT_AT(gw_options, answers.top_p)},
    {.of = &bt_sampling_opts, .group = ANSWERS, .name = "top-k", BT_OPT_AT(gw_options, answers.top_k)},
    {.of = &bt_sampling_opts, .group = ANSWERS, .name = "min-p", BT_OPT_AT(gw_options, answers.min_p)},
    {.of = &bt_sampling_opts, .group = ANSWERS, .name = "repetition-penalty",
     BT_OPT_AT(gw_options, answers.repeat_penalty)},
    {.group = ANSWERS, .name = "max-answer", .value = "N", BT_OPT_AT(gw_options, answers.max_answer),
     .type = BT_OPT_INT, .def = "2048", .lo = 1, .hi = 1 << 20,
     .help = "tokens of a chat's answer at most, where the request has no max_tokens"},

    {.group = "Limits", .name = "max-queue", .value = "N", BT_OPT_AT(gw_options, max_queue),
     .type = BT_OPT_INT, .def = "64", .lo = 1, .hi = 65536,
     .help = "requests that may wait; one more is answered 429"},
    {.group = "Limits", .name = "max-active", .value = "N", BT_OPT_AT(gw_options, max_active),
     .type = BT_OPT_INT, .def = "4096", .lo = 1, .hi = 65536,
     .help = "requests that run at a time, where nodes have slots for so many; memory: 2 KiB each, 16 KiB if "
             "all end at once"},
    {.group = "Limits", .name = "max-nodes", .value = "N", BT_OPT_AT(gw_options, max_nodes),
     .type = BT_OPT_INT, .def = "1024", .lo = 2, .hi = 65536,
     .help =
         "nodes known at a time; one more is refused; memory: 10 KiB each, and 4 to 224 MiB for what they "
         "have had of prompts"},
    {.group = "Limits", .name = "max-connections", .value = "N", BT_OPT_AT(gw_options, max_connections),
     .type = BT_OPT_INT, .def = "256", .lo = 1, .hi = 65536,
     .help = "HTTP connections at a time; idle and slow ones give way to new ones, then 503"},
    {.group = "Limits", .name = "max-body", .value = "SIZE", BT_OPT_AT(gw_options, max_body_bytes),
     .type = BT_OPT_SIZE, .def = "4M", .lo = 1024, .hi = 64 << 20,
     .help = "largest request body; all bodies together may take 16 times as much"},
    {.group = "Limits", .name = "timeout", .value = "TIME", BT_OPT_AT(gw_options, timeout_ms),
     .type = BT_OPT_DURATION, .def = "600s", .lo = 1000, .hi = 86400000,
     .help = "longest life of a request, waiting included; then 504"},
    {.group = "Limits", .name = "recovery-timeout", .value = "TIME", BT_OPT_AT(gw_options, recovery_ms),
     .type = BT_OPT_DURATION, .def = "30s", .lo = 0, .hi = 3600000,
     .help = "how long a request whose node was lost waits for another one, or the same one restarted; then "
             "it fails"},
    {.group = "Limits", .name = "idle-timeout", .value = "TIME", BT_OPT_AT(gw_options, idle_ms),
     .type = BT_OPT_DURATION, .def = "30s", .lo = 1000, .hi = 3600000,
     .help = "a client that is idle, or slower than 8 KiB/s, for so long is cut off"},
    {.of = &bt_node_opts, .group = "Limits", .name = "drain-timeout", BT_OPT_AT(gw_options, drain_ms),
     .help = "after SIGTERM or SIGINT, how long running requests may take to end"},

    {.group = "Capture", .name = "capture", .value = "FILE", BT_OPT_AT(gw_options, capture),
     .type = BT_OPT_STRING, .example = "capture.btcp",
     .help = "record each request that ends: when it came, lengths, keyed hashes of its blocks, sampling, "
             "times and outcome, but no text (see baton trace)"},
    {.group = "Capture", .name = "capture-text", BT_OPT_AT(gw_options, capture_text), .type = BT_OPT_FLAG,
     .help = "record prompts and answers too"},
    {.group = "Capture", .name = "capture-seal", .value = "FILE", BT_OPT_AT(gw_options, capture_seal),
     .type = BT_OPT_STRING, .example = "capture.public",
     .help = "seal the records to this public key (see baton trace key), so that they cannot be read here"},
    {.group = "Capture", .name = "capture-rotate", .value = "SIZE",
     BT_OPT_AT(gw_options, capture_rotate_bytes), .type = BT_OPT_SIZE, .def = "256M", .lo = 4096,
     .hi = (int64_t)1 << 40, .help = "a file of this size becomes FILE.1, FILE.2, ... and FILE begins anew"},

    BT_OPT_ALL(bt_log_opts, gw_options, log, NULL),
};
const bt_opt_group gw_options_group = BT_OPT_GROUP(table);

const bt_opt_program gw_options_program = {
    .name = "baton-gateway",
    .summary = "the HTTP door: take requests of the OpenAI API, pass them to prefill and decode nodes",
    .usage = "-m MODEL [options]",
    .normal = "baton-gateway -m smollm2 --port 8080",
    .opts = table,
    .opt_count = BT_OPT_COUNT(table),
};

double gw_answer_option_value(const gw_answer_options *o, bt_default_field field)
{
    const double values[BT_DEFAULT_FIELDS] = {
        [BT_DEFAULT_TEMPERATURE] = o->temp,
        [BT_DEFAULT_TOP_P] = o->top_p,
        [BT_DEFAULT_TOP_K] = (double)o->top_k,
        [BT_DEFAULT_MIN_P] = o->min_p,
        [BT_DEFAULT_REPETITION_PENALTY] = o->repeat_penalty,
    };
    return values[field];
}

void gw_options_note(gw_options *o, const bt_opt_args *args)
{
    static const char *const names[BT_DEFAULT_FIELDS] = {
        [BT_DEFAULT_TEMPERATURE] = "temp",
        [BT_DEFAULT_TOP_P] = "top-p",
        [BT_DEFAULT_TOP_K] = "top-k",
        [BT_DEFAULT_MIN_P] = "min-p",
        [BT_DEFAULT_REPETITION_PENALTY] = "repetition-penalty",
    };
    for (size_t i = 0; i < BT_DEFAULT_FIELDS; i++)
        o->is_given[i] = bt_opt_source_of(args, names[i]) != BT_OPT_FROM_DEFAULT;
}

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "[::1]") == 0;
}

static bool is_local_endpoint(const char *endpoint)
{
    char host[256];
    if (strncmp(endpoint, "ipc://", 6) == 0) return true;
    if (strncmp(endpoint, "tcp://", 6) != 0) return false;
    const char *begin = endpoint + 6, *end = strrchr(begin, ':');
    if (!end || (size_t)(end - begin) >= sizeof host) return false;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = 0;
    return is_loopback(host);
}

gw_metrics_for gw_options_metrics(const gw_options *o)
{
    if (o->no_metrics) return GW_METRICS_OFF;
    if (o->metrics != GW_METRICS_AUTO) return (gw_metrics_for)o->metrics;
    return is_loopback(o->host) || !o->api_key_file ? GW_METRICS_OPEN : GW_METRICS_KEY;
}

gw_node_choice gw_options_node_choice(const gw_options *o)
{
    if (o->node_choice != GW_CHOICE_AUTO) return (gw_node_choice)o->node_choice;
    return o->api_key_file ? GW_CHOICE_ADMIN : GW_CHOICE_ALL;
}

gw_share_by gw_options_share_by(const gw_options *o)
{
    if (o->share_by != GW_SHARE_AUTO) return (gw_share_by)o->share_by;
    if (o->api_key_file) return GW_SHARE_KEY;
    return is_loopback(o->host) ? GW_SHARE_NONE : GW_SHARE_ADDRESS;
}

/* An option that asks for a role needs keys that have roles. */
static bt_err check_rights(const gw_options *o, bt_fault *fault)
{
    if (o->no_metrics && o->metrics != GW_METRICS_AUTO && o->metrics != GW_METRICS_OFF)
        return bt_fail(fault, BT_EARG, "--no-metrics and --metrics %s exclude each other",
                       metrics_for[o->metrics]);
    if (!o->api_key_file && o->metrics == GW_METRICS_KEY)
        return bt_fail(fault, BT_EARG, "--metrics key needs --api-key-file FILE, with a key of role=metrics");
    if (!o->api_key_file && o->node_choice == GW_CHOICE_ADMIN)
        return bt_fail(fault, BT_EARG,
                       "--node-choice admin needs --api-key-file FILE, with a key of role=admin");
    if (!o->api_key_file && o->share_by == GW_SHARE_KEY)
        return bt_fail(fault, BT_EARG, "--share-by key needs --api-key-file FILE");
    return BT_OK;
}

bt_err gw_options_check(const gw_options *o, bt_fault *fault)
{
    if (!is_loopback(o->host) && !o->api_key_file && !o->insecure)
        return bt_fail(fault, BT_EARG,
                       "--host %s opens the gateway to the network: give --api-key-file FILE, or --insecure",
                       o->host);
    if (strncmp(o->control, "tcp://", 6) != 0 && strncmp(o->control, "ipc://", 6) != 0)
        return bt_fail(fault, BT_EARG, "--control '%s' is not an endpoint; for example tcp://127.0.0.1:5600",
                       o->control);
    if (!is_local_endpoint(o->control) && !o->keys)
        return bt_fail(fault, BT_EARG,
                       "--control %s is open to the network: give --keys DIR (see baton keygen)", o->control);
    if (o->cors && !gw_cors_is_origin(o->cors))
        return bt_fail(fault, BT_EARG, "--cors '%s' is no origin; for example https://chat.example, or *",
                       o->cors);
    if (!o->capture && (o->capture_text || o->capture_seal))
        return bt_fail(fault, BT_EARG, "--capture-%s needs --capture FILE",
                       o->capture_text ? "text" : "seal");
    if (!o->tls_cert != !o->tls_key)
        return bt_fail(fault, BT_EARG, "--tls-%s needs --tls-%s FILE: a certificate and its private key",
                       o->tls_cert ? "cert" : "key", o->tls_cert ? "key" : "cert");
    if (o->alias && !*o->alias)
        return bt_fail(fault, BT_EARG, "--alias is empty: give a name, or leave it out");
    return check_rights(o, fault);
}
