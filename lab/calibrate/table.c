/* Each form says which of its fields are lengths and which are times; units, ranges and rows that differ are
 * looked at in one place. See table.h. */
#include "lab/calibrate/table.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "trace/fields.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 256, CELL_BYTES = 511, SHOWN = 40, MOST_BATCH = 4096 };
static const double LEAST_NS = 1, MOST_NS = 1e15;
#define TIMES "a time from 1 ns to 11 days"

/* ---- units and numbers --------------------------------------------------------------------------- */

typedef struct unit {
    const char *name;
    double ns; /* 0: tokens a second */
} unit;
#define UNITS "ns, us, ms, s or tok/s"

static const unit *unit_of(const char *name)
{
    static const unit all[] = {
        {"ns", 1},    {"us", 1e3},  {"ms", 1e6},     {"s", 1e9},        {"sec", 1e9},
        {"tok_s", 0}, {"tok/s", 0}, {"tokens/s", 0}, {"tokens/sec", 0}, {"tok_s_or_s", 0},
    };
    for (size_t i = 0; name && i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name)) return &all[i];
    return NULL;
}

/* A member, or one of a member: "a.b.0". NULL: there is none. */
static const json_t *at(const json_t *row, const char *path)
{
    const json_t *v = json_object_get(row, path);
    while (!v && row && *path) {
        char name[64];
        const size_t n = strcspn(path, ".");
        if (n >= sizeof name) return NULL;
        memcpy(name, path, n);
        name[n] = 0;
        row = json_is_array(row) ? json_array_get(row, (size_t)(*name - '0')) : json_object_get(row, name);
        if (!path[n]) return row;
        path += n + 1;
    }
    return v;
}

static bool number(double *ret, const json_t *v)
{
    if (json_is_number(v)) *ret = json_number_value(v);
    else if (!json_is_string(v) || bt_num_double(ret, json_string_value(v), -1e300, 1e300, NULL) < 0)
        return false;
    return isfinite(*ret);
}

static void shown(char ret[SHOWN], const char *text)
{
    size_t n = 0;
    for (; text[n] && n < SHOWN - 1; n++) ret[n] = (char)(text[n] < 0x20 || text[n] > 0x7e ? '?' : text[n]);
    ret[n] = 0;
}

static void text_of(char ret[64], const json_t *v)
{
    ret[0] = 0;
    if (json_is_string(v)) (void)snprintf(ret, 64, "%.63s", json_string_value(v));
    else if (json_is_integer(v)) (void)snprintf(ret, 64, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v)) (void)snprintf(ret, 64, "%.9g", json_real_value(v));
    else if (json_is_boolean(v)) (void)snprintf(ret, 64, "%s", json_is_true(v) ? "true" : "false");
    for (char *c = ret; *c; c++)
        if (*c < 0x20 || *c > 0x7e) *c = '?';
}

/* ---- points -------------------------------------------------------------------------------------- */

typedef struct reader {
    tool_calibrate_table *t;
    const json_t *row;
    bt_fault *fault;
    bool has_point;  /* the row gave one */
    const char *why; /* it did not */
} reader;

static bt_err bad(reader *r, const char *column, const json_t *v, const char *what)
{
    char is[64], name[SHOWN];
    text_of(is, v);
    shown(name, column);
    return bt_fail(r->fault, BT_EFORMAT, "row %u, '%s': '%.39s' %s", r->t->seen, name, is, what);
}

/* The number of tokens or requests of a row. 0: the row does not have the field. */
static bt_err count(double *ret, reader *r, const char *column, double most)
{
    const json_t *v = at(r->row, column);
    *ret = 0;
    if (!v || json_is_null(v) || (json_is_string(v) && !json_string_length(v))) return BT_OK;
    if (!number(ret, v) || *ret < 0 || *ret > most) return bad(r, column, v, "is out of range");
    return BT_OK;
}

static bt_err check_range(const reader *r, double ns)
{
    if (ns >= LEAST_NS && ns <= MOST_NS) return BT_OK;
    return bt_fail(r->fault, BT_EFORMAT, "row %u: %.4g ns is not " TIMES, r->t->seen, ns);
}

