/* One row for each option of models, machines and drawing that programs share. */
#include "model/options.h"
#include "base/cache_files.h"
#include "kernels/kernels.h"
#include "model/templates.h"
#include "model/weights.h"

static const bt_opt model[] = {
    {.group = "Model", .letter = 'm', .name = "model", .value = "MODEL", .type = BT_OPT_STRING,
     .example = "smollm2",
     .help = "GGUF file, or the name of a model (baton list); the default model is smollm2"},
    {.group = "Model", .letter = 'c', .name = "ctx-size", .value = "N", .type = BT_OPT_INT, .def = "0",
     .lo = 0, .hi = 1 << 20,
     .help = "longest sequence in tokens; 0: the model's context, or what --kv-memory holds if that is less"},
    {.group = "Model", .name = "weights", .value = "FORM", .type = BT_OPT_CHOICE, .def = "f16",
     .choices = bt_weights_forms,
     .help = "weights of decoding with host, converted once and kept; fewer bytes are read faster"},
    {.group = "Model", .name = "chat-template", .value = "WHICH", .type = BT_OPT_STRING, .example = "chatml",
     .help = "template of chats instead of the model file's: one of the file's by its "
             "name, " BT_TEMPLATES_BUILT_IN ", or a file"},
};
const bt_opt_group bt_model_opts = BT_OPT_GROUP(model);

static const bt_opt machine[] = {
    {.group = "Machine", .letter = 't', .name = "threads", .value = "N", .type = BT_OPT_INT, .def = "0",
     .lo = 0, .hi = 256, .help = "compute threads; 0: all cores"},
    {.group = "Machine", .name = "isa", .value = "NAME", .type = BT_OPT_STRING, .def = "auto",
     .help = "kernels: auto, " BT_KERNELS_NAMES "; the results are the same"},
    {.group = "Machine", .name = "kv-memory", .value = "SIZE", .type = BT_OPT_SIZE, .def = "1G",
     .lo = 1 << 20, .hi = INT64_MAX,
     .help = "KV memory of a node, its kept prefixes included; it must hold one sequence of --ctx-size"},
    {.group = "Machine", .name = "memory", .value = "SIZE", .type = BT_OPT_SIZE, .def = "0", .lo = 0,
     .hi = INT64_MAX,
     .help = "memory that there is: what needs more does not begin; 0: what machine and control group have "
             "free"},
    {.group = "Machine", .name = "cache-limit", .value = "SIZE", .type = BT_OPT_SIZE,
     .def = BT_CACHE_FILES_LIMIT_TEXT, .lo = 0, .hi = INT64_MAX,
     .help = "packages and converted weights that are kept on disk; past it those used longest ago go (see "
             "baton cache)"},
};
const bt_opt_group bt_machine_opts = BT_OPT_GROUP(machine);

static const bt_opt sampling[] = {
    {.group = "Answer", .name = "temp", .value = "T", .type = BT_OPT_DOUBLE, .flo = 0, .fhi = 2,
     .example = "0.8", .help = "temperature; 0 is greedy; where nobody gives it the model file's, else 0.8"},
    {.group = "Answer", .name = "top-p", .value = "P", .type = BT_OPT_DOUBLE, .flo = 0, .fhi = 1,
     .example = "0.95",
     .help = "sample from the likeliest tokens that together have probability P; 1: off; where nobody gives "
             "it the model file's, else 0.95"},
    {.group = "Answer", .name = "top-k", .value = "K", .type = BT_OPT_INT, .lo = 0, .hi = INT32_MAX,
     .example = "40",
     .help = "sample from the K likeliest tokens; 0: off; where nobody gives it the model file's, else 40"},
    {.group = "Answer", .name = "min-p", .value = "P", .type = BT_OPT_DOUBLE, .flo = 0, .fhi = 1,
     .example = "0.05",
     .help = "leave out tokens less likely than P times the likeliest; 0: off; where nobody gives it the "
             "model file's, else 0.05"},
    {.group = "Answer", .name = "presence-penalty", .value = "X", .type = BT_OPT_DOUBLE, .flo = -2, .fhi = 2,
     .example = "0.5", .help = "taken off the logit of each token of the answer so far; 0: off"},
    {.group = "Answer", .name = "frequency-penalty", .value = "X", .type = BT_OPT_DOUBLE, .flo = -2, .fhi = 2,
     .example = "0.5", .help = "the same, times how often it came; 0: off"},
    {.group = "Answer", .name = "repetition-penalty", .value = "X", .type = BT_OPT_DOUBLE, .flo = 0.01,
     .fhi = 100, .example = "1.1",
     .help = "makes tokens of prompt and answer less likely (above 1) or more; 1: off; where nobody gives it "
             "the model file's, else 1"},
    {.group = "Answer", .letter = 'n', .name = "n-predict", .value = "N", .type = BT_OPT_INT, .def = "128",
     .lo = 1, .hi = 1 << 20, .help = "tokens of an answer at most"},
};
const bt_opt_group bt_sampling_opts = BT_OPT_GROUP(sampling);
