/* baton trace: look at traces of requests, turn one into another, draw one that is like another, draw a
 * picture. */
#include "base/clock.h"
#include "model/options.h"
#include "tools/options.h"
#include "lab/replay/options.h"
#include "tools/tool.h"
#include "lab/trace/info.h"
#include "lab/trace/plot.h"
#include "lab/trace/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TO_MOONCAKE, TO_BATON };
static const char *const to_names[] = {"mooncake", "baton", NULL};

typedef struct config {
    tool_trace_options source;
    const char *output, *rates;
    int to;
    int64_t block_tokens;
    int64_t start_ms, duration_ms, skip, limit;
    double speed, input, output_ratio;
    int64_t max_input, max_output, new_block;
    int64_t requests, seed;
    double rate, cv;
    bool json;
} config;

/* The actions that an option is for. */
enum { INFO = 1, CONVERT = 2, CUT = 4, SCALE = 8, SYNTH = 16, PLOT = 32, KEY = 64 };
enum { MAKES = CONVERT | CUT | SCALE | SYNTH, READS = MAKES | INFO | PLOT };
static const struct {
    const char *name;
    unsigned actions;
} belongs[] = {
    {"format", READS},
    {"skip-bad", READS},
    {"model", READS},
    {"unseal", READS},
    {"output", MAKES | PLOT},
    {"to", MAKES},
    {"block-tokens", MAKES},
    {"start", CUT},
    {"duration", CUT},
    {"skip", CUT},
    {"limit", CUT},
    {"speed", SCALE},
    {"input", SCALE},
    {"answer", SCALE},
    {"max-input", SCALE},
    {"max-answer-tokens", SCALE},
    {"new-block-tokens", SCALE},
    {"requests", SYNTH},
    {"seed", SYNTH},
    {"rate", SYNTH},
    {"cv", SYNTH},
    {"rates", SYNTH},
};
static const struct {
    const char *name;
    unsigned bit;
} actions[] = {{"info", INFO},        {"convert", CONVERT}, {"cut", CUT}, {"scale", SCALE},
               {"synthesize", SYNTH}, {"plot", PLOT},       {"key", KEY}};