/* Nanoseconds of a time, or of so many tokens at a rate. False, with the reason: no time. */
static bt_err time_of(double *ret, reader *r, const char *column, const json_t *v, const unit *u,
                      double tokens)
{
    double n;
    if (!u) return bad(r, column, v, "has no unit: " UNITS " is needed");
    if (!number(&n, v)) return bad(r, column, v, "is no number");
    if (!(n > 0)) return bad(r, column, v, "is no time: it must be above 0");
    *ret = u->ns > 0 ? n * u->ns : 1e9 * tokens / n;
    if (!(*ret >= LEAST_NS) || *ret > MOST_NS) return bad(r, column, v, "is not " TIMES);
    return BT_OK;
}

static bt_err add(reader *r, double *ns, uint32_t *rows, double more)
{
    r->has_point = true;
    *ns = (*ns * *rows + more) / (*rows + 1);
    ++*rows;
    return BT_OK;
}

static bt_err add_prompt(reader *r, double tokens, double ns)
{
    tool_calibrate_points *p = &r->t->points;
    size_t i = 0;
    tokens = round(tokens);
    if (!(tokens >= 1) || tokens > TOOL_CALIBRATE_MOST_TOKENS)
        return bt_fail(r->fault, BT_EFORMAT, "row %u: a prompt of %.0f tokens; 1 to %d can be", r->t->seen,
                       tokens, TOOL_CALIBRATE_MOST_TOKENS);
    const uint32_t n = (uint32_t)tokens;
    const bt_err e = check_range(r, ns);
    if (e < 0) return e;
    while (i < p->prompts && p->prompt[i].tokens != n) i++;
    if (i == TOOL_CALIBRATE_PROMPTS)
        return bt_fail(r->fault, BT_ELIMIT, "more than %d lengths of prompts; --where chooses rows",
                       TOOL_CALIBRATE_PROMPTS);
    if (i == p->prompts) {
        p->prompt[p->prompts++] = (tool_calibrate_prompt){n, 0};
        r->t->prompt_rows[i] = 0;
    }
    return add(r, &p->prompt[i].ns, &r->t->prompt_rows[i], ns);
}

static bt_err add_step(reader *r, double batch, double ctx, double ns)
{
    tool_calibrate_points *p = &r->t->points;
    size_t i = 0;
    batch = round(batch), ctx = round(ctx);
    if (!(batch >= 1) || batch > MOST_BATCH || !(ctx >= 1) || ctx > TOOL_CALIBRATE_MOST_TOKENS)
        return bt_fail(r->fault, BT_EFORMAT,
                       "row %u: a step of %.0f sequences at %.0f positions; 1 to %d at 1 to %d can be",
                       r->t->seen, batch, ctx, MOST_BATCH, TOOL_CALIBRATE_MOST_TOKENS);
    const uint32_t b = (uint32_t)batch, c = (uint32_t)ctx;
    const bt_err e = check_range(r, ns);
    if (e < 0) return e;
    while (i < p->steps && (p->step[i].batch != b || p->step[i].ctx != c)) i++;
    if (i == TOOL_CALIBRATE_STEPS)
        return bt_fail(r->fault, BT_ELIMIT, "more than %d kinds of steps; --where chooses rows",
                       TOOL_CALIBRATE_STEPS);
    if (i == p->steps) {
        p->step[p->steps++] = (tool_calibrate_step){b, c, 0};
        r->t->step_rows[i] = 0;
    }
    return add(r, &p->step[i].ns, &r->t->step_rows[i], ns);
}

/* ---- forms --------------------------------------------------------------------------------------- */

