/* One row for each option of input, output and servers that several commands have. */
#include "tools/options.h"

static const bt_opt server[] = {
    {.group = "Gateway", .name = "url", .value = "URL", .type = BT_OPT_STRING, .holds = BT_OPT_HOLDS_URL,
     .example = "http://127.0.0.1:8080", .help = "where the gateway listens"},
    {.group = "Gateway", .name = "api-key-file", .value = "FILE", .type = BT_OPT_STRING,
     .holds = BT_OPT_HOLDS_SECRET, .example = "key.txt", .help = "the server's API key"},
    {.group = "Gateway", .name = "ca-file", .value = "FILE", .type = BT_OPT_STRING, .example = "ca.pem",
     .help = "for https: trust what these certificates have signed, PEM, instead of the system's"},
    {.group = "Server", .name = "timeout", .value = "TIME", .type = BT_OPT_DURATION, .def = "600s",
     .lo = 1000, .hi = 86400000, .help = "give a request up after so long"},
    {.group = "Server", .name = "served-model", .value = "NAME", .type = BT_OPT_STRING, .example = "my-model",
     .help = "the model to name in requests; without it the first that the server lists"},
};
const bt_opt_group tool_server_opts = BT_OPT_GROUP(server);

static const bt_opt text[] = {
    {.group = "Input", .letter = 'p', .name = "prompt", .value = "TEXT", .type = BT_OPT_STRING,
     .example = "'The capital of France is'", .help = "the text"},
    {.group = "Input", .letter = 'f', .name = "file", .value = "FILE", .type = BT_OPT_STRING,
     .example = "text.txt", .help = "a file with the text, '-' for stdin"},
    {.group = "Input", .name = "system", .value = "TEXT", .type = BT_OPT_STRING,
     .example = "'Answer briefly.'", .help = "system message"},
};
const bt_opt_group tool_text_opts = BT_OPT_GROUP(text);

static const bt_opt output[] = {
    {.group = "Output", .letter = 'o', .name = "output", .value = "FILE", .type = BT_OPT_STRING,
     .help = "where it is written"},
    {.group = "Output", .name = "timeline", .value = "FILE", .type = BT_OPT_STRING, .example = "request.html",
     .help =
         "the picture: a page (.html), or a trace for Perfetto (.pftrace; .json, which Chrome opens too)"},
    {.group = "Output", .name = "rows", .value = "N", .type = BT_OPT_INT, .help = "so many rows"},
    {.group = "Output", .name = "json", .type = BT_OPT_FLAG, .help = "one JSON object on stdout"},
    {.group = "Output", .letter = 'q', .name = "quiet", .type = BT_OPT_FLAG, .help = "no progress on stderr"},
};
const bt_opt_group tool_output_opts = BT_OPT_GROUP(output);

static const bt_opt seed[] = {
    {.group = "Load", .name = "seed", .value = "S", .type = BT_OPT_INT, .def = "1", .lo = 0, .hi = INT64_MAX,
     .help = "seed of the random draws"},
};
const bt_opt_group tool_seed_opts = BT_OPT_GROUP(seed);