static const bt_opt opts[] = {
    {.of = &tool_load_opts, .group = "Trace", .name = "format", BT_OPT_AT(config, source.format),
     .help = "format of TRACE; auto: known by its first line"},
    {.of = &tool_load_opts, .group = "Trace", .name = "skip-bad", BT_OPT_AT(config, source.skip_bad),
     .help = "pass over bad rows and count them; without it the first one ends the reading"},
    {.of = &bt_model_opts, .group = "Trace", .name = "model", BT_OPT_AT(config, source.model),
     .help = "whose tokenizer counts the texts of a sharegpt trace"},
    {.group = "Trace", .name = "unseal", .value = "FILE", BT_OPT_AT(config, source.unseal),
     .type = BT_OPT_STRING, .holds = BT_OPT_HOLDS_SECRET, .example = "capture.secret",
     .help = "the secret key that opens a sealed capture (see key)"},
    {.of = &tool_output_opts, .group = "New trace", .name = "output", BT_OPT_AT(config, output),
     .example = "new.jsonl", .help = "where it goes; without it to stdout. For plot: NAME.svg or NAME.html"},
    {.group = "New trace", .name = "to", .value = "FORMAT", BT_OPT_AT(config, to), .type = BT_OPT_CHOICE,
     .def = "mooncake", .choices = to_names, .help = "its format: Mooncake's JSON lines, or a capture"},
    {.of = &tool_load_opts, .group = "New trace", .name = "block-tokens", BT_OPT_AT(config, block_tokens),
     .def = "512", .lo = 1, .hi = 65536,
     .help = "tokens of a block of TRACE's hashes, where its format does not say"},
    {.group = "cut", .name = "start", .value = "TIME", BT_OPT_AT(config, start_ms), .type = BT_OPT_DURATION,
     .def = "0", .help = "keep what arrives from then on; the new trace counts from there"},
    {.group = "cut", .name = "duration", .value = "TIME", BT_OPT_AT(config, duration_ms),
     .type = BT_OPT_DURATION, .def = "0", .help = "and for so long; 0: to the end"},
    {.group = "cut", .name = "skip", .value = "N", BT_OPT_AT(config, skip), .type = BT_OPT_INT, .def = "0",
     .lo = 0, .hi = INT64_MAX, .help = "pass over the first N of these requests"},
    {.of = &tool_load_opts, .group = "cut", .name = "limit", BT_OPT_AT(config, limit), .lo = 0,
     .hi = INT64_MAX, .help = "keep at most N of these requests; 0: all"},
    {.of = &tool_load_opts, .group = "scale", .name = "speed", BT_OPT_AT(config, speed),
     .help = "requests come X times as fast"},
    {.group = "scale", .name = "input", .value = "X", BT_OPT_AT(config, input), .type = BT_OPT_DOUBLE,
     .def = "1", .flo = 1e-6, .fhi = 1e3, .help = "prompts X times as long, what they share too"},
    {.group = "scale", .name = "answer", .value = "X", BT_OPT_AT(config, output_ratio), .type = BT_OPT_DOUBLE,
     .def = "1", .flo = 1e-6, .fhi = 1e3, .help = "answers X times as long"},
    {.group = "scale", .name = "max-input", .value = "N", BT_OPT_AT(config, max_input), .type = BT_OPT_INT,
     .def = "0", .lo = 0, .hi = BT_TRACE_MAX_TOKENS, .help = "then prompts of at most N tokens; 0: any"},
    {.group = "scale", .name = "max-answer-tokens", .value = "N", BT_OPT_AT(config, max_output),
     .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = BT_TRACE_MAX_TOKENS,
     .help = "then answers of at most N tokens; 0: any"},
    {.group = "scale", .name = "new-block-tokens", .value = "N", BT_OPT_AT(config, new_block),
     .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = 65536,
     .help = "tokens of a block of the new trace's hashes; 0: as in TRACE"},
    {.group = "synthesize", .letter = 'n', .name = "requests", .value = "N", BT_OPT_AT(config, requests),
     .type = BT_OPT_INT, .def = "0", .lo = 0, .hi = BT_SYNTH_MAX_DRAWS,
     .help = "how many to draw; 0: as many as TRACE has, or as --rates give"},
    {.of = &tool_seed_opts, .group = "synthesize", .name = "seed", .value = "N", BT_OPT_AT(config, seed),
     .help = "another seed draws other requests of the same kind"},
    {.of = &tool_load_opts, .group = "synthesize", .name = "rate", BT_OPT_AT(config, rate), .def = "0",
     .help = "requests a second; 0: as in TRACE"},
    {.group = "synthesize", .name = "cv", .value = "C", BT_OPT_AT(config, cv), .type = BT_OPT_DOUBLE,
     .def = "0", .flo = 0, .fhi = 100,
     .help = "gaps from a gamma distribution of this variation (1: Poisson); 0: TRACE's own gaps"},
    {.group = "synthesize", .name = "rates", .value = "FILE", BT_OPT_AT(config, rates), .type = BT_OPT_STRING,
     .example = "chunk-0-trace.csv",
     .help = "gaps by the rates of a servegen trace, lengths and prefixes by TRACE"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: requests, span_seconds, input_tokens, output_tokens, "
             "interarrival_cv, ideal_prefix_hit_ratio, ...; of a new trace read, written, ... (with -o)"},
};

const bt_opt_program tool_trace_program = {
    .name = "baton trace",
    .summary = "look at a trace of requests (info, plot), make another of it (convert, cut, scale, "
               "synthesize), or keys "
               "for captures (key)",
    .usage = "ACTION TRACE [options]",
    .normal = "baton trace info trace.jsonl",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_min = 2,
    .args_max = 2,
    .args_name = "ACTION TRACE",
};