static bt_err llama_bench(reader *r)
{
    static const unit ns = {"ns", 1};
    double prompt, gen, depth, t;
    bt_err e = count(&prompt, r, "n_prompt", TOOL_CALIBRATE_MOST_TOKENS);
    if (e == BT_OK) e = count(&gen, r, "n_gen", TOOL_CALIBRATE_MOST_TOKENS);
    if (e == BT_OK) e = count(&depth, r, "n_depth", TOOL_CALIBRATE_MOST_TOKENS);
    if (e == BT_OK) e = time_of(&t, r, "avg_ns", at(r->row, "avg_ns"), &ns, 1);
    if (e < 0) return e;
    r->why = prompt && gen ? "a prompt and an answer are in one time" : "a prompt stands behind other tokens";
    if (gen && !prompt) return add_step(r, 1, depth + (gen + 1) / 2, t / gen);
    return gen || depth ? BT_OK : add_prompt(r, prompt, t);
}

#define BESIDE_OTHERS "its first token came beside other requests"

/* A load: with one request at a time the first token is that of a prompt alone. */
typedef struct load {
    double concurrency, input, output;
    const char *ttft, *tpot; /* columns */
    const unit *ttft_unit, *tpot_unit;
} load;

static bt_err add_load(reader *r, const load *l)
{
    const json_t *ttft = at(r->row, l->ttft), *tpot = at(r->row, l->tpot);
    double ns;
    bt_err e = BT_OK;
    r->why = l->concurrency < 1 ? "the concurrency is not given" : "the lengths or the times are not given";
    if (l->concurrency < 1 || l->input < 1) return BT_OK;
    if (ttft && !json_is_null(ttft)) {
        r->why = l->concurrency > 1 ? BESIDE_OTHERS : r->why;
        e = time_of(&ns, r, l->ttft, ttft, l->ttft_unit, l->input);
        if (e == BT_OK && l->concurrency == 1) e = add_prompt(r, l->input, ns);
    }
    if (e == BT_OK && tpot && !json_is_null(tpot) && l->output >= 2) {
        e = time_of(&ns, r, l->tpot, tpot, l->tpot_unit, 1);
        if (e == BT_OK) e = add_step(r, l->concurrency, l->input + l->output / 2, ns);
    }
    return e;
}

static const char *first_of(const reader *r, const char *a, const char *b) { return at(r->row, a) ? a : b; }

static bt_err vllm_serve(reader *r)
{
    static const unit ms = {"ms", 1e6};
    double completed;
    load l = {.ttft = first_of(r, "median_ttft_ms", "mean_ttft_ms"), .ttft_unit = &ms,
              .tpot = first_of(r, "median_tpot_ms", "mean_tpot_ms"), .tpot_unit = &ms};
    bt_err e = count(&completed, r, "completed", 1e9);
    if (e == BT_OK) e = count(&l.input, r, "total_input_tokens", 1e15);
    if (e == BT_OK) e = count(&l.output, r, "total_output_tokens", 1e15);
    if (e == BT_OK) e = count(&l.concurrency, r, "max_concurrency", MOST_BATCH);
    if (e < 0) return e;
    r->why = "fewer requests ended than run at a time";
    if (completed < 1 || completed < l.concurrency) return BT_OK;
    l.input /= completed;
    l.output /= completed;
    return add_load(r, &l);
}

static bt_err aiperf(reader *r)
{
    load l = {.ttft = first_of(r, "time_to_first_token.p50", "time_to_first_token.avg"),
              .tpot = first_of(r, "inter_token_latency.p50", "inter_token_latency.avg"),
              .ttft_unit = unit_of(json_string_value(at(r->row, "time_to_first_token.unit"))),
              .tpot_unit = unit_of(json_string_value(at(r->row, "inter_token_latency.unit")))};
    bt_err e = count(&l.input, r, "input_sequence_length.avg", TOOL_CALIBRATE_MOST_TOKENS);
    if (e == BT_OK) e = count(&l.output, r, "output_sequence_length.avg", TOOL_CALIBRATE_MOST_TOKENS);
    if (e == BT_OK)
        e = count(&l.concurrency, r,
                  first_of(r, "input_config.loadgen.concurrency", "input_config.phases.0.concurrency"),
                  MOST_BATCH);
    return e == BT_OK ? add_load(r, &l) : e;
}

