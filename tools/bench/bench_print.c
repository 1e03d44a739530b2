/* See bench_print.h. */
#include "tools/bench/bench_print.h"
#include "kernels/cores.h"
#include "tools/csv.h"
#include "tools/made_by.h"

#include <stdlib.h>
#include <string.h>

const char *const tool_bench_formats[] = {"md", "csv", "json", NULL};

const tool_bench_column tool_bench_limit_columns[] = {
    {"threads", NULL, 7, 0, NULL},
    {"limit_int8_gops", "int8 Gop/s", 11, 1, NULL},
    {"limit_bf16_gflops", "BF16 GFLOP/s", 12, 1, NULL},
    {"limit_fp32_gflops", "FP32 GFLOP/s", 12, 1, NULL},
    {"limit_read_gbytes_per_second", "read GB/s", 11, 2, NULL},
    {NULL, NULL, 0, 0, NULL},
};
#define ROW_COLUMNS \
    {"model", NULL, -31, 0, NULL}, {"engine", NULL, -6, 0, NULL}, {"weights", NULL, -7, 0, NULL}, \
        {"kv", NULL, -4, 0, NULL}, {"threads", NULL, 7, 0, NULL}, {"test", NULL, 14, 0, NULL}, \
        {"tokens_per_second", "t/s", 16, 2, "tokens_per_second_stddev"}, \
        {"ratio_to_roofline", "ratio", 5, 2, NULL}, \
    { \
        "limit", NULL, -5, 0, NULL \
    }
const tool_bench_column tool_bench_row_columns[] = {
    ROW_COLUMNS,
    {NULL, NULL, 0, 0, NULL},
};
const tool_bench_column tool_bench_expert_columns[] = {
    ROW_COLUMNS,
    {"expert_padding_ratio", "expert padding", 14, 3, NULL},
    {NULL, NULL, 0, 0, NULL},
};
const tool_bench_column tool_bench_figure_columns[] = {
    {"kernel", NULL, -14, 0, NULL},
    {"shape", NULL, -24, 0, NULL},
    {"rows", NULL, 5, 0, NULL},
    {"threads", NULL, 7, 0, NULL},
    {"time_us", "us", 10, 1, NULL},
    {"gops", "Gop/s", 7, 1, NULL},
    {"gbytes_per_second", "GB/s", 7, 2, NULL},
    {"ratio_to_roofline", "ratio", 5, 2, NULL},
    {"limit", NULL, -5, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};

/* ---- the forms ---- */
static void cell_text(char ret[160], const json_t *row, const tool_bench_column *c)
{
    const json_t *v = json_object_get(row, c->key);
    if (json_is_string(v)) snprintf(ret, 160, "%s", json_string_value(v));
    else if (json_is_integer(v)) snprintf(ret, 160, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v) && c->plus)
        snprintf(ret, 160, "%.*f +- %.*f", c->decimals, json_real_value(v), c->decimals,
                 json_number_value(json_object_get(row, c->plus)));
    else if (json_is_real(v)) snprintf(ret, 160, "%.*f", c->decimals, json_real_value(v));
    else snprintf(ret, 160, "-");
}

static void print_md(tool_bench_printer *p, const json_t *row)
{
    if (!p->rows) {
        for (const tool_bench_column *c = p->column; c->key; c++)
            fprintf(p->to, "| %*s ", c->width, c->title ? c->title : c->key);
        fputs("|\n", p->to);
        for (const tool_bench_column *c = p->column; c->key; c++) {
            int dashes = (int)strlen(c->title ? c->title : c->key);
            if (abs(c->width) > dashes) dashes = abs(c->width);
            fprintf(p->to, "|%c", c->width < 0 ? ':' : '-');
            for (int i = 0; i < dashes; i++) fputc('-', p->to);
            fputc(c->width < 0 ? '-' : ':', p->to);
        }
        fputs("|\n", p->to);
    }
    for (const tool_bench_column *c = p->column; c->key; c++) {
        char text[160];
        cell_text(text, row, c);
        for (char *s = text; *s; s++)
            if (*s == '|' || *s == '\n') *s = ' '; /* a model's name may hold anything */
        fprintf(p->to, "| %*s ", c->width, text);
    }
    fputs("|\n", p->to);
}