static bt_err add_row(void *ud, const bt_trace_row *row, bt_fault *fault)
{
    return bt_trace_stats_add(ud, row, fault);
}

static bt_err look(const config *c, const char *path, bool is_plot, bt_fault *fault)
{
    tool_trace_source s;
    bt_trace_stats stats = {.requests = 0};
    bt_err e = tool_trace_open(&s, path, &c->source, fault);
    if (e < 0) return e;
    if (!is_plot && bt_trace_look(s.t).format == BT_TRACE_SERVEGEN) {
        e = tool_trace_rates(&s, path, c->json, fault);
    } else {
        e = bt_trace_stats_begin(&stats, fault);
        if (e == BT_OK) e = tool_trace_each(&s, path, add_row, &stats, fault);
        if (e == BT_OK) {
            bt_trace_stats_end(&stats);
            const bt_trace_facts f = bt_trace_look(s.t);
            if (is_plot) e = tool_trace_plot(c->output, path, &stats, &f, fault);
            if (e == BT_OK && c->json && tool_print_json("trace", tool_trace_info_json(&stats, &f)))
                e = BT_EIO;
            else if (e == BT_OK && !c->json && !is_plot) tool_trace_info_print(&stats, &f);
        }
    }
    if (e == BT_OK) tool_trace_warn("trace", &s);
    bt_trace_stats_done(&stats);
    tool_trace_close(&s);
    return e;
}

static bt_err run_action(tool_trace_result *r, const config *c, unsigned action, tool_trace_source *s,
                         const char *path, bt_trace_writer *w, bt_fault *fault)
{
    const uint32_t block = (uint32_t)c->block_tokens;
    const tool_trace_cut cut = {c->start_ms * 1000, c->duration_ms * 1000, c->skip, c->limit};
    const tool_trace_scale scale = {c->speed,     c->input,      c->output_ratio,
                                    c->max_input, c->max_output, c->new_block};
    const tool_trace_synth synth = {c->requests, (uint64_t)c->seed, c->rate, c->cv, c->rates};
    if (action == CONVERT) return tool_trace_convert(r, s, path, w, block, fault);
    if (action == CUT) return tool_trace_cut_rows(r, s, path, w, &cut, block, fault);
    if (action == SCALE) return tool_trace_scale_rows(r, s, path, w, &scale, block, fault);
    return tool_trace_synthesize(r, s, path, w, &synth, block, fault);
}

static int print_result(const config *c, const tool_trace_source *s, const tool_trace_result *r)
{
    const bt_trace_facts f = bt_trace_look(s->t);
    tool_trace_warn("trace", s);
    if (r->clipped)
        fprintf(stderr, "baton trace: %llu requests cut to the given lengths\n",
                (unsigned long long)r->clipped);
    if (r->shortened)
        fprintf(stderr,
                "baton trace: %llu requests share less than in TRACE: none before them was long enough\n",
                (unsigned long long)r->shortened);
    if (r->out_of_order)
        fprintf(stderr, "baton trace: %llu requests of TRACE come before their predecessor; their gap is 0\n",
                (unsigned long long)r->out_of_order);
    if (c->json)
        return tool_print_json(
            "trace",
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "format", bt_trace_format_names[f.format],
                      "read", (json_int_t)r->read, "bad_rows", (json_int_t)f.bad, "written",
                      (json_int_t)r->written, "clipped", (json_int_t)r->clipped, "shortened",
                      (json_int_t)r->shortened, "out_of_order", (json_int_t)r->out_of_order));
    if (c->output)
        printf("%llu requests read, %llu written\n", (unsigned long long)r->read,
               (unsigned long long)r->written);
    return bt_opt_flush() != 0;
}

static bool is_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