/* The column whose name begins with `word`, and its unit; NULL: there is none. */
static const json_t *column_of(const unit **ret, const char **ret_name, const json_t *row, const char *word)
{
    const size_t n = strlen(word);
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)row, name, v) {
        if (strncmp(name, word, n) != 0 || (name[n] && name[n] != '_')) continue;
        if (!json_string_length(v) && !json_is_number(v)) continue;
        *ret = name[n] ? unit_of(name + n + 1) : NULL;
        *ret_name = name;
        return v;
    }
    return NULL;
}

/* Digits, and K for 1024 of them; *text goes behind. 0: none. */
static double digits(const char **text)
{
    double n = 0;
    while (**text == ' ') ++*text;
    for (; **text >= '0' && **text <= '9' && n < 1e9; ++*text) n = 10 * n + (**text - '0');
    if (**text == 'K') n *= 1024, ++*text;
    while (**text == ' ') ++*text;
    return n;
}

/* "383", "32K", "128 of 4096" (of a context that is computed whole), "512 / 128" (an answer behind a prompt),
 * "tg16". */
static void lengths_of(double *ret_prompt, double *ret_ctx, const char *text)
{
    const bool is_answer = !strncmp(text, "tg", 2);
    if (is_answer) text += 2;
    const double n = digits(&text);
    *ret_prompt = is_answer ? 0 : n;
    *ret_ctx = is_answer ? (n + 1) / 2 : n;
    if (!strncmp(text, "of", 2)) text += 2, *ret_ctx = digits(&text);
    else if (*text == '/') text++, *ret_ctx = n + digits(&text) / 2;
    if (*text) *ret_prompt = *ret_ctx = 0;
}

/* A decode figure in words: "TPOT 30.9 ms" or "ITL 47.4 ms". NULL: no such words. The number stands in *ret.
 */
static const unit *in_words(json_t **ret, const char *text)
{
    char unit_name[8];
    double n;
    const char *from = strstr(text, "TPOT ");
    from = from ? from + 5 : (from = strstr(text, "ITL ")) ? from + 4 : NULL;
    if (from && !strncmp(from, "mean ", 5)) from += 5;
    const size_t len = from ? strcspn(from, " ") : 0;
    char figure[32];
    if (!from || !len || len >= sizeof figure || !from[len]) return NULL;
    memcpy(figure, from, len);
    figure[len] = 0;
    if (snprintf(unit_name, sizeof unit_name, "%s", from + len + 1) >= (int)sizeof unit_name) return NULL;
    if (bt_num_double(&n, figure, -1e12, 1e12, NULL) < 0 || !unit_of(unit_name)) return NULL;
    *ret = json_real(n);
    return *ret ? unit_of(unit_name) : NULL;
}

static bt_err edge_decode(reader *r, double batch, double ctx)
{
    const unit *u = NULL;
    const char *name = "";
    const json_t *v = column_of(&u, &name, r->row, "tpot");
    double ns, n;
    if (!v) v = column_of(&u, &name, r->row, "decode");
    if (!v || ctx < 1) return BT_OK;
    json_t *words = NULL;
    if (!number(&n, v)) {
        u = in_words(&words, json_string_value(v));
        r->why = "its figure is in words";
        if (!u) return BT_OK;
        v = words;
    }
    bt_err e = BT_OK;
    if (u && !(u->ns > 0) && batch != 1) r->why = "tokens a second of a batch may be of one or of all of it";
    else {
        e = time_of(&ns, r, name, v, u, 1);
        if (e == BT_OK) e = add_step(r, batch, ctx, ns);
    }
    json_decref(words);
    return e;
}

static bt_err edge_row(reader *r)
{
    const char *name = "";
    const unit *u = NULL;
    char text[64];
    double prompt, ctx, batch = 1, ns;
    bt_err e = BT_OK;
    text_of(text, at(r->row, "prompt_or_ctx"));
    lengths_of(&prompt, &ctx, text);
    const json_t *b = at(r->row, "batch");
    const bool has_batch = json_string_length(b) || json_is_number(b);
    r->why = "its batch is no number from 1 to 4096";
    if (has_batch && (!number(&batch, b) || batch < 1 || batch > MOST_BATCH)) return BT_OK;
    r->why = "it does not say how many tokens";
    if (ctx < 1) return BT_OK;
    r->why = "it has no time";
    const json_t *v = column_of(&u, &name, r->row, "ttft");
    if (!v) v = column_of(&u, &name, r->row, "prefill");
    if (v && !number(&ns, v)) v = NULL, r->why = "its figure is in words";
    if (v && prompt >= 1 && batch == 1) {
        e = time_of(&ns, r, name, v, u, prompt);
        if (e == BT_OK) e = add_prompt(r, prompt, ns);
    } else if (v) {
        r->why = batch > 1 ? BESIDE_OTHERS : "it has the time of a prompt without its length";
    }
    return e == BT_OK ? edge_decode(r, batch, ctx) : e;
}

