/* The four formats that are CSV with a header: one table has the meaning of each column. */
#include "trace/private.h"

#include <string.h>

typedef enum meaning {
    NOT_READ,
    WALL,    /* a wall clock; the first row is 0 */
    SECONDS, /* since the trace's beginning */
    INPUT,
    OUTPUT,
    OUTPUT_OR_FAILED, /* 0: it failed */
    SESSION,
    MODEL,
    KIND,  /* splitwise: 2 is an LLM request */
    BATCH, /* splitwise: requests in one; 1 */
} meaning;

static const struct column {
    bt_trace_format format;
    const char *name;
    meaning meaning;
    bool is_needed;
} columns[] = {
    {BT_TRACE_AZURE, "TIMESTAMP", WALL, false},
    {BT_TRACE_AZURE, "ContextTokens", INPUT, true},
    {BT_TRACE_AZURE, "GeneratedTokens", OUTPUT, false},
    {BT_TRACE_BURSTGPT, "Timestamp", SECONDS, true},
    {BT_TRACE_BURSTGPT, "Model", MODEL, false},
    {BT_TRACE_BURSTGPT, "Request tokens", INPUT, true},
    {BT_TRACE_BURSTGPT, "Response tokens", OUTPUT_OR_FAILED, true},
    {BT_TRACE_BURSTGPT, "Session ID", SESSION, false},
    {BT_TRACE_SPLITWISE, "arrival_timestamp", SECONDS, true},
    {BT_TRACE_SPLITWISE, "prompt_size", INPUT, true},
    {BT_TRACE_SPLITWISE, "token_size", OUTPUT, true},
    {BT_TRACE_SPLITWISE, "request_type", KIND, false},
    {BT_TRACE_SPLITWISE, "batch_size", BATCH, false},
    {BT_TRACE_VIDUR, "arrived_at", SECONDS, false},
    {BT_TRACE_VIDUR, "num_prefill_tokens", INPUT, true},
    {BT_TRACE_VIDUR, "num_decode_tokens", OUTPUT, true},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static bool is_name(const char *name, const char *text, size_t len)
{
    return strlen(name) == len && memcmp(name, text, len) == 0;
}

bt_trace_format bt_trace_csv_format(const char *line, size_t len)
{
    const char *at = line, *field;
    size_t n;
    while (bt_trace_field(&field, &n, &at, line + len, ','))
        for (size_t i = 0; i < COLUMNS; i++)
            if (columns[i].meaning == INPUT && is_name(columns[i].name, field, n)) return columns[i].format;
    return BT_TRACE_AUTO;
}

static const struct column *find(bt_trace_format format, const char *text, size_t len)
{
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].format == format && is_name(columns[i].name, text, len)) return &columns[i];
    return NULL;
}

bt_err bt_trace_csv_header(bt_trace *t, bt_trace_format format, char *line, size_t len, bt_fault *fault)
{
    const char *at = line, *field;
    size_t n;
    bool is_there[COLUMNS] = {false};
    while (bt_trace_field(&field, &n, &at, line + len, ',')) {
        const struct column *c = find(format, field, n);
        if (t->csv.len == BT_TRACE_MAX_COLUMNS)
            return bt_fail(fault, BT_EFORMAT, "line %llu: more than %d columns",
                           (unsigned long long)t->in.line, BT_TRACE_MAX_COLUMNS);
        if (c && is_there[c - columns])
            return bt_fail(fault, BT_EFORMAT, "line %llu: two columns are called '%s'",
                           (unsigned long long)t->in.line, c->name);
        if (c) is_there[c - columns] = true;
        t->csv.meaning[t->csv.len++] = (uint8_t)(c ? c->meaning : NOT_READ);
    }
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].format == format && columns[i].is_needed && !is_there[i])
            return bt_fail(fault, BT_EFORMAT, "line %llu: no column '%s', so it is no %s trace",
                           (unsigned long long)t->in.line, columns[i].name, bt_trace_format_names[format]);
    return BT_OK;
}

static const char *name_of(const bt_trace *t, meaning m)
{
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].format == t->facts.format && columns[i].meaning == m) return columns[i].name;
    return "";
}

static bt_err take_name(const char **ret, char room[BT_TRACE_MAX_NAME + 1], bt_trace_place at,
                        const char *text, size_t len, bt_fault *fault)
{
    if (len > BT_TRACE_MAX_NAME) return bt_trace_bad(fault, at, text, len, "is longer than 256 bytes");
    memcpy(room, text, len);
    room[len] = 0;
    *ret = len ? room : NULL;
    return BT_OK;
}

static bt_err take(bt_trace_row *row, bt_trace *t, meaning m, const char *text, size_t len, bt_fault *fault)
{
    const bt_trace_place at = {t->in.line, name_of(t, m)};
    bt_err e = BT_OK;
    switch (m) {
    case NOT_READ: break;
    case WALL:
        e = bt_trace_wall(&row->arrival_us, at, text, len, fault);
        row->has_arrival = true;
        break;
    case SECONDS:
        e = bt_trace_seconds(&row->arrival_us, at, text, len, fault);
        row->has_arrival = true;
        break;
    case INPUT: e = bt_trace_tokens(&row->input_tokens, at, text, len, fault); break;
    case OUTPUT:
    case OUTPUT_OR_FAILED:
        e = bt_trace_tokens(&row->output_tokens, at, text, len, fault);
        row->has_output = true;
        row->is_failed = m == OUTPUT_OR_FAILED && row->output_tokens == 0;
        break;
    case SESSION: e = take_name(&row->session, t->session, at, text, len, fault); break;
    case MODEL: e = take_name(&row->model, t->model, at, text, len, fault); break;
    case KIND:
        if (!is_name("2", text, len)) e = bt_trace_bad(fault, at, text, len, "is no LLM request, which is 2");
        break;
    case BATCH:
        if (!is_name("1", text, len))
            e = bt_trace_bad(fault, at, text, len, "is not 1: one row is one request");
        break;
    }
    return e;
}

bt_err bt_trace_csv_next(bt_trace_row *ret, bool *is_end, bt_trace *t, bt_fault *fault)
{
    char *line;
    size_t len, n, i = 0;
    const char *field;
    bt_err e = bt_trace_input_line(&line, &len, &t->in, fault);
    if (e < 0) return e;
    *is_end = !line;
    if (!line) return BT_OK;
    const char *at = line;
    *ret = (bt_trace_row){.line = t->in.line};
    for (; e == BT_OK && bt_trace_field(&field, &n, &at, line + len, ','); i++) {
        if (i < t->csv.len) e = take(ret, t, (meaning)t->csv.meaning[i], field, n, fault);
    }
    if (e < 0) return e;
    if (i != t->csv.len)
        return bt_fail(fault, BT_EFORMAT, "line %llu: %zu columns; the header has %zu",
                       (unsigned long long)t->in.line, i, t->csv.len);
    if (ret->has_arrival && t->facts.format == BT_TRACE_AZURE) {
        if (!t->has_base) t->base_us = ret->arrival_us;
        t->has_base = true;
        ret->arrival_us -= t->base_us;
    }
    return BT_OK;
}