static int make(const config *c, unsigned action, const char *path)
{
    tool_trace_source s;
    tool_trace_result r = {0};
    bt_trace_writer w = {.f = NULL};
    bt_fault fault = {""};
    int rc = 1;
    FILE *f = stdout;
    bt_err e = tool_trace_open(&s, path, &c->source, &fault);
    if (e < 0) return tool_fail("trace", &fault);
    if (c->output && (is_same(c->output, path) || (c->rates && is_same(c->output, c->rates))))
        e = bt_fail(&fault, BT_EARG, "-o '%.150s' is the trace that is read: name another file", c->output);
    if (e == BT_OK && c->output && !(f = fopen(c->output, "we")))
        e = bt_fail(&fault, BT_EIO, "cannot open '%.150s': %s", c->output, strerror(errno));
    if (e == BT_OK) e = bt_trace_writer_begin(&w, f, c->to == TO_BATON, "", bt_clock_wall_s(), &fault);
    if (e == BT_OK) e = run_action(&r, c, action, &s, path, &w, &fault);
    if (e == BT_OK) e = f == stdout && bt_opt_flush() != 0 ? BT_EIO : bt_trace_writer_end(&w, &fault);
    const bool is_stdout_lost = e < 0 && f == stdout && ferror(stdout); /* bt_opt_end says so */
    if (e < 0 && f && f != stdout && ferror(f)) /* the fault names the file that was read */
        e = bt_fail(&fault, e, "cannot write '%.150s': %s", c->output, strerror(errno));
    bt_trace_writer_done(&w);
    if (f && f != stdout && fclose(f) != 0 && e == BT_OK)
        e = bt_fail(&fault, BT_EIO, "cannot write '%.150s': %s", c->output, strerror(errno));
    if (!is_stdout_lost) rc = e < 0 ? tool_fail("trace", &fault) : print_result(c, &s, &r);
    tool_trace_close(&s);
    return rc;
}

static bool is_misused(const config *c, const bt_opt_args *args, unsigned action, bt_fault *fault)
{
    for (size_t i = 0; i < sizeof belongs / sizeof *belongs; i++)
        if (!(belongs[i].actions & action) &&
            bt_opt_source_of(args, belongs[i].name) == BT_OPT_FROM_COMMAND_LINE)
            return bt_fail(fault, BT_EARG, "--%s has no meaning for 'baton trace %s'", belongs[i].name,
                           args->args[0]) < 0;
    if (action == PLOT && !c->output)
        return bt_fail(fault, BT_EARG, "'baton trace plot' needs -o NAME.svg or NAME.html") < 0;
    if ((action & MAKES) && c->json && !c->output)
        return bt_fail(fault, BT_EARG, "--json needs -o FILE: the trace itself goes to stdout") < 0;
    if (c->rates && (c->rate > 0 || c->cv > 0))
        return bt_fail(fault, BT_EARG, "--rates has rates and gaps of its own; leave out --rate and --cv") <
               0;
    return false;
}

static int run(const config *c, unsigned action, const char *path)
{
    bt_fault fault = {""};
    if (action & MAKES) return make(c, action, path);
    if (action != KEY && look(c, path, action == PLOT, &fault) < 0)
        return fault.text[0] ? tool_fail("trace", &fault) : 1; /* no words: tool_print_json has them */
    if (action != KEY) return 0;
    if (tool_trace_make_key(path, &fault) < 0) return tool_fail("trace", &fault);
    if (c->json) return tool_print_json("trace", json_pack("{s:s}", "name", path));
    printf("%s.secret opens what is sealed to %s.public\n", path, path);
    return bt_opt_flush() != 0;
}

int tool_trace_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    unsigned action = 0;
    int rc = bt_opt_start(&args, &tool_trace_program, argc, argv, &c);
    if (rc >= 0) return rc;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(args.args[0], actions[i].name) == 0) action = actions[i].bit;
    if (!action)
        bt_fail(&fault, BT_EARG, "'%.40s' is not one of info, convert, cut, scale, synthesize, plot, key",
                args.args[0]);
    if (!action || is_misused(&c, &args, action, &fault)) {
        bt_opt_usage_error("baton trace", &fault);
        rc = 2;
    } else {
        rc = run(&c, action, args.args[1]);
    }
    bt_opt_done(&args);
    return rc;
}