static bt_err phase_row(reader *r)
{
    const char *phase = json_string_value(at(r->row, "phase")), *name = "value";
    const unit *u = NULL;
    const json_t *v = column_of(&u, &name, r->row, "value");
    double ctx, ns;
    const bool is_prefill = phase && !strcmp(phase, "prefill"), is_decode = phase && !strcmp(phase, "decode");
    bt_err e = count(&ctx, r, "context", TOOL_CALIBRATE_MOST_TOKENS);
    r->why = "its phase is neither prefill nor decode";
    if (e < 0 || (!is_prefill && !is_decode)) return e;
    r->why = v ? "it does not say how many tokens" : "it has no time";
    if (!v || ctx < 1) return BT_OK;
    e = time_of(&ns, r, name, v, u, is_prefill ? ctx : 1);
    if (e < 0) return e;
    return is_prefill ? add_prompt(r, ctx, ns) : add_step(r, 1, ctx, ns);
}

/* A row with all of `has` has this form. All rows agree in `same`. */
typedef struct form {
    const char *name, *has[3], *same[TOOL_CALIBRATE_SAME];
    bt_err (*read)(reader *r);
} form;
static const form forms[] = {
    {"llama-bench",
     {"n_prompt", "n_gen", "avg_ns"},
     {"model_type", "gpu_info", "cpu_info", "backends", "n_threads", "n_gpu_layers", "n_batch", "n_ubatch",
      "type_k", "type_v", "flash_attn"},
     llama_bench},
    {"vllm bench serve",
     {"total_input_tokens", "completed"},
     {"model_id", "backend", "endpoint_type"},
     vllm_serve},
    {"aiperf",
     {"input_sequence_length.avg"},
     {"input_config.endpoint.model_names.0", "input_config.models.items.0.name"},
     aiperf},
    {"table", {"prompt_or_ctx"}, {"model", "device", "format", "engine"}, edge_row},
    {"table", {"phase", "context"}, {"model", "device", "format", "engine"}, phase_row},
};

static const form *form_of(const json_t *row)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t k = 0;
        while (k < 3 && forms[i].has[k] && at(row, forms[i].has[k])) k++;
        if (k == 3 || !forms[i].has[k]) return &forms[i];
    }
    return NULL;
}

/* Rows of two forms name their models each in its own way, so nobody can say whether they are the same. */
static bt_err check_same(reader *r, const form *f)
{
    tool_calibrate_table *t = r->t;
    if (t->form && strcmp(t->form, f->name))
        return bt_fail(r->fault, BT_EFORMAT,
                       "row %u has the form of %s, and rows before it that of %s: calibrate with one of them",
                       t->seen, f->name, t->form);
    for (size_t i = 0; i < TOOL_CALIBRATE_SAME && f->same[i]; i++) {
        char is[64];
        text_of(is, at(r->row, f->same[i]));
        if (t->form && strcmp(is, t->same[i]))
            return bt_fail(r->fault, BT_EFORMAT,
                           "rows differ in '%.35s': '%.20s' and '%.20s'; choose, as in --where '%.35s=%s'",
                           f->same[i], t->same[i], is, f->same[i], t->same[i]);
        if (!t->form) memcpy(t->same[i], is, sizeof is);
    }
    t->form = f->name;
    return BT_OK;
}