static void print_csv(tool_bench_printer *p, json_t *row)
{
    const char *key, *comma = "";
    json_t *v;
    if (!p->rows) {
        json_object_foreach(row, key, v) {
            if (json_is_array(v)) continue;
            fprintf(p->to, "%s%s", comma, key);
            comma = ",";
        }
        fputc('\n', p->to);
    }
    comma = "";
    json_object_foreach(row, key, v) {
        if (json_is_array(v)) continue;
        fputs(comma, p->to);
        comma = ",";
        if (json_is_string(v)) tool_csv_text(p->to, json_string_value(v));
        else if (json_is_integer(v)) fprintf(p->to, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        else if (json_is_real(v)) fprintf(p->to, "%.9g", json_real_value(v));
    }
    fputc('\n', p->to);
}

void tool_bench_print_machine(tool_bench_printer *p, json_t *machine, const json_t *made_by)
{
    fputs("{\"machine\": ", p->to);
    if (!machine || json_dumpf(machine, p->to, JSON_REAL_PRECISION(9)) < 0) p->failed = true;
    fputs(", \"made_by\": ", p->to);
    if (json_dumpf(made_by, p->to, 0) < 0) p->failed = true;
    fputs(", \"rows\": ", p->to);
    json_decref(machine);
}

void tool_bench_print_row(tool_bench_printer *p, json_t *row)
{
    if (!row) {
        p->failed = true;
        return;
    }
    if (p->format == TOOL_BENCH_MD) {
        print_md(p, row);
    } else if (p->format == TOOL_BENCH_CSV) {
        print_csv(p, row);
    } else {
        fputs(p->rows ? ",\n " : "[\n ", p->to);
        if (json_dumpf(row, p->to, JSON_REAL_PRECISION(9)) < 0) p->failed = true;
    }
    p->rows++;
    if (fflush(p->to) != 0) p->failed = true;
    json_decref(row);
}

void tool_bench_print_end(tool_bench_printer *p)
{
    const bool is_object = p->format == TOOL_BENCH_OBJECT;
    if (p->format == TOOL_BENCH_JSON || is_object) fputs(p->rows ? "\n]" : "[]", p->to);
    if (p->format == TOOL_BENCH_JSON || is_object) fputs(is_object ? "}\n" : "\n", p->to);
    if (fflush(p->to) != 0) p->failed = true;
}

/* ---- what a row says ---- */
/* null where there is no such limit. */
static json_t *rate(double per_second) { return per_second > 0 ? json_real(per_second * 1e-9) : json_null(); }

json_t *tool_bench_about_json(const tool_bench_about *a, const tool_machine *m)
{
    char cpu[128], core[BT_CORES_WHY_BYTES];
    tool_made_by_processor(cpu);
    bt_cores_why(core);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "version", BT_VERSION, "cpu",
                     cpu, "core", core, "isa", a->isa, "model", a->model->name, "model_params",
                     (json_int_t)a->model->param_count, "threads", (json_int_t)m->threads, "limit_int8_gops",
                     rate(m->int8_ops), "limit_bf16_gflops", rate(m->bf16_flops), "limit_fp32_gflops",
                     rate(m->fma_flops), "limit_read_gbytes_per_second", rate(m->read_bytes));
}

json_t *tool_bench_machine_json(const tool_bench_about *a, const tool_machine *m)
{
    char cpu[128], core[BT_CORES_WHY_BYTES];
    tool_made_by_processor(cpu);
    bt_cores_why(core);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o}", "version", BT_VERSION, "cpu", cpu,
                     "core", core, "isa", a->isa, "threads", (json_int_t)m->threads, "int8_gops",
                     rate(m->int8_ops), "bf16_gflops", rate(m->bf16_flops), "fp32_gflops", rate(m->fma_flops),
                     "read_gbytes_per_second", rate(m->read_bytes));
}

json_t *tool_bench_row_json(const tool_bench_about *a, const tool_machine *m, const tool_bench_row *r)
{
    char test[64];
    tool_bench_test_name(test, r);
    json_t *o = tool_bench_about_json(a, m), *samples = json_array();
    for (size_t i = 0; i < r->repetitions; i++) json_array_append_new(samples, json_real(r->seconds[i]));
    json_t *more = json_pack(
        "{s:s, s:s, s:s, s:s?, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:s, s:o, s:o, s:o, s:f, "
        "s:f, s:f, s:o, s:o}",
        "engine", r->engine, "weights", r->weights, "kv", r->kv, "schedule", r->schedule, "test", test,
        "n_prompt", (json_int_t)(r->prefill ? r->tokens : 0), "n_gen",
        (json_int_t)(r->prefill ? 0 : r->tokens), "n_depth", (json_int_t)r->depth, "batch",
        (json_int_t)r->batch, "repetitions", (json_int_t)r->repetitions, "tokens_per_second", r->rate,
        "tokens_per_second_stddev", r->deviation, "ratio_to_roofline",
        r->ratio > 0 ? json_real(r->ratio) : json_null(), "limit", r->limit, "int8_gops", rate(r->int8_ops),
        "fp32_gflops", rate(r->fma_flops), "read_gbytes_per_second", rate(r->read_bytes), "linear_ops",
        r->linear_ops, "attention_ops", r->attention_ops, "bytes_per_step", r->bytes, "expert_padding_ratio",
        r->expert_padding >= 0 ? json_real(r->expert_padding) : json_null(), "seconds", samples);
    if (!o || !more || json_object_update(o, more) < 0) {
        json_decref(o);
        o = NULL;
    }
    json_decref(more);
    return o;
}

json_t *tool_bench_figure_json(const tool_bench_about *a, const tool_machine *m, const tool_figure *f)
{
    json_t *o = tool_bench_about_json(a, m);
    json_t *more =
        json_pack("{s:s, s:s, s:I, s:f, s:o, s:f, s:o, s:s}", "kernel", f->kernel, "shape", f->shape, "rows",
                  (json_int_t)f->rows, "time_us", f->us, "gops",
                  f->gops > 0 ? json_real(f->gops) : json_null(), "gbytes_per_second", f->gbytes,
                  "ratio_to_roofline", f->ratio > 0 ? json_real(f->ratio) : json_null(), "limit", f->limit);
    if (!o || !more || json_object_update(o, more) < 0) {
        json_decref(o);
        o = NULL;
    }
    json_decref(more);
    return o;
}
