/* baton padding: what each shape policy would compute for the prompts of a trace, and how much of that is
 * padding. */
#include "base/wait.h"
#include "model/options.h"
#include "npu/compile/obtain.h"
#include "npu/pkg/shapes.h"
#include "tools/options.h"
#include "tools/tool.h"
#include "lab/trace/lengths.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct config {
    bt_opt_list policies;
    int64_t ctx_size;
    bool json;
} config;

static const bt_opt opts[] = {
    {.of = &bt_obtain_opts, .group = "Shapes", .name = "shape-policy", BT_OPT_AT(config, policies),
     .type = BT_OPT_STRINGS, .def = BT_OPT_NO_DEFAULT, .example = "chunk:256+tail",
     .help = "a policy to compare, as often as you like: " BT_SHAPES_NAMES "; without any, the usual eight"},
    {.of = &bt_model_opts, .group = "Shapes", .name = "ctx-size", BT_OPT_AT(config, ctx_size), .def = "8192",
     .lo = 1, .hi = BT_SHAPES_MAX_SEQ,
     .help =
         "longest sequence in tokens that the shapes are made for; a longer prompt takes several launches"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: requests, tokens, ..., rows[] with policy, padding_ratio, "
             "specializations, ..."},
};

const bt_opt_program tool_padding_program = {
    .name = "baton padding",
    .summary = "compare shape policies on a trace of requests (see baton trace), or on a list of lengths",
    .usage = "TRACE [options]",
    .normal = "baton padding trace.csv",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_min = 1,
    .args_max = 1,
    .args_name = "TRACE",
};

typedef struct row {
    bt_shapes shapes;
    uint64_t specializations, launches, computed;
} row;

static bt_err measure(row *ret, const char *policy, const config *c, const uint32_t *length, size_t n,
                      bt_fault *fault)
{
    row r = {.launches = 0};
    const bt_err e = bt_shapes_parse(&r.shapes, policy, (size_t)c->ctx_size, fault);
    if (e < 0) return e;
    r.specializations = bt_shapes_specializations(&r.shapes, (size_t)c->ctx_size);
    for (size_t i = 0; i < n; i++) {
        r.launches += bt_shapes_launches(&r.shapes, length[i]);
        r.computed += bt_shapes_rows(&r.shapes, length[i]);
    }
    *ret = r;
    return BT_OK;
}

static double padding_ratio(const row *r, uint64_t tokens)
{
    return r->computed ? 1 - (double)tokens / (double)r->computed : 0;
}

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int print_json(const row *rows, size_t count, const config *c, size_t n, uint64_t tokens)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:f, s:I, s:f, s:I, s:I, s:I}", "policy", rows[i].shapes.text,
                                        "padding_ratio", padding_ratio(&rows[i], tokens), "specializations",
                                        (json_int_t)rows[i].specializations, "launches_per_prompt",
                                        (double)rows[i].launches / (double)n, "requests", (json_int_t)n,
                                        "tokens", (json_int_t)tokens, "rows", (json_int_t)rows[i].computed));
    return tool_print_json("padding", json_pack("{s:I, s:I, s:I, s:o}", "requests", (json_int_t)n, "tokens",
                                                (json_int_t)tokens, "ctx_tokens", (json_int_t)c->ctx_size,
                                                "rows", list));
}

/* length[n] is sorted here. */
static int print_people(const row *rows, size_t count, uint32_t *length, size_t n, uint64_t tokens)
{
    int width = (int)strlen("policy");
    qsort(length, n, sizeof *length, by_value);
    printf("%zu requests, %" PRIu64 " tokens: mean %.0f, p50 %u, p99 %u, longest %u\n\n", n, tokens,
           (double)tokens / (double)n, (unsigned)length[(n - 1) / 2], (unsigned)length[(n - 1) * 99 / 100],
           (unsigned)length[n - 1]);
    for (size_t i = 0; i < count; i++)
        if ((int)strlen(rows[i].shapes.text) > width) width = (int)strlen(rows[i].shapes.text);
    printf("%-*s  specializations  launches/prompt  padding  %15s  %15s\n", width, "policy", "tokens",
           "rows");
    for (size_t i = 0; i < count; i++)
        printf("%-*s  %15" PRIu64 "  %15.2f  %6.1f%%  %15" PRIu64 "  %15" PRIu64 "\n", width,
               rows[i].shapes.text, rows[i].specializations, (double)rows[i].launches / (double)n,
               100 * padding_ratio(&rows[i], tokens), tokens, rows[i].computed);
    return bt_opt_flush() != 0;
}

static int padding(const config *c, const char *path)
{
    const char *const *policy = c->policies.count ? (const char *const *)c->policies.items : bt_shapes_usual;
    size_t count = c->policies.count;
    bt_fault fault = {""};
    uint32_t *length = NULL;
    size_t n = 0;
    uint64_t tokens = 0;
    int rc = 1;
    while (!c->policies.count && bt_shapes_usual[count]) count++;
    row *rows = calloc(count, sizeof *rows);
    bt_err e = rows ? tool_trace_lengths(&length, &n, path, &fault)
                    : bt_fail(&fault, BT_ENOMEM, "out of memory comparing %zu policies", count);
    bt_wait_tell(NULL, "cutting the prompts", 0, 0);
    for (size_t i = 0; e == BT_OK && i < count; i++) e = measure(&rows[i], policy[i], c, length, n, &fault);
    bt_wait_end();
    for (size_t i = 0; i < n; i++) tokens += length[i];
    if (e < 0) rc = tool_fail("padding", &fault);
    else if (c->json) rc = print_json(rows, count, c, n, tokens);
    else rc = print_people(rows, count, length, n, tokens);
    free(rows);
    free(length);
    return rc;
}

int tool_padding_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    int rc = bt_opt_start(&args, &tool_padding_program, argc, argv, &c);
    if (rc >= 0) return rc;
    rc = padding(&c, args.args[0]);
    bt_opt_done(&args);
    return rc;
}