static bool meets(const json_t *row, const bt_opt_list *where)
{
    for (size_t i = 0; where && i < where->count; i++) {
        const char *equals = strchr(where->items[i], '=');
        char name[64], is[64], want[64];
        if (!equals || (size_t)(equals - where->items[i]) >= sizeof name) return false;
        (void)snprintf(name, (size_t)(equals - where->items[i]) + 1, "%s", where->items[i]);
        (void)snprintf(want, sizeof want, "%.63s", equals + 1);
        text_of(is, at(row, name));
        if (strcmp(is, want)) return false;
    }
    return true;
}

static bt_err add_row(tool_calibrate_table *t, const json_t *row, const bt_opt_list *where, bt_fault *fault)
{
    reader r = {.t = t, .row = row, .fault = fault};
    if (++t->seen > TOOL_CALIBRATE_TABLE_ROWS)
        return bt_fail(fault, BT_ELIMIT, "more than %d rows", TOOL_CALIBRATE_TABLE_ROWS);
    if (!json_is_object(row)) return bt_fail(fault, BT_EFORMAT, "row %u is no object", t->seen);
    if (!meets(row, where)) return BT_OK;
    const form *f = form_of(row);
    if (!f)
        return bt_fail(
            fault, BT_EFORMAT,
            "row %u has no known form: it lacks n_prompt, n_gen, avg_ns (llama-bench), completed (vllm "
            "bench serve), input_sequence_length (aiperf), prompt_or_ctx, or phase and context",
            t->seen);
    bt_err e = check_same(&r, f);
    if (e == BT_OK) e = f->read(&r);
    if (e < 0) return e;
    if (!t->on[0])
        (void)snprintf(t->on, sizeof t->on, "%s: %.50s%s%.50s", f->name, t->same[0],
                       t->same[1][0] ? ", " : "", t->same[1]);
    if (r.has_point) t->rows++;
    else if (!t->left_out++)
        (void)snprintf(t->why_left_out, sizeof t->why_left_out, "row %u: %s", t->seen, r.why);
    return BT_OK;
}

/* ---- texts --------------------------------------------------------------------------------------- */

/* Objects one after the other, or lists of them. */
static bt_err parse_json(tool_calibrate_table *t, const char *text, size_t len, const bt_opt_list *where,
                         bt_fault *fault)
{
    bt_err e = BT_OK;
    for (size_t from = 0; e == BT_OK;) {
        json_error_t why;
        while (from < len && strchr(" \t\r\n", text[from]) && text[from]) from++;
        if (from == len) break;
        json_t *v =
            json_loadb(text + from, len - from, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &why);
        if (!v) {
            char words[SHOWN];
            shown(words, why.text);
            return bt_fail(fault, BT_EFORMAT, "no JSON behind %u rows: %s", t->seen, words);
        }
        from += (size_t)why.position;
        if (!json_is_array(v)) e = add_row(t, v, where, fault);
        for (size_t i = 0; e == BT_OK && i < json_array_size(v); i++)
            e = add_row(t, json_array_get(v, i), where, fault);
        json_decref(v);
    }
    return e;
}

/* The text of a cell, its doubled quotes once. NULL: it is no UTF-8, or memory is out. */
static json_t *cell_text(const bt_trace_cell *c)
{
    char text[CELL_BYTES + 1];
    size_t n = 0;
    for (size_t i = 0; i < c->len && n < sizeof text; i++) {
        if (c->is_quoted && c->text[i] == '"') i++;
        if (i < c->len) text[n++] = c->text[i];
    }
    return json_stringn(text, n);
}

static bool has_name(const json_t *header, const char *name)
{
    bool has = false;
    for (size_t i = 0; *name && i < json_array_size(header); i++)
        has |= !strcmp(name, json_string_value(json_array_get(header, i)));
    return has;
}

static const char *flaw_of(const bt_trace_cell *c, size_t n)
{
    if (c->is_broken) return "broken quotes";
    if (c->len > CELL_BYTES) return "more than 511 bytes";
    return n >= COLUMNS ? "a line has at most 256 cells" : NULL;
}

/* Without a header, the names of the columns. */
static bt_err parse_line(json_t *row, const json_t *header, const char *from, const char *end, uint32_t line,
                         bt_fault *fault)
{
    bt_trace_cell c;
    size_t n = 0;
    for (; bt_trace_cell_next(&c, &from, end); n++) {
        const char *flaw = flaw_of(&c, n);
        json_t *v = flaw ? NULL : cell_text(&c);
        if (!v)
            return bt_fail(fault, BT_EFORMAT, "line %u, cell %zu: %s", line, n + 1, flaw ? flaw : "no UTF-8");
        if (!header && has_name(row, json_string_value(v))) {
            char name[SHOWN];
            shown(name, json_string_value(v));
            json_decref(v);
            return bt_fail(fault, BT_EFORMAT, "line %u names the column '%s' twice", line, name);
        }
        if (!header) (void)json_array_append_new(row, v);
        else if (n < json_array_size(header))
            (void)json_object_set_new(row, json_string_value(json_array_get(header, n)), v);
        else json_decref(v);
    }
    if (header && n != json_array_size(header))
        return bt_fail(fault, BT_EFORMAT, "line %u has %zu cells, and the first line %zu", line, n,
                       json_array_size(header));
    return BT_OK;
}

static bt_err parse_csv(tool_calibrate_table *t, const char *text, size_t len, const bt_opt_list *where,
                        bt_fault *fault)
{
    const char *const last = text + len;
    json_t *header = NULL;
    uint32_t line = 0;
    bt_err e = BT_OK;
    while (e == BT_OK && text < last) {
        const char *end = memchr(text, '\n', (size_t)(last - text)), *next = end ? end + 1 : last;
        if (!end) end = last;
        if (end > text && end[-1] == '\r') end--;
        line++;
        if (end > text) {
            json_t *row = header ? json_object() : json_array();
            if (!row) e = bt_fail(fault, BT_ENOMEM, "out of memory for a table");
            if (e == BT_OK) e = parse_line(row, header, text, end, line, fault);
            if (e == BT_OK && header) e = add_row(t, row, where, fault);
            if (header) json_decref(row);
            else header = row;
        }
        text = next;
    }
    json_decref(header);
    return e;
}

bt_err tool_calibrate_table_where(const bt_opt_list *where, bt_fault *fault)
{
    for (size_t i = 0; i < where->count; i++)
        if (!strchr(where->items[i], '='))
            return bt_fail(fault, BT_EARG, "--where '%.40s': must be COLUMN=VALUE", where->items[i]);
    return BT_OK;
}

bt_err tool_calibrate_table_parse(tool_calibrate_table *t, const char *text, size_t len,
                                  const bt_opt_list *where, bt_fault *fault)
{
    const uint32_t before = t->rows, left_out = t->left_out;
    size_t first = 0;
    if (len > TOOL_CALIBRATE_TABLE_BYTES)
        return bt_fail(fault, BT_ELIMIT, "%zu bytes; a table has at most %d", len,
                       TOOL_CALIBRATE_TABLE_BYTES);
    t->seen = 0;
    while (first < len && text[first] && strchr(" \t\r\n", text[first])) first++;
    const bool is_json = first < len && (text[first] == '{' || text[first] == '[');
    const bt_err e = (is_json ? parse_json : parse_csv)(t, text, len, where, fault);
    if (e < 0) return e;
    if (t->rows == before)
        return bt_fail(fault, where && where->count && t->left_out == left_out ? BT_EARG : BT_EFORMAT,
                       "no row gives a time (%u rows%s%.70s%s)", t->seen, t->why_left_out[0] ? "; " : "",
                       t->why_left_out, where && where->count ? "; --where chose" : "");
    return BT_OK;
}

bt_err tool_calibrate_table_read(tool_calibrate_table *t, const char *path, const bt_opt_list *where,
                                 bt_fault *fault)
{
    bt_fault inner = {""};
    bt_buf b;
    bt_buf_init(&b, TOOL_CALIBRATE_TABLE_BYTES);
    bt_err e = bt_file_read(&b, path, fault);
    if (e == BT_OK && (e = tool_calibrate_table_parse(t, bt_buf_text(&b), b.len, where, &inner)) < 0)
        (void)bt_fail(fault, e, "%.60s: %.230s", path, inner.text);
    bt_buf_done(&b);
    return e;
}

bt_err tool_calibrate_table_point(tool_calibrate_table *t, const char *text, bt_fault *fault)
{
    static const char form_words[] = "prefill:TOKENS=TIME or decode:BATCH@CONTEXT=TIME";
    const bool is_prefill = !strncmp(text, "prefill:", 8), is_decode = !strncmp(text, "decode:", 7);
    const char *s = text + (is_prefill ? 8 : 7);
    char figure[32];
    bt_fault inner = {""};
    double batch = 1, tokens, n, ns = 0;
    if (!is_prefill && !is_decode)
        return bt_fail(fault, BT_EARG, "--point '%.40s': must be %s", text, form_words);
    if (is_decode) batch = digits(&s);
    if (is_decode && *s++ != '@')
        return bt_fail(fault, BT_EARG, "--point '%.40s': must be %s", text, form_words);
    tokens = digits(&s);
    const size_t len = *s == '=' ? strspn(s + 1, "0123456789.+-") : 0;
    if (!len || len >= sizeof figure)
        return bt_fail(fault, BT_EARG, "--point '%.40s': must be %s", text, form_words);
    memcpy(figure, s + 1, len);
    figure[len] = 0;
    const unit *u = unit_of(s + 1 + len);
    if (!u)
        return bt_fail(fault, BT_EARG,
                       "--point '%.40s': '%.20s' has no unit that is known: " UNITS " is needed", text,
                       s + 1);
    if (bt_num_double(&n, figure, -1e15, 1e15, NULL) < 0 || !(n > 0))
        return bt_fail(fault, BT_EARG, "--point '%.40s': a time is a number above 0", text);
    if (is_decode && batch != 1 && !(u->ns > 0))
        return bt_fail(fault, BT_EARG,
                       "--point '%.40s': tokens a second of a batch may be of one or of all of it; give "
                       "the time of a step",
                       text);
    ns = u->ns > 0 ? n * u->ns : 1e9 * (is_prefill ? tokens : 1) / n;
    reader r = {.t = t, .fault = &inner};
    t->seen = t->rows + 1;
    const bt_err e = is_prefill ? add_prompt(&r, tokens, ns) : add_step(&r, batch, tokens, ns);
    if (e < 0) return bt_fail(fault, BT_EARG, "--point '%.40s': %.150s", text, inner.text);
    t->rows++;
    if (!t->on[0]) (void)snprintf(t->on, sizeof t->on, "points that were typed");
    return BT_OK;
}

/* ---- points that judge ---- */

static int by_tokens(const void *a, const void *b)
{
    const tool_calibrate_prompt *x = a, *y = b;
    return (x->tokens > y->tokens) - (x->tokens < y->tokens);
}

static int by_batch(const void *a, const void *b)
{
    const tool_calibrate_step *x = a, *y = b;
    if (x->batch != y->batch) return x->batch < y->batch ? -1 : 1;
    return (x->ctx > y->ctx) - (x->ctx < y->ctx);
}

static bool is_held(size_t i, size_t n)
{
    enum { ENOUGH = 6 };
    return n >= ENOUGH && i % 3 == 1 && i + 1 < n;
}

void tool_calibrate_table_hold(tool_calibrate_points *fit, tool_calibrate_points *held,
                               const tool_calibrate_points *all)
{
    tool_calibrate_points p = *all;
    qsort(p.prompt, p.prompts, sizeof *p.prompt, by_tokens);
    qsort(p.step, p.steps, sizeof *p.step, by_batch);
    fit->prompts = fit->steps = held->prompts = held->steps = 0;
    for (size_t i = 0; i < p.prompts; i++) {
        tool_calibrate_points *to = is_held(i, p.prompts) ? held : fit;
        to->prompt[to->prompts++] = p.prompt[i];
    }
    for (size_t i = 0; i < p.steps; i++) {
        tool_calibrate_points *to = is_held(i, p.steps) ? held : fit;
        to->step[to->steps++] = p.step[i];
    }
}
